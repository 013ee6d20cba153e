"""The exchange of gradients in chunks of layers: a chunk is sent once the last of its gradients is computed.

A chunk has one transfer for each level and collective, with the bytes of all its layers, so that latency is paid once;
the updates of its layers wait for it. Layers outside all chunks exchange nothing. On a machine of independent exchanges
(CGDP) each chunk has links of its own, and its latency stalls the devices before it is sent.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

from hypar.schedule.moves import PHASE, Moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.tasks import After, Lowering
    from hypar.sharding.amounts.above import Amount

Chunks = tuple[tuple[int, ...], ...]
"""The indices of the layers of each chunk, in the order of the backward phase."""


class ChunkedGradients:
    """The gradients that wait for their chunk while a step is lowered."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        crossings: Sequence[Crossing],
        chunks: Chunks,
    ) -> None:
        """Start without gradients.

        Args:
            lanes: the groups of identical devices.
            crossings: the transfers at the uneven splits between them, outer splits first.
            chunks: the layers that exchange their gradients together.
        """
        self.lanes, self.crossings = lanes, crossings
        self.chunk_of = {layer: chunk for chunk in chunks for layer in chunk}
        self.there: list[list[After]] = []

    def passed(self, lowering: Lowering, layer: int, after: list[After]) -> Iterator[tuple[int, list[After]]]:
        """Add up the gradients of a chunk behind the last of its layers.

        Args:
            lowering: the lowering to which transfers are added.
            layer: the layer whose gradient was computed.
            after: for each lane the tasks to wait for.

        Yields:
            Each layer that can be updated now, with the tasks to wait for.
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
        """Send a chunk: in each lane, then across the uneven splits, inner ones first."""
        first, last = chunk[0], chunk[-1]
        after: list[After] = [
            tuple(dict.fromkeys(chain.from_iterable(own))) for own in zip(*self.there, strict=True)
        ]
        for number, lane in enumerate(self.lanes):
            moves, apart = lane.together(chunk), lane.setting.machine.independent
            if apart:
                moves, after[number] = _stalled(lowering, number, lane, moves, after[number], chunk)
            after[number] = lowering.send(number, last, moves, after[number], first, apart=apart)
        for crossing in reversed(self.crossings):
            amounts = _summed([amount for layer in chunk for amount in crossing.inside[layer]])
            after = lowering.cross(crossing, last, amounts, PHASE, after, first)
        return after


def _stalled(
    lowering: Lowering, number: int, lane: Lane, moves: Moves, after: After, chunk: tuple[int, ...]
) -> tuple[Moves, After]:
    """Let the latency of a chunk's transfers stall the devices; return the rest of the transfers."""
    latencies = lane.latencies(moves)
    if math.fsum(latencies):
        after = lowering.stall(number, chunk[-1], math.fsum(latencies), after, chunk[0])
    rest = zip(moves, latencies, strict=True)
    return Moves([move._replace(seconds=max(0.0, move.seconds - late)) for move, late in rest]), after


def _summed(amounts: Sequence[Amount]) -> list[Amount]:
    """Sum the gradient amounts of an uneven split for each collective."""
    alike: dict[str, list[Amount]] = {}
    for amount in amounts:
        if amount.phase == PHASE:
            alike.setdefault(amount.collective, []).append(amount)
    return [
        same[0]._replace(
            elements=tuple(map(sum, zip(*(each.elements for each in same), strict=True))),
            fuller=_fuller(same),
        )
        for same in alike.values()
    ]


def _fuller(amounts: Sequence[Amount]) -> tuple[tuple[float, ...], ...]:
    """Return how many times the average of its group the fullest device of each lane receives of all amounts together."""
    lanes = next((own.fuller for own in amounts if own.fuller), ())
    return tuple(
        tuple(
            sum(own.elements[group] * (own.fuller[group][lane] if own.fuller else 1.0) for own in amounts)
            / (sum(own.elements[group] for own in amounts) or 1.0)
            for lane in range(len(factors))
        )
        for group, factors in enumerate(lanes)
    )
