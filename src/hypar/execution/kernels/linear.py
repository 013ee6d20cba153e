"""Fully connected layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.boxes import put, take
from hypar.execution.kernels.base import Gradients, Kernel, Weighted, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.kernels.base import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Linear(Weighted):
    """A multiplication of matrices."""

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[in_channels, out_channels]``."""
        return layer.input_shapes[0]["channels"], layer.shape["channels"]

    def fan_in(self, layer: Layer) -> float:
        """Return the number of input channels."""
        return layer.input_shapes[0]["channels"]

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return piece["batch"], piece["out_channels"]

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        return ((piece["batch"], piece["in_channels"]),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's input channels."""
        (box,) = self.boxes(layer, piece)
        weight = take(parameters["weight"], (piece["in_channels"], piece["out_channels"]))
        return put(output_shape(layer, inputs), self.output(layer, piece), take(inputs[0], box) @ weight)

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
        """Return the terms of the piece's output channels for the input, of its batch for the weight."""
        (box,) = self.boxes(layer, piece)
        held = (piece["in_channels"], piece["out_channels"])
        local = take(error, self.output(layer, piece))
        back = put(inputs[0].shape, box, local @ take(parameters["weight"], held).T)
        weight = put(parameters["weight"].shape, held, take(inputs[0], box).T @ local)
        return Gradients((back,), {"weight": weight})


plugin: Kernel = Linear()
