"""Gradients that are exchanged in chunks of layers: those of a chunk go together once the last of them is there.

A chunk has one transfer for each level and manner, of the bytes of all its layers, so that latency is paid once; the
updates of its layers wait for it. Layers that are in no chunk exchange nothing.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

from hypar.schedule.moves import PHASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.moves import Move
    from hypar.schedule.tasks import After, Lowering
    from hypar.sharding.uneven.transfers import Amount

Chunks = tuple[tuple[int, ...], ...]
"""The numbers of the layers of each chunk, in the order of the backward phase."""


class ChunkedGradients:
    """What waits for its chunk while a step is lowered."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        crossings: Sequence[Crossing],
        inner: Sequence[Sequence[tuple[Move, ...]]],
        chunks: Chunks,
    ) -> None:
        """No gradient is there yet.

        Args:
            lanes: the groups of like devices.
            crossings: the forks between them, outer ones first.
            inner: for each lane and layer what is added up inside it.
            chunks: the layers that exchange their gradients together.
        """
        self.lanes, self.crossings, self.inner = lanes, crossings, inner
        self.chunk_of = {layer: chunk for chunk in chunks for layer in chunk}
        self.there: list[list[After]] = []

    def passed(self, lowering: Lowering, layer: int, after: list[After]) -> Iterator[tuple[int, list[After]]]:
        """Add up the gradients of a chunk behind the last of its layers.

        Args:
            lowering: takes the transfers.
            layer: whose gradient was computed.
            after: for each lane what to wait for.

        Yields:
            Each layer that can be updated now, with what to wait for.
        """
        chunk = self.chunk_of.get(layer)
        if chunk is None:
            yield layer, after
            return
        self.there.append(after)
        if layer == chunk[-1]:
            done = self._exchanged(lowering, chunk)
            self.there = []
            for member in chunk:
                yield member, done

    def _exchanged(self, lowering: Lowering, chunk: tuple[int, ...]) -> list[After]:
        """The transfers of a chunk: in each lane, then over the forks, inner ones first."""
        first, last = chunk[0], chunk[-1]
        after: list[After] = [
            tuple(dict.fromkeys(chain.from_iterable(own))) for own in zip(*self.there, strict=True)
        ]
        for number, lane in enumerate(self.lanes):
            moves = _together(lane, [move for layer in chunk for move in self.inner[number][layer]])
            after[number] = lowering.send(number, last, moves, PHASE, after[number], first)
        for crossing in reversed(self.crossings):
            amounts = _summed([amount for layer in chunk for amount in crossing.inside[layer]])
            after = lowering.cross(crossing, last, amounts, PHASE, after, first)
        return after


def _together(lane: Lane, moves: Sequence[Move]) -> list[Move]:
    """One transfer for each level and manner, innermost level first; one that is alone as it is."""
    alike: dict[tuple[int, str], list[Move]] = {}
    for move in moves:
        if move.phase == PHASE:
            alike.setdefault((-move.level, move.collective), []).append(move)
    return [_merged(lane, alike[kind]) for kind in sorted(alike)]


def _merged(lane: Lane, moves: Sequence[Move]) -> Move:
    """One transfer of the bytes of several of a level and manner."""
    if len(moves) == 1:
        return moves[0]
    setting, move = lane.setting, moves[0]
    part_bytes = math.fsum(each.part_bytes for each in moves)
    link = setting.machine.links(setting.array)[move.level]
    return move._replace(
        seconds=link.seconds(move.collective, part_bytes),
        part_bytes=part_bytes,
        total_bytes=math.fsum(each.total_bytes for each in moves),
    )


def _summed(amounts: Sequence[Amount]) -> list[Amount]:
    """One amount for each manner, of what several make the sides of a fork receive."""
    alike: dict[str, list[Amount]] = {}
    for amount in amounts:
        if amount.phase == PHASE:
            alike.setdefault(amount.collective, []).append(amount)
    return [
        same[0]._replace(elements=tuple(map(sum, zip(*(each.elements for each in same), strict=True))))
        for same in alike.values()
    ]
