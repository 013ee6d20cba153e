"""Concatenation of tensors along their channels."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Indices, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Concat(Kernel):
    """The inputs' channels side by side: a piece reads of each input the channels that it names of the output."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of each input that a piece reads."""
        batch, _, *image = self.output(layer, piece)
        return tuple((batch, made - first, *image) for first, made in self._parts(layer, piece))

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the channels of all inputs."""
        box = self.output(layer, piece)
        local = [take(whole, read) for whole, read in zip(inputs, self.boxes(layer, piece), strict=True)]
        return put(output_shape(layer, inputs), box, np.concatenate(local, axis=1))

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
        """Return for each input the error of its channels."""
        batch, _, *image = self.output(layer, piece)
        backs = [
            put(whole.shape, (batch, made - first, *image), take(error, (batch, made, *image)))
            for whole, (first, made) in zip(inputs, self._parts(layer, piece), strict=True)
        ]
        return Gradients(tuple(backs), {})

    @staticmethod
    def _parts(layer: Layer, piece: Piece) -> list[tuple[int, Indices]]:
        """Return the first output channel of each input, and the output channels that the piece names of it."""
        ends = list(accumulate((shape["channels"] for shape in layer.input_shapes), initial=0))
        cuts = np.searchsorted(piece["channels"], ends)
        return [(ends[part], piece["channels"][cuts[part] : cuts[part + 1]]) for part in range(len(ends) - 1)]


plugin: Kernel = Concat()
