"""Tensors between two parts of one stage: the stage's devices have them, and hand them on among themselves.

A tensor that skips all other stages, as along a residual branch, is made and read on the same devices. Nothing comes from
another stage then; inside, it moves from the cuts of the layer that makes it to those of the layer that reads it. By
``paper`` a tensor passes through every stage on its way, and arrives again.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from hypar.network.nodes import PlanGraph
from hypar.schedule.costed import Entering
from hypar.schedule.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.stages.span import CutSpan
    from hypar.schedule.costed import Arrival, Link
    from hypar.schedule.pieces import Rounds


def within_stage(parts: Sequence[CutSpan], count: int) -> list[CutSpan]:
    """Return the parts of all stages, with tensors between parts of one stage handed on inside it.

    Args:
        parts: the parts in the network's order, in turn of the first stage to the last.
        count: the number of stages.
    """
    inside = _Inside(parts, count)
    return [
        part._replace(
            received=inside.entering(number, part.received, "forward", part.site.links.forward),
            returned=inside.entering(number, part.returned, "backward", part.site.links.backward),
        )
        for number, part in enumerate(parts)
    ]


class _Inside:
    """The transfers of tensors between two parts of one stage."""

    def __init__(self, parts: Sequence[CutSpan], count: int) -> None:
        self.parts, self.count = parts, count
        self.firsts = [*accumulate((part.layers for part in parts), initial=0)]

    def entering(self, number: int, whole: Entering, phase: str, link: Link | None) -> Entering:
        """Return what a part receives from other stages in a phase, and what its own stage hands on."""
        found: dict[int | None, Arrival] = {}
        others = []
        for arrival in whole.arrivals:
            ends = self._ends(arrival.tensor)
            if arrival.tensor is None or {end % self.count for end in ends} != {number % self.count}:
                others.append(arrival)
            elif arrival.tensor not in found:
                rounds = self._moved(arrival.tensor, ends, phase)
                found[arrival.tensor] = arrival._replace(num_bytes=0.0, rounds=rounds)
        return Entering.over(link, (*others, *found.values())) if found else whole

    def _ends(self, tensor: int | None) -> tuple[int, ...]:
        """Return the parts that make and read a tensor."""
        if tensor is None:
            return ()
        ends = self.parts[0].tensors[tensor]
        return tuple(bisect_right(self.firsts, layer) - 1 for layer in (ends.producer, ends.consumer))

    def _moved(self, number: int, ends: tuple[int, ...], phase: str) -> Rounds:
        """Return the transfers of a tensor between the cuts of the two layers in a phase."""
        tensor = self.parts[0].tensors[number]
        places = zip((tensor.producer, tensor.consumer), ends, strict=True)
        own = [(self.parts[part].cuts.lane, layer - self.firsts[part]) for layer, part in places]
        pair = PlanGraph(
            tuple(lane.graph.layers[layer] for lane, layer in own),
            (replace(tensor, producer=0, consumer=1),),
            fed=frozenset({1}),
            sent=frozenset({0}),
        )
        choices = [lane.choices[layer] for lane, layer in own]
        first = own[0][0]
        lane = Lane(pair, choices, first.setting, first.name, first.depth, number=first.number)
        return lane.sent(lane.outer[0]).get(phase, ())
