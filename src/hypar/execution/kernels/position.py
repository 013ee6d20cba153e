"""Learned positions: a trained tensor that is added to every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel
from hypar.execution.computing.statistics import applied, summed

if TYPE_CHECKING:
    import numpy as np

    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Position(Kernel):
    """The input and the trained tensor added up; its gradient is the sum of the error over the samples."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return small numbers."""
        return {"weight": random.normal(scale=0.1, size=tuple(layer.shape.values()))}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the sum."""
        box = self.output(layer, piece)
        value = take(inputs[0], box) + applied(layer, parameters["weight"], piece, "weight")
        return put(inputs[0].shape, box, value)

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the gradient of the trained tensor."""
        return {"weight": summed(layer, take(error, self.output(layer, piece)), piece, "weight", len(error))}

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
        """Return the error."""
        box = self.output(layer, piece)
        return Gradients((put(error.shape, box, take(error, box)),), {})


plugin: Kernel = Position()
