"""Sum of tensors of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Add(Kernel):
    """The inputs added up; each gets the whole error."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the output for every input."""
        return (self.output(layer, piece),) * len(layer.inputs)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the sum."""
        first, *others = (take(whole, self.output(layer, piece)) for whole in inputs)
        for other in others:
            first = first + other
        return put(output_shape(layer, inputs), self.output(layer, piece), first)

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
        """Return the error for every input."""
        box = self.output(layer, piece)
        return Gradients((put(error.shape, box, take(error, box)),) * len(inputs), {})


plugin: Kernel = Add()
