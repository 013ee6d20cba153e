"""Ops with a matrix, over a vector or over every position of named dims."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.products import boxed, letters
from hypar.execution.computing.weighted import Weighted
from hypar.network.dims import MADE, READ

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Matrices(Weighted):
    """A multiplication of matrices at every position."""

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the sizes of the dims that are contracted and of those that are made."""
        einsum = layer.einsum(1)
        return tuple(einsum.sizes[dim] for dim in einsum.weight)

    def bias_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the sizes of the dims that are made."""
        einsum = layer.einsum(1)
        return tuple(einsum.sizes[dim] for dim in einsum.weight if dim.startswith(MADE))

    def fan_in(self, layer: Layer) -> float:
        """Return the number of products of an output element."""
        sizes = layer.einsum(1).sizes
        return math.prod(size for dim, size in sizes.items() if dim.startswith(READ))

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        return (boxed(layer, "input", piece),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's part of the dims that are contracted."""
        (box,) = self.boxes(layer, piece)
        weight = take(parameters["weight"], weight_box(layer, piece))
        read, made, held = (letters(layer, tensor) for tensor in ("input", "output", "weight"))
        value = np.einsum(f"{read},{held}->{made}", take(inputs[0], box), weight, optimize=True)
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
        (box,) = self.boxes(layer, piece)
        held = weight_box(layer, piece)
        local, weight = take(error, self.output(layer, piece)), take(parameters["weight"], held)
        read, made, of_weight = (letters(layer, tensor) for tensor in ("input", "output", "weight"))
        back = np.einsum(f"{made},{of_weight}->{read}", local, weight, optimize=True)
        gradient = np.einsum(f"{read},{made}->{of_weight}", take(inputs[0], box), local, optimize=True)
        return Gradients(
            (put(inputs[0].shape, box, back),),
            {"weight": put(parameters["weight"].shape, held, gradient)},
        )

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the sum of all terms with the bias added, whose dims are the output's last ones."""
        return value + parameters["bias"] if "bias" in parameters else value

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the sum of the error over all positions."""
        if "bias" not in parameters:
            return {}
        shape = parameters["bias"].shape
        own, local = box[len(box) - len(shape) :], take(error, box)
        over = tuple(range(local.ndim - len(shape)))
        return {"bias": put(shape, own, local.sum(over))}


def weight_box(layer: Layer, piece: Piece) -> Box:
    """Return the box of the weight that a piece reads."""
    return tuple(piece[dim] for dim in layer.einsum(1).weight)
