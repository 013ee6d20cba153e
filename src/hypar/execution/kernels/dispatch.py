"""Dispatch of positions to experts, by a fixed routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.computing.products import boxed
from hypar.execution.computing.routing import Routing
from hypar.execution.taps import reading

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Dispatch(Kernel):
    """Every slot holds the position that goes to it; a position gets the errors of all its slots."""

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the positions whose slots a piece has."""
        op: Any = layer.op
        (shape,) = layer.input_shapes
        window = op.windows_on(layer.input_shapes)[op.over]
        positions = reading(window, piece[op.slots], shape[op.over]).elements
        return (tuple(positions if dim == op.over else piece[dim] for dim in ("batch", *shape)),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the slots."""
        (box,) = self.boxes(layer, piece)
        first = np.moveaxis(take(inputs[0], box), self._axis(layer), 1)
        value = np.einsum("nsec,ns...->nec...", self._selected(layer, piece), first)
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
        """Return the sums of the errors of the slots of each position."""
        (box,) = self.boxes(layer, piece)
        local = take(error, self.output(layer, piece))
        value = np.einsum("nsec,nec...->ns...", self._selected(layer, piece), local)
        return Gradients((put(inputs[0].shape, box, np.moveaxis(value, 1, self._axis(layer))),), {})

    @staticmethod
    def _axis(layer: Layer) -> int:
        """Return the axis of the positions in the input."""
        op: Any = layer.op
        return 1 + [*layer.input_shapes[0]].index(op.over)

    def _selected(self, layer: Layer, piece: Piece) -> Array:
        """Return 1 for each position that is in a slot, ``[samples, positions, experts, slots]``."""
        op: Any = layer.op
        ((experts, count),) = op.to
        positions = self.boxes(layer, piece)[0][self._axis(layer)]
        routing = Routing(count, op.count)
        inside = routing.slots(positions)[:, None] == piece[op.slots]
        chosen = routing.chosen(piece["batch"], positions, piece[experts])
        return np.asarray(chosen[..., None] & inside[None, :, None, :], dtype=np.float64)


plugin: Kernel = Dispatch()
