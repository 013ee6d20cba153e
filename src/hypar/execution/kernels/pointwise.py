"""Other elementwise functions, by name, with the parameters that PyTorch gives them by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution import normalisation
from hypar.execution.boxes import Array, Box, Piece, put, take
from hypar.execution.computing.elementwise import FUNCTIONS, Elementwise
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Pointwise(Elementwise):
    """A named function; ``lrn`` reads neighbouring channels as well, and so holds and needs more than its output."""

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value."""
        return FUNCTIONS[_name(layer)].value(local)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative."""
        return np.where(np.isnan(local), np.nan, FUNCTIONS[_name(layer)].slope(local))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        box = self.output(layer, piece)
        if _name(layer) == "lrn":
            channels = normalisation.channels(piece["channels"], layer.shape["channels"])
            return ((box[0], channels.elements, *box[2:]),)
        return (box,)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the function's values."""
        if _name(layer) != "lrn":
            return super().forward(layer, inputs, parameters, piece, sums)
        (box,) = self.boxes(layer, piece)
        channels = normalisation.channels(piece["channels"], layer.shape["channels"])
        value = normalisation.forward(take(inputs[0], box), channels)
        return put(output_shape(layer, inputs), self.output(layer, piece), value)

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the error times the derivative."""
        if _name(layer) != "lrn":
            return super().backward(layer, inputs, parameters, error, piece, sums, back_sums)
        (box,) = self.boxes(layer, piece)
        channels = normalisation.channels(piece["channels"], layer.shape["channels"])
        local = take(error, self.output(layer, piece))
        value = normalisation.backward(take(inputs[0], box), local, channels)
        return Gradients((put(inputs[0].shape, box, value),), {})


def _name(layer: Layer) -> str:
    op: Any = layer.op
    name: str = op.function
    return name


plugin: Kernel = Pointwise()
