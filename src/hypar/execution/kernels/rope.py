"""Rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer

BASE = 10_000.0
"""The longest period of a rotation, over two pi (Su and others, RoFormer, 2021, section 3.2)."""


class Rope(Kernel):
    """The halves of a dim rotated by angles that grow with the position; errors are rotated back."""

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the rotated elements."""
        return self._rotated(layer, inputs[0], piece, 1.0)

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
        """Return the error rotated the other way."""
        return Gradients((self._rotated(layer, error, piece, -1.0),), {})

    def _rotated(self, layer: Layer, whole: Array, piece: Piece, sign: float) -> Array:
        op: Any = layer.op
        axes = ("batch", *layer.shape)
        along, features = axes.index(op.over), axes.index(op.dim)
        half = layer.shape[op.dim] // 2
        angles = piece[op.over][:, None] * BASE ** (-np.arange(half) / half)
        shape = [1] * len(axes)
        shape[along], shape[features] = angles.shape
        angles = (angles if along < features else angles.T).reshape(shape)
        box = self.output(layer, piece)
        one, two = np.split(take(whole, box), 2, axis=features)
        turned = np.concatenate(
            [
                one * np.cos(angles) - sign * two * np.sin(angles),
                two * np.cos(angles) + sign * one * np.sin(angles),
            ],
            axis=features,
        )
        return put(whole.shape, box, turned)


plugin: Kernel = Rope()
