"""Scale of a layer by trained numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.execution.computing.trained import Trained

if TYPE_CHECKING:
    from hypar.execution.boxes import Array
    from hypar.execution.computing.kernel import Kernel


class LayerScale(Trained):
    """The product of the input and the trained tensor."""

    mean = 1.0

    def value(self, local: Array, trained: Array) -> Array:
        """Return the product."""
        return local * trained

    def slopes(self, local: Array, trained: Array) -> tuple[Any, Any]:
        """Return each factor for the other."""
        return trained, local


plugin: Kernel = LayerScale()
