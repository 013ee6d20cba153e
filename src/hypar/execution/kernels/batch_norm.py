"""Batch normalisation by the mean and variance of the whole mini-batch, wherever its samples are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel
from hypar.execution.computing.statistics import EPSILON

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class BatchNorm(Kernel):
    """``F_out = weight x + bias`` with x, the input less its channel's mean, over its standard deviation.

    Its parameters' gradients are its sums over the error, ``weight`` and ``bias``.
    """

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return weights around 1 and biases around 0."""
        means = {"weight": 1.0, "bias": 0.0}
        return {
            name: random.normal(means[name], 0.1, size)
            for name, size in layer.op.parameters(layer.input_shapes).items()
        }

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the elements and of their squares, channel by channel."""
        local = take(inputs[0], self.output(layer, piece))
        return {"sum": _summed(layer, local, piece), "square": _summed(layer, local**2, piece)}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the normalised elements, scaled and shifted."""
        value, _ = self._normalised(layer, inputs[0], piece, sums)
        for name, apply in (("weight", np.multiply), ("bias", np.add)):
            if name in parameters:
                value = apply(value, _of_channels(parameters[name], piece, value.ndim))
        return put(inputs[0].shape, self.output(layer, piece), value)

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of the error and of its products with the normalised elements."""
        normalised, _ = self._normalised(layer, inputs[0], piece, sums)
        local = take(error, self.output(layer, piece))
        return {"bias": _summed(layer, local, piece), "weight": _summed(layer, local * normalised, piece)}

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
        box = self.output(layer, piece)
        bias, weight = (
            _of_channels(back_sums[name], piece, error.ndim) / _count(layer, inputs[0])
            for name in ("bias", "weight")
        )
        value = (take(error, box) - bias - normalised * weight) / deviation
        if "weight" in parameters:
            value = value * _of_channels(parameters["weight"], piece, error.ndim)
        return Gradients((put(error.shape, box, value),), {})

    def _normalised(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> tuple[Array, Array]:
        """Return the normalised elements of a piece and the standard deviation of their channels."""
        total, square = (_of_channels(sums[name], piece, whole.ndim) for name in ("sum", "square"))
        mean = total / _count(layer, whole)
        deviation = np.sqrt(square / _count(layer, whole) - mean**2 + EPSILON)
        return (take(whole, self.output(layer, piece)) - mean) / deviation, deviation


def _count(layer: Layer, whole: Array) -> int:
    """Return the number of elements that a channel's mean is of."""
    return len(whole) * math.prod(size for dim, size in layer.shape.items() if dim != "channels")


def _summed(layer: Layer, local: Array, piece: Piece) -> Array:
    """Return the sum over batch and image as an array over all channels."""
    over = tuple(axis for axis in range(local.ndim) if axis != 1)
    return put((layer.shape["channels"],), (piece["channels"],), local.sum(over))


def _of_channels(values: Array, piece: Piece, dims: int) -> Array:
    """Return a number for each channel of a piece so that it applies to activations."""
    return take(values, (piece["channels"],)).reshape(-1, *[1] * (dims - 2))


plugin: Kernel = BatchNorm()
