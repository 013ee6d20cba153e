"""Convolutions and transposed ones: a multiplication of matrices for each group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.execution.boxes import Indices, put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.weighted import Weighted
from hypar.execution.taps import Reading, gather, reading, scatter

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class _Part(NamedTuple):
    """A piece of a convolution: the channels of a group, and what its outputs read along height and width."""

    groups: Indices
    weight: Box
    rows: Reading
    columns: Reading
    input: Box
    output: Box

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch, groups, input and output channels of a group, output rows and columns."""
        return (len(self.output[0]), *map(len, self.weight), *map(len, self.output[2:]))


class Convolution(Weighted):
    """A convolution or its transpose: one multiplication of matrices for each group.

    It is ``[out_channels, taps] . [taps, places]``, where taps are in_channels and the kernel, and places are batch, height
    and width.
    """

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[groups, in_channels, out_channels, kernel_height, kernel_width]``."""
        op: Any = layer.op
        read, made = layer.input_shapes[0]["channels"] // op.groups, op.out_channels // op.groups
        return op.groups, read, made, *op.kernel

    def fan_in(self, layer: Layer) -> float:
        """Return the products of an output element on average, at places without padding."""
        steps = layer.einsum(1).macs
        return max(1.0, steps / math.prod(layer.shape.values()))

    def part(self, layer: Layer, piece: Piece) -> _Part:
        """Return the boxes of a piece."""
        op: Any = layer.op
        groups, read, made, *_ = self.weight_shape(layer)
        shape = layer.input_shapes[0]
        held = piece["groups"] if groups > 1 else np.arange(1)
        rows, columns = (reading(op.windows[dim], piece[dim], shape[dim]) for dim in ("height", "width"))
        weight = (held, piece["in_channels"], piece["out_channels"])
        into, out = (
            (held[:, None] * size + dim).ravel() for size, dim in ((read, weight[1]), (made, weight[2]))
        )
        return _Part(
            groups=held,
            weight=weight,
            rows=rows,
            columns=columns,
            input=(piece["batch"], into, rows.elements, columns.elements),
            output=(piece["batch"], out, piece["height"], piece["width"]),
        )

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return self.part(layer, piece).output

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads, without gaps between its windows."""
        return (self.part(layer, piece).input,)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's input channels."""
        part = self.part(layer, piece)
        batch, groups, _, made, height, width = part.sizes
        product = self._filters(part, parameters["weight"]) @ self._windows(part, inputs[0])
        value = product.reshape(groups * made, batch, height, width).transpose(1, 0, 2, 3)
        return put(output_shape(layer, inputs), part.output, value)

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
        """Return the terms of the piece's output channels for the input, of its batch and image for the weight."""
        part = self.part(layer, piece)
        batch, groups, read, made, height, width = part.sizes
        kernel = self.weight_shape(layer)[3:]
        local = take(error, part.output)
        errors = local.transpose(1, 0, 2, 3).reshape(groups, made, batch * height * width)
        by_tap = self._windows(part, inputs[0]) @ errors.transpose(0, 2, 1)
        weight = by_tap.reshape(groups, read, *kernel, made).transpose(0, 1, 4, 2, 3)
        taps = self._filters(part, parameters["weight"]).transpose(0, 2, 1) @ errors
        taps = taps.reshape(groups * read, *kernel, batch, height, width)
        back = put(inputs[0].shape, part.input, scatter(taps, part.rows, part.columns))
        return Gradients((back,), {"weight": put(parameters["weight"].shape, part.weight, weight)})

    @staticmethod
    def _windows(part: _Part, image: Array) -> Array:
        """Return the elements that windows read: ``[groups, taps, places]``."""
        batch, groups, read, _, height, width = part.sizes
        windows = gather(take(image, part.input), part.rows, part.columns)
        return windows.reshape(groups, read * math.prod(windows.shape[1:3]), batch * height * width)

    @staticmethod
    def _filters(part: _Part, weight: Array) -> Array:
        """Return the weight: ``[groups, out_channels, taps]``."""
        filters = take(weight, part.weight)
        groups, read, made, height, width = filters.shape
        return filters.transpose(0, 2, 1, 3, 4).reshape(groups, made, read * height * width)
