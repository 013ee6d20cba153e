"""Ops without a weight that weigh the elements of windows, as pools and interpolations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.taps import Reading, matrix, reading

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Indices, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer
    from hypar.network.windows import Window


class Resampling(Kernel):
    """An op that weighs the elements of each window along height, then along width, channel by channel."""

    def weights(self, window: Window, outputs: Indices, taps: Indices, size: int) -> Array:
        """Return the weight of each tap, ``[outputs, kernel]``; by default one.

        Args:
            window: the window along one dim.
            outputs: the outputs along it.
            taps: -1 where a tap meets padding.
            size: elements of the input along it.
        """
        return np.ones(taps.shape)

    def readings(self, layer: Layer, piece: Piece) -> tuple[Reading, Reading]:
        """Return what a piece reads along height and along width."""
        op: Any = layer.op
        windows, shape = op.image_windows(layer.input_shapes[0]), layer.input_shapes[0]
        rows, columns = (reading(windows[dim], piece[dim], shape[dim]) for dim in ("height", "width"))
        return rows, columns

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads: of its windows, the rows and columns that it names if any."""
        rows, columns = self.readings(layer, piece)
        along = (("input_height", rows), ("input_width", columns))
        image = [np.intersect1d(read.elements, piece.get(dim, read.elements)) for dim, read in along]
        return ((piece["batch"], piece["channels"], *image),)

    def matrices(self, layer: Layer, piece: Piece) -> tuple[Array, Array]:
        """Return the weights along height and along width, ``[outputs, elements read]``."""
        op: Any = layer.op
        shape, windows = layer.input_shapes[0], op.image_windows(layer.input_shapes[0])
        found = []
        for dim, read in zip(("height", "width"), self.readings(layer, piece), strict=True):
            weights = self.weights(windows[dim], piece[dim], read.taps, shape[dim])
            kept = piece.get(f"input_{dim}")
            whole = matrix(read, weights)
            found.append(whole if kept is None else whole[:, np.isin(read.elements, kept)])
        return found[0], found[1]

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the weighted sums."""
        down, across = self.matrices(layer, piece)
        (box,) = self.boxes(layer, piece)
        value = down @ take(inputs[0], box) @ across.T
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
        """Return the transpose of the weighted sums."""
        down, across = self.matrices(layer, piece)
        (box,) = self.boxes(layer, piece)
        value = down.T @ take(error, self.output(layer, piece)) @ across
        return Gradients((put(inputs[0].shape, box, value),), {})
