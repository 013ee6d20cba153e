"""Convolution over depth, height and width."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.volumes import taps
from hypar.execution.computing.weighted import Weighted
from hypar.execution.taps import reading

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Kernel, Parameters, Sums
    from hypar.network.layer import Layer


BEFORE = len(("batch", "groups", "channels"))


class Conv3d(Weighted):
    """A multiplication of matrices for each tap of the kernel, of the elements that the tap reads without padding."""

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[groups, in_channels, out_channels, kernel_depth, kernel_height, kernel_width]``, without ``groups`` of one."""
        einsum = layer.einsum(1)
        return tuple(einsum.sizes[dim] for dim in einsum.weight)

    def fan_in(self, layer: Layer) -> float:
        """Return the products of an output element at places without padding."""
        op: Any = layer.op
        return float(layer.einsum(1).sizes["in_channels"] * math.prod(op.kernel))

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return (
            piece["batch"],
            _channels(layer, piece, "out_channels"),
            *(piece[dim] for dim in tuple(layer.shape)[1:]),
        )

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        return (
            (
                piece["batch"],
                _channels(layer, piece, "in_channels"),
                *(own.elements for own in self._readings(layer, piece)),
            ),
        )

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's input channels."""
        (box,), made = self.boxes(layer, piece), self.output(layer, piece)
        volume, weight = (
            _by_group(take(inputs[0], box), piece, "in_channels"),
            _weight(parameters["weight"], piece),
        )
        value: Array = _by_group(np.zeros(tuple(map(len, made))), piece, "out_channels")
        for tap, there, here in taps(self._readings(layer, piece), BEFORE):
            value[there] += np.einsum("ngidhw,gio->ngodhw", volume[here], weight[(..., *tap)], optimize=True)
        return put(output_shape(layer, inputs), made, value.reshape(tuple(map(len, made))))

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
        volume, weight = (
            _by_group(take(inputs[0], box), piece, "in_channels"),
            _weight(parameters["weight"], piece),
        )
        local = _by_group(take(error, self.output(layer, piece)), piece, "out_channels")
        back: Array = np.zeros(volume.shape)
        gradient: Array = np.zeros(weight.shape)
        for tap, there, here in taps(self._readings(layer, piece), BEFORE):
            back[here] += np.einsum("ngodhw,gio->ngidhw", local[there], weight[(..., *tap)], optimize=True)
            gradient[(..., *tap)] = np.einsum("ngidhw,ngodhw->gio", volume[here], local[there], optimize=True)
        shape = tuple(map(len, held)) + gradient.shape[3:]
        return Gradients(
            (put(inputs[0].shape, box, back.reshape(tuple(map(len, box)))),),
            {"weight": put(parameters["weight"].shape, held, gradient.reshape(shape))},
        )

    def _readings(self, layer: Layer, piece: Piece) -> list[Any]:
        """Return what a piece reads along depth, height and width."""
        op: Any = layer.op
        shape = layer.input_shapes[0]
        return [reading(window, piece[dim], shape[dim]) for dim, window in op.windows.items()]


def _held(piece: Piece) -> Box:
    """Return the box of the weight that a piece reads."""
    return tuple(piece[dim] for dim in ("groups", "in_channels", "out_channels") if dim in piece)


def _weight(weight: Array, piece: Piece) -> Array:
    """Return what a piece reads of the weight, ``[groups, in_channels, out_channels, ...]``."""
    found = take(weight, _held(piece))
    return found if "groups" in piece else found[None]


def _by_group(volume: Array, piece: Piece, channels: str) -> Array:
    """Return a volume with the groups before the channels of each."""
    batch, _, *image = volume.shape
    return volume.reshape(batch, len(piece.get("groups", "1")), len(piece[channels]), *image)


def _channels(layer: Layer, piece: Piece, dim: str) -> Any:
    """Return the channels of a tensor that a piece has, through all groups."""
    if "groups" not in piece:
        return piece[dim]
    return (piece["groups"][:, None] * layer.einsum(1).sizes[dim] + piece[dim]).reshape(-1)


plugin: Kernel = Conv3d()
