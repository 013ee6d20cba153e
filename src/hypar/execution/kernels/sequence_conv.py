"""Convolution along the positions of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, output_shape
from hypar.execution.computing.matrices import Matrices, weight_box
from hypar.execution.computing.products import letters
from hypar.execution.taps import reading
from hypar.network.dims import KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Kernel, Parameters, Sums
    from hypar.network.layer import Layer


class SequenceConv(Matrices):
    """A multiplication of matrices for each tap of the kernel, of the positions that the tap reads without padding."""

    def fan_in(self, layer: Layer) -> float:
        """Return the number of products of an output element."""
        op: Any = layer.op
        return super().fan_in(layer) * int(op.kernel)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads."""
        op: Any = layer.op
        return super().boxes(layer, {**piece, op.over: self._reading(layer, piece).elements})

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's part of the dims that are contracted."""
        (box,), made = self.boxes(layer, piece), self.output(layer, piece)
        local, weight = take(inputs[0], box), take(parameters["weight"], self._held(layer, piece))
        value: Array = np.zeros(tuple(map(len, made)))
        read, left, of_weight = self._letters(layer)
        for tap, there, here in self._taps(layer, piece):
            how = f"{read},{of_weight}->{left}"
            value[there] += np.einsum(how, local[here], weight[tap], optimize=True)
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
        """Return the terms of the piece's part of the dims that are made for the input, of its positions for the weight."""
        (box,), held_box = self.boxes(layer, piece), self._held(layer, piece)
        own, weight = take(inputs[0], box), take(parameters["weight"], held_box)
        local = take(error, self.output(layer, piece))
        back: Array = np.zeros(own.shape)
        gradient: Array = np.zeros(weight.shape)
        read, left, of_weight = self._letters(layer)
        for tap, there, here in self._taps(layer, piece):
            back[here] += np.einsum(f"{left},{of_weight}->{read}", local[there], weight[tap], optimize=True)
            gradient[tap] = np.einsum(f"{read},{left}->{of_weight}", own[here], local[there], optimize=True)
        return Gradients(
            (put(inputs[0].shape, box, back),),
            {"weight": put(parameters["weight"].shape, held_box, gradient)},
        )

    def _reading(self, layer: Layer, piece: Piece) -> Any:
        """Return what a piece reads along the positions."""
        op: Any = layer.op
        return reading(op.window, piece[op.over], layer.input_shapes[0][op.over])

    def _held(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the weight that a piece reads."""
        op: Any = layer.op
        return weight_box(layer, {**piece, f"{KERNEL}{op.over}": np.arange(op.kernel)})

    @staticmethod
    def _letters(layer: Layer) -> tuple[str, str, str]:
        """Return the letters of the input, of the output, and of the weight of one tap."""
        op: Any = layer.op
        read, left, weight = (letters(layer, tensor) for tensor in ("input", "output", "weight"))
        taps = weight[layer.einsum(1).weight.index(f"{KERNEL}{op.over}")]
        return read, left, weight.replace(taps, "")

    def _taps(self, layer: Layer, piece: Piece) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the weights of each tap, with the outputs that it is for and the positions that it reads."""
        op: Any = layer.op
        axis = 1 + [*layer.shape].index(op.over)
        read = 1 + [*layer.input_shapes[0]].index(op.over)
        place = layer.einsum(1).weight.index(f"{KERNEL}{op.over}")
        for tap, (made, here) in enumerate(self._reading(layer, piece).pairs):
            if np.size(np.arange(len(piece[op.over]))[made]):
                yield (
                    (*[slice(None)] * place, tap),
                    (*[slice(None)] * axis, made),
                    (*[slice(None)] * read, here),
                )


plugin: Kernel = SequenceConv()
