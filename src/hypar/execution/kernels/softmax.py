"""Softmax over the channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.kernels.base import Gradients, Kernel

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.kernels.base import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Softmax(Kernel):
    """``exp(x) / sum of exp(x)``; the largest x is not subtracted first, so that sums alone need all channels."""

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the exponentials over the piece's channels."""
        return {
            "exponential": self._summed(layer, inputs[0], np.exp(self._local(layer, inputs[0], piece)), piece)
        }

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the exponentials over their sums."""
        return put(inputs[0].shape, self.output(layer, piece), self._shares(layer, inputs[0], piece, sums))

    def back_sums(
        self, layer: Layer, inputs: Inputs, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of the error times the output over the piece's channels."""
        products = self._local(layer, error, piece) * self._shares(layer, inputs[0], piece, sums)
        return {"product": self._summed(layer, error, products, piece)}

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
        """Return the output times the error less the channels' mean error."""
        shares = self._shares(layer, inputs[0], piece, sums)
        mean = take(back_sums["product"], self._places(layer, piece))[:, None]
        value = shares * (self._local(layer, error, piece) - mean)
        return Gradients((put(error.shape, self.output(layer, piece), value),), {})

    def _local(self, layer: Layer, whole: Array, piece: Piece) -> Array:
        return take(whole, self.output(layer, piece))

    def _places(self, layer: Layer, piece: Piece) -> Box:
        """Return the piece's box of a tensor without channels."""
        batch, _, *image = self.output(layer, piece)
        return batch, *image

    def _shares(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> Array:
        """Return the piece's output."""
        total = take(sums["exponential"], self._places(layer, piece))[:, None]
        shares: Array = np.exp(self._local(layer, whole, piece)) / total
        return shares

    def _summed(self, layer: Layer, whole: Array, local: Array, piece: Piece) -> Array:
        """Return the sum over the piece's channels as an array over all samples and pixels."""
        batch, _, *image = whole.shape
        return put((batch, *image), self._places(layer, piece), local.sum(1))


plugin: Kernel = Softmax()
