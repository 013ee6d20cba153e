"""Flattening of an image to a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.boxes import mask, put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Mask, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Flatten(Kernel):
    """A view: the elements of a sample in the order of its dims. A piece of it need not be a box of the image."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the flattened input."""
        return (self.output(layer, piece),)

    def reads(self, layer: Layer, batch: int, piece: Piece) -> tuple[Mask, ...]:
        """Return which elements of the image a piece reads."""
        flat = mask((batch, *layer.shape.values()), self.output(layer, piece))
        return (flat.reshape(batch, *layer.input_shapes[0].values()),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the piece's elements."""
        shape, box = output_shape(layer, inputs), self.output(layer, piece)
        return put(shape, box, take(inputs[0].reshape(shape), box))

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
        """Return the error in the shape of the image."""
        box = self.output(layer, piece)
        return Gradients((put(error.shape, box, take(error, box)).reshape(inputs[0].shape),), {})


plugin: Kernel = Flatten()
