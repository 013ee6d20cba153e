"""Other elementwise functions, by name, with the parameters that PyTorch gives them by default."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.execution import normalisation
from hypar.execution.boxes import Array, Box, Piece, put, take
from hypar.execution.kernels.base import Elementwise, Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.execution.kernels.base import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


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


class Pointwise(Elementwise):
    """A named function; ``lrn`` reads neighbouring channels as well, and so holds and needs more than its output."""

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value."""
        return FUNCTIONS[_name(layer)].value(local)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative."""
        return np.where(np.isnan(local), np.nan, FUNCTIONS[_name(layer)].slope(local))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        box = self.output(layer, piece)
        if _name(layer) == "lrn":
            channels = normalisation.channels(piece["channels"], layer.shape["channels"])
            return ((box[0], channels.elements, *box[2:]),)
        return (box,)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the function's values."""
        if _name(layer) != "lrn":
            return super().forward(layer, inputs, parameters, piece, sums)
        (box,) = self.boxes(layer, piece)
        channels = normalisation.channels(piece["channels"], layer.shape["channels"])
        value = normalisation.forward(take(inputs[0], box), channels)
        return put(output_shape(layer, inputs), self.output(layer, piece), value)

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
        if _name(layer) != "lrn":
            return super().backward(layer, inputs, parameters, error, piece, sums, back_sums)
        (box,) = self.boxes(layer, piece)
        channels = normalisation.channels(piece["channels"], layer.shape["channels"])
        local = take(error, self.output(layer, piece))
        value = normalisation.backward(take(inputs[0], box), local, channels)
        return Gradients((put(inputs[0].shape, box, value),), {})


def _name(layer: Layer) -> str:
    op: Any = layer.op
    name: str = op.function
    return name


plugin: Kernel = Pointwise()
