"""Embedding: a row of a table for each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.computing.products import boxed

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Embedding(Kernel):
    """The rows of a table; the data are numbers of any size, of which the table's rows are taken in turn."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return a normal table."""
        einsum = layer.einsum(1)
        return {"weight": random.normal(size=[einsum.sizes[dim] for dim in einsum.weight])}

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the tokens that a piece reads."""
        return (boxed(layer, "input", piece),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the rows that the piece has, and zeros for the tokens of other rows."""
        place, found = self._places(layer, inputs[0], piece)
        rows = take(parameters["weight"], boxed(layer, "weight", piece))[place]
        value = rows * found.reshape(*found.shape, *[1] * (rows.ndim - found.ndim))
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
        """Return the sums of the errors of the tokens of each row, and no error for the tokens."""
        place, found = self._places(layer, inputs[0], piece)
        held = boxed(layer, "weight", piece)
        gradient = np.zeros([len(own) for own in held])
        np.add.at(gradient, place[found], take(error, self.output(layer, piece))[found])
        (box,) = self.boxes(layer, piece)
        nothing = put(inputs[0].shape, box, np.zeros([len(own) for own in box]))
        return Gradients((nothing,), {"weight": put(parameters["weight"].shape, held, gradient)})

    def _places(self, layer: Layer, tokens: Array, piece: Piece) -> tuple[Any, Any]:
        """Return the place of each token's row among those of a piece, and whether it is one of them."""
        op: Any = layer.op
        (box,) = self.boxes(layer, piece)
        rows = piece[layer.einsum(1).weight[0]]
        token = np.floor(np.abs(take(tokens, box)) * FINE).astype(np.int64) % op.rows
        place = np.minimum(np.searchsorted(rows, token), len(rows) - 1)
        return place, rows[place] == token


FINE = 2**20
"""Numbers between two whole ones that data tell apart."""

plugin: Kernel = Embedding()
