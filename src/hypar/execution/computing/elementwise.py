"""Functions of one element each, and their derivatives."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.execution.boxes import Array, put, take
from hypar.execution.computing.kernel import Gradients, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.execution.boxes import Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Elementwise(Kernel):
    """An op whose outputs are functions of one input element each."""

    @abstractmethod
    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value.

        Args:
            layer: the layer.
            local: elements of the input.
            box: their place in it.
        """

    @abstractmethod
    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative, NaN where the input is."""

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the values."""
        box = self.output(layer, piece)
        return put(inputs[0].shape, box, self.value(layer, take(inputs[0], box), box))

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
        """Return the error times the derivative."""
        box = self.output(layer, piece)
        value = take(error, box) * self.slope(layer, take(inputs[0], box), box)
        return Gradients((put(inputs[0].shape, box, value),), {})


class Function(NamedTuple):
    """An elementwise function and its derivative."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """Return the cumulative distribution of the normal distribution."""
    return (1 + np.asarray(_erf(x / math.sqrt(2)), dtype=np.float64)) / 2


_erf = np.frompyfunc(math.erf, 1, 1)


FUNCTIONS = {
    "elu": Function(lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: np.exp(np.minimum(x, 0))),
    "gelu": Function(
        lambda x: x * _normal(x), lambda x: _normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    ),
    "hardswish": Function(
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x <= -3, 0, np.where(x < 3, (2 * x + 3) / 6, 1)),
    ),
    "leaky_relu": Function(lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    "other": Function(lambda x: x * x / 2, lambda x: x),
    "relu6": Function(lambda x: np.clip(x, 0, 6), lambda x: np.where((x > 0) & (x < 6), 1.0, 0.0)),
    "sigmoid": Function(_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    "silu": Function(lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
    "tanh": Function(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}
"""Every function that reads one element alone; ``other`` is computed as half the square, which needs its input too."""


class Named(Elementwise):
    """An elementwise function."""

    def __init__(self, function: Function) -> None:
        """Store the function."""
        self.function = function

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value."""
        return self.function.value(local)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative."""
        return np.where(np.isnan(local), np.nan, self.function.slope(local))
