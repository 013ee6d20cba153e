"""Ops that meet each element with a trained number."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel
from hypar.execution.computing.statistics import applied, summed

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Trained(Kernel):
    """A function of each element and of a trained number; its gradient is summed over all elements that share that one.

    Attributes:
        mean: mean of the initial numbers.
    """

    mean = 0.0

    @abstractmethod
    def value(self, local: Array, trained: Array) -> Array:
        """Return the function's value."""

    @abstractmethod
    def slopes(self, local: Array, trained: Array) -> tuple[Any, Any]:
        """Return its derivatives, by the element and by the trained number."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return numbers around the mean."""
        rows = layer.op.table("weight")
        sizes = [layer.shape[dim] for dim in layer.op.parameter_dims("weight", layer.shape)]
        return {"weight": random.normal(self.mean, 0.1, size=[*([rows] if rows else []), *sizes])}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the function's values."""
        box = self.output(layer, piece)
        value = self.value(take(inputs[0], box), self._applied(layer, parameters["weight"], piece))
        return put(inputs[0].shape, box, value)

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the gradient of the trained tensor."""
        box = self.output(layer, piece)
        _, slope = self.slopes(take(inputs[0], box), self._applied(layer, parameters["weight"], piece))
        local = take(error, box) * slope
        rows = layer.op.table("weight")
        if not rows:
            return {"weight": summed(layer, local, piece, "weight", len(error))}
        found = np.full(parameters["weight"].shape, np.nan)
        dims = layer.op.parameter_dims("weight", layer.shape)
        found[np.ix_(np.arange(rows), *(piece[dim] for dim in dims))] = 0.0
        np.add.at(found, self._places(layer, piece, rows), local.sum(0, keepdims=True))
        return {"weight": found}

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
        """Return the error times the derivative by the element."""
        box = self.output(layer, piece)
        slope, _ = self.slopes(take(inputs[0], box), self._applied(layer, parameters["weight"], piece))
        return Gradients((put(error.shape, box, take(error, box) * slope),), {})

    def _applied(self, layer: Layer, weight: Array, piece: Piece) -> Array:
        """Return the trained number of each element of a piece."""
        rows = layer.op.table("weight")
        if not rows:
            return applied(layer, weight, piece, "weight")
        found: Array = weight[self._places(layer, piece, rows)]
        return found

    @staticmethod
    def _places(layer: Layer, piece: Piece, rows: int) -> tuple[Any, ...]:
        """Return the place in the table of each element of a piece: rows by turns, in the order of the dims without a number."""
        axes = ("batch", *layer.shape)

        def along(dim: str) -> Any:
            return piece[dim].reshape([-1 if own == dim else 1 for own in axes])

        own = layer.op.parameter_dims("weight", layer.shape)
        place: Any = np.zeros([1] * len(axes), dtype=np.intp)
        for dim, size in layer.shape.items():
            if dim not in own:
                place = place * size + along(dim)
        return (place % rows, *(along(dim) for dim in own))
