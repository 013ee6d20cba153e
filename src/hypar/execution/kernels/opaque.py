"""A stand-in for an operation that is not known: a function of whole samples that reads all of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import ModelError
from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Opaque(Kernel):
    """Every output of a sample is the sum of all elements of its inputs, each over the root of their number."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return none.

        Raises:
            ModelError: the operation has trained tensors, whose gradients are not known.
        """
        if layer.num_parameters:
            found = f"{layer.num_parameters:,} trained numbers in an opaque operation, which cannot be run"
            raise ModelError(layer.name, found, "ops that hypar knows")
        return {}

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return whole samples of the output."""
        return (piece["batch"], *(np.arange(size) for size in layer.shape.values()))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return whole samples of every input."""
        return tuple(
            (piece["batch"], *(np.arange(size) for size in shape.values())) for shape in layer.input_shapes
        )

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the sums, the same for every output of a sample."""
        box = self.output(layer, piece)
        reads = zip(inputs, self.boxes(layer, piece), strict=True)
        total = np.sum([_spread(take(whole, read)).sum(1) for whole, read in reads], axis=0)
        ones = np.ones(tuple(len(indices) for indices in box))
        return put(
            output_shape(layer, inputs), box, ones * total.reshape(len(total), *[1] * len(layer.shape))
        )

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
        """Return the sum of a sample's errors, spread over everything that it reads."""
        local = take(error, self.output(layer, piece))
        total = local.reshape(len(local), math.prod(local.shape[1:])).sum(1)
        found = []
        for whole, box in zip(inputs, self.boxes(layer, piece), strict=True):
            ones = np.ones(tuple(len(indices) for indices in box))
            slope = _spread(ones).reshape(ones.shape)
            found.append(put(whole.shape, box, slope * total.reshape(len(total), *[1] * (whole.ndim - 1))))
        return Gradients(tuple(found), {})


def _spread(local: Array) -> Array:
    """Return the elements of each sample in a row, divided so that their sum varies as one of them."""
    rows: Array = local.reshape(len(local), math.prod(local.shape[1:]))
    return rows / math.sqrt(rows.shape[1])


plugin: Kernel = Opaque()
