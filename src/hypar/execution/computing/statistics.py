"""Ops that need sums over a dim: shares and normalisations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


EPSILON = 1e-5
"""Added to every variance, as PyTorch does by default."""


def summed(layer: Layer, local: Array, piece: Piece, name: str, batch: int) -> Array:
    """Return the sum of a piece's elements over the dims that a statistic runs over, as an array over all others."""
    reduced, shape = layer.op.reduced(name, layer.shape), {"batch": batch, **layer.shape}
    over = tuple(axis for axis, dim in enumerate(shape) if dim in reduced)
    kept = [dim for dim in shape if dim not in reduced]
    return put(tuple(shape[dim] for dim in kept), tuple(piece[dim] for dim in kept), local.sum(over))


def applied(layer: Layer, values: Array, piece: Piece, name: str) -> Array:
    """Return a statistic's numbers for a piece so that they apply to activations."""
    reduced = layer.op.reduced(name, layer.shape)
    dims = ("batch", *layer.shape)
    local = take(values, tuple(piece[dim] for dim in dims if dim not in reduced))
    return np.expand_dims(local, tuple(axis for axis, dim in enumerate(dims) if dim in reduced))


class Shares(Kernel):
    """``exp(x) / sum of exp(x)``; the largest x is not subtracted first, so that sums alone need all of a dim."""

    def exponentials(self, layer: Layer, local: Array, piece: Piece) -> Array:
        """Return the exponentials of some elements."""
        found: Array = np.exp(local)
        return found

    def slopes(self, layer: Layer, local: Array) -> Array | float:
        """Return the derivative of the logarithm of ``exponentials`` at some elements."""
        return 1.0

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the piece's exponentials."""
        exponentials = self.exponentials(layer, take(inputs[0], self.output(layer, piece)), piece)
        return {"exponential": summed(layer, exponentials, piece, "exponential", len(inputs[0]))}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the exponentials over their sums."""
        return put(inputs[0].shape, self.output(layer, piece), self._shares(layer, inputs[0], piece, sums))

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of the error times the piece's output."""
        products = take(error, self.output(layer, piece)) * self._shares(layer, inputs[0], piece, sums)
        return {"product": summed(layer, products, piece, "product", len(error))}

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
        """Return the output times the error less its mean, times the slopes."""
        box = self.output(layer, piece)
        mean = applied(layer, back_sums["product"], piece, "product")
        value = self._shares(layer, inputs[0], piece, sums) * (take(error, box) - mean)
        value = value * self.slopes(layer, take(inputs[0], box))
        return Gradients((put(error.shape, box, value),), {})

    def _shares(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> Array:
        """Return the piece's output."""
        total = applied(layer, sums["exponential"], piece, "exponential")
        own = take(whole, self.output(layer, piece))
        shares: Array = self.exponentials(layer, own, piece) / total
        return shares


class Normalised(Kernel):
    """Normalisation over some dims of each position: of what is left of the input after its mean, if it takes one."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return weights around 1 and biases around 0."""
        means = {"weight": 1.0, "bias": 0.0}
        return {
            name: random.normal(
                means[name], 0.1, [layer.shape[dim] for dim in layer.op.parameter_dims(name, layer.shape)]
            )
            for name in layer.op.parameters(layer.input_shapes)
        }

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the elements and of their squares at each position."""
        local = take(inputs[0], self.output(layer, piece))
        every = {"sum": local, "square": local**2}
        return {name: summed(layer, every[name], piece, name, len(inputs[0])) for name in layer.op.statistics}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the normalised elements, scaled and shifted."""
        value, _ = self._normalised(layer, inputs[0], piece, sums)
        for name, apply in (("weight", np.multiply), ("bias", np.add)):
            if name in parameters:
                value = apply(value, applied(layer, parameters[name], piece, name))
        return put(inputs[0].shape, self.output(layer, piece), value)

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of what the error of the normalised elements is made of, and the parameters' gradients."""
        normalised, _ = self._normalised(layer, inputs[0], piece, sums)
        local = take(error, self.output(layer, piece))
        scaled = self._scaled(layer, local, parameters, piece)
        every = {"error": scaled, "product": scaled * normalised, "weight": local * normalised, "bias": local}
        return {
            name: summed(layer, every[name], piece, name, len(error)) for name in layer.op.back_statistics
        }

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
        """Return the error of the input; the parameters' gradients are ``back_sums``."""
        normalised, deviation = self._normalised(layer, inputs[0], piece, sums)
        box, count = self.output(layer, piece), self.count(layer)
        value = self._scaled(layer, take(error, box), parameters, piece)
        value = value - normalised * self.applied(layer, back_sums["product"], piece, "product") / count
        if "error" in back_sums:
            value = value - self.applied(layer, back_sums["error"], piece, "error") / count
        return Gradients((put(error.shape, box, value / deviation),), {})

    def _normalised(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> tuple[Array, Array]:
        """Return the normalised elements of a piece, and what they were divided by."""
        count, local = self.count(layer), take(whole, self.output(layer, piece))
        square = self.applied(layer, sums["square"], piece, "square") / count
        if "sum" not in sums:
            deviation = np.sqrt(square + EPSILON)
            return local / deviation, deviation
        mean = self.applied(layer, sums["sum"], piece, "sum") / count
        deviation = np.sqrt(square - mean**2 + EPSILON)
        return (local - mean) / deviation, deviation

    def applied(self, layer: Layer, values: Array, piece: Piece, name: str) -> Array:
        """Return the sums of what is normalised together, so that they apply to a piece."""
        return applied(layer, values, piece, name)

    def count(self, layer: Layer) -> int:
        """Return the number of elements that are normalised together."""
        return math.prod(layer.shape[dim] for dim in layer.op.statistics_over)

    @staticmethod
    def _scaled(layer: Layer, error: Array, parameters: Parameters, piece: Piece) -> Array:
        """Return the error of the normalised elements."""
        return (
            error * applied(layer, parameters["weight"], piece, "weight") if "weight" in parameters else error
        )
