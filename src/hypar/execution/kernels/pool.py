"""Pooling over height and width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.computing.resampling import Resampling
from hypar.execution.taps import gather, scatter

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Indices, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer
    from hypar.network.windows import Window


class Pool(Resampling):
    """The mean of each window, padding counted as zeros; or its largest element, the first of equal ones."""

    def weights(self, window: Window, outputs: Indices, taps: Indices, size: int) -> Array:
        """Return one by the elements of a window, those beyond the padding left out."""
        first = outputs * window.stride - window.padding
        counted = np.minimum(first + window.kernel, size + window.padding) - first
        return np.broadcast_to(1 / counted[:, None], taps.shape)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the means, or the largest elements."""
        op: Any = layer.op
        if op.mode == "average":
            return super().forward(layer, inputs, parameters, piece, sums)
        value, _ = self._largest(layer, inputs[0], piece)
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
        """Return each window's error, in equal parts, or at its largest element and zero at the others."""
        op: Any = layer.op
        if op.mode == "average":
            return super().backward(layer, inputs, parameters, error, piece, sums, back_sums)
        value, chosen = self._largest(layer, inputs[0], piece)
        local = np.where(np.isnan(value), np.nan, take(error, self.output(layer, piece)))
        rows, columns = self.readings(layer, piece)
        kernel = rows.taps.shape[1], columns.taps.shape[1]
        hits = chosen[:, None] == np.arange(kernel[0] * kernel[1])[:, None, None, None]
        taps = np.where(hits, local.transpose(1, 0, 2, 3)[:, None], 0.0)
        taps = taps.reshape(len(taps), *kernel, *taps.shape[2:])
        (box,) = self.boxes(layer, piece)
        return Gradients((put(inputs[0].shape, box, scatter(taps, rows, columns)),), {})

    def _largest(self, layer: Layer, image: Array, piece: Piece) -> tuple[Array, Indices]:
        """Return the largest element of each window, NaN above all numbers; and the number of its tap, channels first."""
        (box,) = self.boxes(layer, piece)
        windows = gather(take(image, box), *self.readings(layer, piece), border=-np.inf)
        channels, height, width, *places = windows.shape
        windows = windows.reshape(channels, height * width, *places)
        chosen = windows.argmax(axis=1)
        value = np.take_along_axis(windows, chosen[:, None], axis=1)[:, 0]
        return value.transpose(1, 0, 2, 3), chosen


plugin: Kernel = Pool()
