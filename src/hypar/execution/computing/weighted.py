"""Ops with a weight: its initial values, and the bias."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Kernel

if TYPE_CHECKING:
    import numpy as np

    from hypar.execution.boxes import Array, Box
    from hypar.execution.computing.kernel import Parameters
    from hypar.network.layer import Layer


class Weighted(Kernel):
    """A kernel of an op with a weight and perhaps a bias for every output channel."""

    @abstractmethod
    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the weight's shape."""

    @abstractmethod
    def fan_in(self, layer: Layer) -> float:
        """Return the number of products that an output element adds up."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return a normal weight that keeps the variance of its input, and a small bias."""
        scale = 1 / math.sqrt(self.fan_in(layer))
        values = {"weight": random.normal(scale=scale, size=self.weight_shape(layer))}
        if "bias" in layer.op.parameters(layer.input_shapes):
            values["bias"] = random.normal(scale=0.1, size=self.bias_shape(layer))
        return values

    def bias_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the bias's shape: a number for each channel."""
        return (layer.shape["channels"],)

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the sum of all terms with the bias added."""
        if "bias" not in parameters:
            return value
        return value + parameters["bias"].reshape(-1, *[1] * (value.ndim - 2))

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the sum of the error over all but the channels."""
        if "bias" not in parameters:
            return {}
        local = take(error, box)
        over = tuple(axis for axis in range(local.ndim) if axis != 1)
        return {"bias": put(parameters["bias"].shape, (box[1],), local.sum(over))}
