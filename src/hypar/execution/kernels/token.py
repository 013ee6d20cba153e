"""A trained token before the positions of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Indices, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Token(Kernel):
    """The token where a piece has the first position, and the positions behind it one further on."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return small numbers."""
        dims = layer.op.parameter_dims("weight", layer.shape)
        return {"weight": random.normal(scale=0.1, size=[layer.shape[dim] for dim in dims])}

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the positions before those of a piece."""
        return (self._box(layer, piece, self._behind(layer, piece) - 1),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the token and the positions behind it."""
        (box,) = self.boxes(layer, piece)
        behind = self._box(layer, piece, self._behind(layer, piece))
        value = put(output_shape(layer, inputs), behind, take(inputs[0], box))
        token = take(parameters["weight"], self._held(layer, piece))
        value[np.ix_(*self._first(layer, piece))] = np.expand_dims(token, (0, self._axis(layer)))
        return value

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the gradient of the token."""
        local = error[np.ix_(*self._first(layer, piece))].sum((0, self._axis(layer)))
        return {"weight": put(parameters["weight"].shape, self._held(layer, piece), local)}

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
        """Return the errors of the positions behind the token."""
        (box,) = self.boxes(layer, piece)
        behind = self._box(layer, piece, self._behind(layer, piece))
        return Gradients((put(inputs[0].shape, box, take(error, behind)),), {})

    @staticmethod
    def _axis(layer: Layer) -> int:
        """Return the axis of the positions."""
        op: Any = layer.op
        return 1 + [*layer.shape].index(op.over)

    @staticmethod
    def _behind(layer: Layer, piece: Piece) -> Indices:
        """Return the positions of a piece behind the token."""
        op: Any = layer.op
        own = piece[op.over]
        return own[own > 0]

    def _first(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the token in a piece, empty where the piece does not have it."""
        op: Any = layer.op
        own = piece[op.over]
        return self._box(layer, piece, own[own == 0])

    @staticmethod
    def _box(layer: Layer, piece: Piece, positions: Indices) -> Box:
        """Return the box of some positions."""
        op: Any = layer.op
        return tuple(positions if dim == op.over else piece[dim] for dim in ("batch", *layer.shape))

    @staticmethod
    def _held(layer: Layer, piece: Piece) -> Box:
        """Return the box of the token that a piece has."""
        return tuple(piece[dim] for dim in layer.op.parameter_dims("weight", layer.shape))


plugin: Kernel = Token()
