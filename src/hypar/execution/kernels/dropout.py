"""Dropout with a mask that is the same in every step and on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.execution.computing.elementwise import Elementwise
from hypar.execution.draws import uniform

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.layer import Layer


class Dropout(Elementwise):
    """Zero for the elements that the mask drops; the others are enlarged by what is dropped on average."""

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the elements that are left, enlarged."""
        return local * self.slope(layer, local, box)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return zero or the enlargement for each element, by its index in a sample and in the batch."""
        op: Any = layer.op
        kept: Array = (uniform(layer.shape.values(), box) >= op.probability) / (1 - op.probability)
        return kept


plugin: Kernel = Dropout()
