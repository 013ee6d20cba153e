"""Pooling over depth, height and width."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.computing.volumes import taps
from hypar.execution.taps import reading, within

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.execution.taps import Reading
    from hypar.network.layer import Layer

BEFORE = len(("batch", "channels"))


class Pool3d(Kernel):
    """The mean of each window, padding counted as zeros; or its largest element, the first of equal ones."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        read = (own.elements for own in self._readings(layer, piece))
        return ((piece["batch"], piece["channels"], *read),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the means, or the largest elements."""
        (box,), made, op = self.boxes(layer, piece), self.output(layer, piece), _op(layer)
        volume = take(inputs[0], box)
        if op.mode == "max":
            value, _ = self._largest(layer, volume, piece)
            return put(output_shape(layer, inputs), made, value)
        value = np.zeros(tuple(map(len, made)))
        for _, there, here in taps(self._readings(layer, piece), BEFORE):
            value[there] += volume[here]
        return put(output_shape(layer, inputs), made, value / self._terms(layer))

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
        """Return each window's error, in equal parts, or at its largest element and zero at the others."""
        (box,) = self.boxes(layer, piece)
        volume, local = take(inputs[0], box), take(error, self.output(layer, piece))
        chosen = None
        if _op(layer).mode == "max":
            value, chosen = self._largest(layer, volume, piece)
            local = np.where(np.isnan(value), np.nan, local)
        back: Array = np.zeros(volume.shape)
        for number, (_, there, here) in enumerate(taps(self._readings(layer, piece), BEFORE)):
            if chosen is None:
                back[here] += local[there] / self._terms(layer)
            else:
                back[here] += np.where(chosen[there] == number, local[there], 0.0)
        return Gradients((put(inputs[0].shape, box, back),), {})

    def _largest(self, layer: Layer, volume: Array, piece: Piece) -> tuple[Array, Any]:
        """Return the largest element of each window, NaN above all numbers; and the number of its tap."""
        value: Array = np.full(tuple(map(len, self.output(layer, piece))), -np.inf)
        chosen = np.full(value.shape, -1)
        for number, (_, there, here) in enumerate(taps(self._readings(layer, piece), BEFORE)):
            found, most = volume[here], value[there]
            above = (found > most) | (np.isnan(found) & ~np.isnan(most))
            value[there] = np.where(above, found, most)
            chosen[there] = np.where(above, number, chosen[there])
        return value, chosen

    @staticmethod
    def _readings(layer: Layer, piece: Piece) -> list[Reading]:
        """Return what a piece reads along depth, height and width: of its windows, the elements that it names if any."""
        (shape,) = layer.input_shapes
        windows = layer.op.windows_on(layer.input_shapes)
        found = {dim: reading(window, piece[dim], shape[dim]) for dim, window in windows.items()}
        return [within(own, piece.get(f"input_{dim}", own.elements)) for dim, own in found.items()]

    @staticmethod
    def _terms(layer: Layer) -> int:
        """Return the elements of a window, padding among them."""
        return math.prod(window.kernel for window in layer.op.windows_on(layer.input_shapes).values())


def _op(layer: Layer) -> Any:
    return layer.op


plugin: Kernel = Pool3d()
