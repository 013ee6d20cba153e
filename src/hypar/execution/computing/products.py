"""Products of tensors over named dims, each dim a letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer

INPUTS = ("input", "input 1")


def letters(layer: Layer, tensor: str) -> str:
    """Return a letter for each dim of a tensor in the order of its array, as ``np.einsum`` takes them."""
    known = {dim: chr(ord("a") + number) for number, dim in enumerate(layer.einsum(1).sizes)}
    return "".join(known[dim] for dim in _dims(layer, tensor))


def boxed(layer: Layer, tensor: str, piece: Piece) -> Box:
    """Return the box of a tensor that a piece has."""
    return tuple(piece[dim] for dim in _dims(layer, tensor))


def _dims(layer: Layer, tensor: str) -> tuple[str, ...]:
    """Return the op dims of a tensor, in the order of its array."""
    einsum = layer.einsum(1)
    if tensor == "weight":
        return einsum.weight
    shape = layer.shape if tensor == "output" else layer.input_shapes[int(tensor.removeprefix("input") or 0)]
    own = {axis: dim for dim, axis in einsum.names(tensor).items()}
    return tuple(own[axis] for axis in ("batch", *shape))


class Product(Kernel):
    """A sum of products; the error of each input is the product of the output's error and the other."""

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of each input that a piece reads."""
        return tuple(boxed(layer, tensor, piece) for tensor in INPUTS)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's part of the dims that are contracted."""
        local = [take(whole, box) for whole, box in zip(inputs, self.boxes(layer, piece), strict=True)]
        one, two, made = (letters(layer, tensor) for tensor in (*INPUTS, "output"))
        value = np.einsum(f"{one},{two}->{made}", *local, optimize=True)
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
        """Return the terms of both inputs' errors."""
        boxes = self.boxes(layer, piece)
        local = [take(whole, box) for whole, box in zip(inputs, boxes, strict=True)]
        own, made = take(error, self.output(layer, piece)), letters(layer, "output")
        one, two = (letters(layer, tensor) for tensor in INPUTS)
        found = (
            _error((made, own), (two, local[1]), one),
            _error((made, own), (one, local[0]), two),
        )
        pairs = zip(inputs, boxes, found, strict=True)
        return Gradients(tuple(put(whole.shape, box, values) for whole, box, values in pairs), {})


def _error(made: tuple[str, Array], other: tuple[str, Array], result: str) -> Array:
    """Return the error of an input, the product of the output's and the other input; letters of no factor have size 1."""
    (of_made, own), (of_other, local) = made, other
    known = "".join(letter for letter in result if letter in of_made + of_other)
    found = np.einsum(f"{of_made},{of_other}->{known}", own, local, optimize=True)
    return np.expand_dims(found, tuple(axis for axis, letter in enumerate(result) if letter not in known))
