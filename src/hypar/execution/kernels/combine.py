"""Combination of what experts make of each position, by a fixed routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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


class _Parts(NamedTuple):
    """What both passes of a piece compute from.

    Attributes:
        selected: 1 for each slot from which a position takes something, ``[samples, positions, experts, slots]``.
        made: what experts made, ``[samples, experts, slots, ...]``.
        gates: the gates, ``[samples, positions, experts]``.
    """

    selected: Array
    made: Array
    gates: Array

    @property
    def flat(self) -> Array:
        """What experts made, the dims of a slot as one."""
        return self.made.reshape(*self.made.shape[:3], -1)


class Combine(Kernel):
    """The sum of what the experts of a position made of it, each times its gate."""

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the boxes of the slots and of the gates that a piece reads."""
        op: Any = layer.op
        made, _ = layer.input_shapes
        window, positions = op.windows_on(layer.input_shapes)[op.slots], op.positions(layer.input_shapes)
        slots = reading(window, piece[positions], made[op.slots]).elements
        return (
            tuple(slots if dim == op.slots else piece[dim] for dim in ("batch", *made)),
            boxed(layer, "input 1", piece),
        )

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms of the piece's experts."""
        parts = self._parts(layer, inputs, piece)
        flat = np.einsum("nsec,nse,necr->nsr", parts.selected, parts.gates, parts.flat, optimize=True)
        box = self.output(layer, piece)
        value = flat.reshape(tuple(map(len, box)))
        return put(output_shape(layer, inputs), box, value)

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
        """Return the errors of the slots and of the gates."""
        parts, own = self._parts(layer, inputs, piece), take(error, self.output(layer, piece))
        rest = np.reshape(own, (*own.shape[:2], -1))
        made = np.einsum("nsec,nse,nsr->necr", parts.selected, parts.gates, rest, optimize=True)
        gates = np.einsum("nsec,necr,nsr->nse", parts.selected, parts.flat, rest, optimize=True)
        found = (np.reshape(made, parts.made.shape), gates)
        boxes, shapes = self.boxes(layer, piece), self._orders(layer)
        triples = zip(inputs, boxes, found, shapes, strict=True)
        return Gradients(
            tuple(
                put(whole.shape, box, value.transpose(np.argsort(order)))
                for whole, box, value, order in triples
            ),
            {},
        )

    def _orders(self, layer: Layer) -> tuple[list[int], list[int]]:
        """Return the axes of the inputs in the order of ``_Parts``: experts and slots first, positions before experts."""
        op: Any = layer.op
        made, gates = (["batch", *shape] for shape in layer.input_shapes)
        first = ("batch", op.over, op.slots)
        order = [made.index(dim) for dim in (*first, *(dim for dim in made if dim not in first))]
        return order, [gates.index(dim) for dim in ("batch", op.positions(layer.input_shapes), op.over)]

    def _parts(self, layer: Layer, inputs: Inputs, piece: Piece) -> _Parts:
        """Return what both passes compute from."""
        op: Any = layer.op
        boxes = self.boxes(layer, piece)
        local = [take(whole, box) for whole, box in zip(inputs, boxes, strict=True)]
        made, gates = (own.transpose(order) for own, order in zip(local, self._orders(layer), strict=True))
        positions, experts = piece[op.positions(layer.input_shapes)], piece[op.over]
        slots = boxes[0][self._orders(layer)[0][2]]
        routing = Routing(layer.input_shapes[0][op.over], op.count)
        chosen = routing.chosen(piece["batch"], positions, experts)
        inside = routing.slots(positions)[:, None] == slots
        selected = chosen[..., None] & inside[None, :, None, :]
        return _Parts(np.asarray(selected, dtype=np.float64), made, gates)


plugin: Kernel = Combine()
