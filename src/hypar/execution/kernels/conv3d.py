"""Convolution over depth, height and width."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.weighted import Weighted
from hypar.execution.taps import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Kernel, Parameters, Sums
    from hypar.network.layer import Layer


class Conv3d(Weighted):
    """A multiplication of matrices for each tap of the kernel, of the elements that the tap reads without padding."""

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[in_channels, out_channels, kernel_depth, kernel_height, kernel_width]``."""
        op: Any = layer.op
        return layer.input_shapes[0]["channels"], op.out_channels, *op.kernel

    def fan_in(self, layer: Layer) -> float:
        """Return the products of an output element at places without padding."""
        read, _, *kernel = self.weight_shape(layer)
        return read * math.prod(kernel)

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return (piece["batch"], piece["out_channels"], *(piece[dim] for dim in tuple(layer.shape)[1:]))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        return (
            (piece["batch"], piece["in_channels"], *(own.elements for own in self._readings(layer, piece))),
        )

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's input channels."""
        (box,), made = self.boxes(layer, piece), self.output(layer, piece)
        volume, weight = take(inputs[0], box), take(parameters["weight"], _held(piece))
        value: Array = np.zeros(tuple(map(len, made)))
        for tap, there, here in self._taps(layer, piece):
            value[there] += np.einsum("nidhw,io->nodhw", volume[here], weight[:, :, *tap], optimize=True)
        return put(output_shape(layer, inputs), made, value)

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
        """Return the terms of the piece's output channels for the input, of its batch for the weight."""
        (box,), held = self.boxes(layer, piece), _held(piece)
        volume, weight = take(inputs[0], box), take(parameters["weight"], held)
        local = take(error, self.output(layer, piece))
        back: Array = np.zeros(volume.shape)
        gradient: Array = np.zeros(weight.shape)
        for tap, there, here in self._taps(layer, piece):
            back[here] += np.einsum("nodhw,io->nidhw", local[there], weight[:, :, *tap], optimize=True)
            gradient[:, :, *tap] = np.einsum("nidhw,nodhw->io", volume[here], local[there], optimize=True)
        return Gradients(
            (put(inputs[0].shape, box, back),), {"weight": put(parameters["weight"].shape, held, gradient)}
        )

    def _readings(self, layer: Layer, piece: Piece) -> list[Any]:
        """Return what a piece reads along depth, height and width."""
        op: Any = layer.op
        shape = layer.input_shapes[0]
        return [reading(window, piece[dim], shape[dim]) for dim, window in op.windows.items()]

    def _taps(self, layer: Layer, piece: Piece) -> Iterator[tuple[Any, Any, Any]]:
        """Yield each tap of the kernel with the outputs that it is for and the elements that it reads."""
        along = [own.pairs for own in self._readings(layer, piece)]
        for tap in product(*(range(len(pairs)) for pairs in along)):
            pairs = [own[number] for own, number in zip(along, tap, strict=True)]
            made, read = ([_indices(one[side]) for one in pairs] for side in (0, 1))
            if all(map(len, made)):
                every: tuple[Any, ...] = (slice(None), slice(None))
                yield tap, (*every, *np.ix_(*made)), (*every, *np.ix_(*read))


def _held(piece: Piece) -> Box:
    """Return the box of the weight that a piece reads."""
    return piece["in_channels"], piece["out_channels"]


def _indices(selection: Any) -> Any:
    """Return the indices of a slice, or indices as they are."""
    if isinstance(selection, slice):
        return np.arange(selection.start, selection.stop, selection.step)
    return selection


plugin: Kernel = Conv3d()
