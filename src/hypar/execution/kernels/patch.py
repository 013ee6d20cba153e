"""Patches of an image, each as a position of a sequence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.products import boxed
from hypar.execution.computing.weighted import Weighted
from hypar.execution.taps import reading

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Kernel, Parameters, Sums
    from hypar.network.layer import Layer


class Patch(Weighted):
    """A multiplication of matrices at every patch."""

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[in_channels, kernel_height, kernel_width, ...]`` and the sizes of the dims that are made."""
        einsum = layer.einsum(1)
        return tuple(einsum.sizes[dim] for dim in einsum.weight)

    def bias_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the sizes of the dims that are made."""
        return self.weight_shape(layer)[3:]

    def fan_in(self, layer: Layer) -> float:
        """Return the elements of a patch."""
        return math.prod(self.weight_shape(layer)[:3])

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of whole rows in which a piece's patches lie."""
        op: Any = layer.op
        (shape,) = layer.input_shapes
        rows = reading(op.windows_on(layer.input_shapes)["height"], piece[op.over], shape["height"]).elements
        return ((piece["batch"], piece["in_channels"], rows, np.arange(shape["width"])),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's channels."""
        patches = self._patches(layer, inputs[0], piece)
        weight = take(parameters["weight"], self._held(layer, piece))
        value = np.tensordot(patches, weight, axes=((2, 3, 4), (0, 1, 2)))
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
        """Return the terms of the piece's part of the dims that are made for the input, of its positions for the weight."""
        held = self._held(layer, piece)
        local, weight = take(error, self.output(layer, piece)), take(parameters["weight"], held)
        patches = self._patches(layer, inputs[0], piece)
        made = tuple(range(2, local.ndim))
        back = np.tensordot(local, weight, axes=(made, tuple(axis + 1 for axis in made)))
        gradient = np.tensordot(patches, local, axes=((0, 1), (0, 1)))
        (box,) = self.boxes(layer, piece)
        return Gradients(
            (put(inputs[0].shape, box, self._image(layer, back, piece)),),
            {"weight": put(parameters["weight"].shape, held, gradient)},
        )

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the sum of all terms with the bias added, whose dims are the output's last ones."""
        return value + parameters["bias"] if "bias" in parameters else value

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the sum of the error over all positions."""
        if "bias" not in parameters:
            return {}
        return {"bias": put(parameters["bias"].shape, box[2:], take(error, box).sum((0, 1)))}

    def _held(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the weight that a piece reads."""
        kernel = (np.arange(size) for size in self.weight_shape(layer)[1:3])
        return (piece["in_channels"], *kernel, *(piece[dim] for dim in layer.einsum(1).weight[3:]))

    def _places(self, layer: Layer, piece: Piece) -> tuple[tuple[int, ...], Any]:
        """Return the sizes of the rows of patches that a piece reads, and the place in them of each of its positions."""
        op: Any = layer.op
        ((batch, channels, rows, columns),) = self.boxes(layer, piece)
        height, width = op.kernel
        across = len(columns) // width
        first = np.searchsorted(rows, piece[op.over] // across * height) // height
        sizes = (len(batch), len(channels), len(rows) // height, height, across, width)
        return sizes, first * across + piece[op.over] % across

    def _patches(self, layer: Layer, image: Array, piece: Piece) -> Array:
        """Return the patches of a piece, ``[batch, positions, channels, kernel_height, kernel_width]``."""
        sizes, places = self._places(layer, piece)
        local = take(image, self.boxes(layer, piece)[0]).reshape(sizes).transpose(0, 2, 4, 1, 3, 5)
        batch, down, across, *rest = local.shape
        found: Array = local.reshape(batch, down * across, *rest)[:, places]
        return found

    def _image(self, layer: Layer, patches: Array, piece: Piece) -> Array:
        """Return patches at their places in the rows that a piece reads, and zeros beside them."""
        sizes, places = self._places(layer, piece)
        batch, channels, down, height, across, width = sizes
        found = np.zeros((batch, down * across, channels, height, width))
        found[:, places] = patches
        image = found.reshape(batch, down, across, channels, height, width).transpose(0, 3, 1, 4, 2, 5)
        return image.reshape(batch, channels, down * height, across * width)


plugin: Kernel = Patch()
