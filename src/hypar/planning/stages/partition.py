"""Find the partition whose costliest stage costs least, planning as few spans as possible.

Idea: find the best partition by lower bounds, plan its spans, replace their bounds by costs, and repeat until all
spans of the best partition are planned.
Cost: one dynamic program for each round; few rounds if the bounds are tight, and at worst every span is planned.
Guarantee: the same result as with all spans planned, ties included: every other partition costs at least its bound.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.planning.stages.lower_bounds import ROUNDING, LowerBounds
from hypar.planning.stages.running import estimated_s
from hypar.solve.partition import Partition, least_bottleneck, partition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.solve.edge import Costs


class _Table(NamedTuple):
    """The costs of all spans on the devices of some stages: lower bounds, replaced by costs once a span is planned.

    Attributes:
        least: the lower bounds of the spans.
        costs: for each number of microbatches in flight the costs, ``[starts, ends]``.
        room: the largest number of microbatches in flight that fits the memory, or may.
        planned: whether each span is planned.
        weighed: whether its memory is counted.
        share: the number of spans that share a device's memory equally.
    """

    least: LowerBounds
    costs: dict[int, Costs]
    room: Costs
    planned: NDArray[np.bool_]
    weighed: NDArray[np.bool_]
    share: int = 1

    @classmethod
    def of(
        cls, spans: CutSpans, microbatches: int, counts: Collection[int], balance: str, share: int = 1
    ) -> _Table:
        """Return the lower bounds."""
        least = LowerBounds(spans, microbatches)
        capacity = spans.setting.machine.memory_bytes
        room = least.room(capacity / share if capacity and share else None, max(counts))
        # Memory alone depends on the number of microbatches in flight.
        alike = least.of(balance, 0).copy()
        costs = {count: least.of(balance, count) if balance == "memory" else alike for count in counts}
        planned, weighed = np.zeros((2, *room.shape), dtype=bool)
        return cls(least, costs, room, planned, weighed, share)

    def fitting(self, in_flight: int) -> Costs:
        """Return the cost of each span with microbatches in flight; infinite if it does not fit the memory."""
        fits = self.room >= in_flight
        return self.costs[in_flight] if fits.all() else np.where(fits, self.costs[in_flight], np.inf)

    def plan(self, ends: tuple[int, int], microbatches: int, balance: str) -> bool:
        """Replace the lower bounds of a span, and of all that are equal, by its costs; return whether they were no costs yet."""
        if self.planned[ends]:
            return False
        span, equal = self.least.spans.priced(*ends), self._equal(ends)
        self.planned[equal] = True
        for count, own in self.costs.items():
            own[equal] = span.cost(balance, microbatches, count)
        return True

    def fits(self, ends: tuple[int, int], in_flight: int) -> bool:
        """Return whether a planned span fits the memory with microbatches in flight, once its memory is counted."""
        if not self.weighed[ends]:
            span, equal = self.least.spans.priced(*ends), self._equal(ends)
            self.weighed[equal], self.room[equal] = True, _room(span, self.costs, self.share)
        return bool(self.room[ends] >= in_flight)

    def _equal(self, ends: tuple[int, int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the starts and the ends of all spans that are equal to one."""
        starts = self.least.spans.equal_to(*ends)
        return starts, starts + (ends[1] - ends[0])


def best_partition(
    spans: Sequence[CutSpans],
    microbatches: int,
    kept: Sequence[int],
    limit: float = math.inf,
    balance: str = "time",
    share: int = 1,
) -> Partition | None:
    """Return the best partition into stages, or None if none that fits the memory is within a limit.

    Args:
        spans: for each stage the spans on its devices.
        microbatches: microbatches in a mini-batch.
        kept: for each stage, the largest number of microbatches whose activations it keeps.
        limit: what the costliest stage may cost.
        balance: the quantity that a stage costs, one of ``BALANCES``.
        share: the number of stages that share a device's memory equally; 0 if memory does not count.
    """
    tables = _tables(spans, microbatches, kept, balance, share)
    while True:
        found = _least(tables, kept, spans[0], limit)
        if found is None:
            return None
        stages = [*zip(tables, pairwise(found.bounds), kept, strict=True)]
        planned = [table.plan(ends, microbatches, balance) for table, ends, _ in stages]
        if any(planned):
            continue
        # Memory is counted only where all else speaks for a partition, and then of all its stages.
        fitting = [table.fits(ends, in_flight) for table, ends, in_flight in stages]
        if all(fitting):
            return found


def of_least_memory(spans: Sequence[CutSpans], microbatches: int, kept: Sequence[int]) -> Partition | None:
    """Return the partition whose fullest stage holds least by lower bounds, whether it fits the memory or not.

    Arguments as in ``best_partition``.
    """
    return _least(_tables(spans, microbatches, kept, "memory", 0), kept, spans[0])


def _least(
    tables: Sequence[_Table], kept: Sequence[int], spans: CutSpans, limit: float = math.inf
) -> Partition | None:
    """Return the best partition by what is known of its spans, or None if none is within a limit."""
    places = spans.ends
    fitting = _fitting(tables, kept, places)
    found = partition(fitting.__getitem__, len(kept), spans.crossing_bytes[[*places]], limit * (1 + ROUNDING))
    return None if found is None else found._replace(bounds=tuple(places[at] for at in found.bounds))


def least_seconds(
    spans: Sequence[CutSpans], microbatches: int, kept: Sequence[int], *, flushes: bool
) -> float:
    """Return a lower bound of the seconds of a step, infinite if no partition fits the memory.

    Args:
        spans: for each stage the spans on its devices.
        microbatches: microbatches in a mini-batch.
        kept: for each stage, the largest number of microbatches whose activations it keeps.
        flushes: whether the pipeline runs empty after each mini-batch; otherwise the busiest stage alone counts.
    """
    tables, places = _tables(spans, microbatches, kept, "time"), spans[0].ends
    each = {id(table): table for table in tables}.values()
    for table in each if flushes else ():
        table.costs.update(dict.fromkeys(table.costs, table.least.step([own.least for own in each])))
    return least_bottleneck(_fitting(tables, kept, places).__getitem__, len(kept), len(places) - 1)


def _tables(
    spans: Sequence[CutSpans], microbatches: int, kept: Sequence[int], balance: str, share: int = 1
) -> list[_Table]:
    """Return the costs of all spans for each stage; arguments as in ``best_partition``."""
    each = {id(own): own for own in spans}
    known = {key: _Table.of(own, microbatches, {*kept}, balance, share) for key, own in each.items()}
    return [known[id(own)] for own in spans]


def _fitting(tables: Sequence[_Table], kept: Sequence[int], places: Sequence[int]) -> list[Costs]:
    """Return the costs of all spans between some places for each stage, one array for stages with equal costs."""
    each = {(id(table), count): (table, count) for table, count in zip(tables, kept, strict=True)}
    known = {key: table.fitting(count) for key, (table, count) in each.items()}
    if len(places) <= len(tables[0].room):
        known = {key: costs[np.ix_(places[:-1], places)] for key, costs in known.items()}
    return [known[id(table), count] for table, count in zip(tables, kept, strict=True)]


def _room(span: CutSpan, kept: Collection[int], share: int) -> int:
    """Return the largest of several numbers of microbatches in flight that fits the memory."""

    def fits(count: int) -> bool:
        each = zip(span.cuts.lanes, span.held_bytes(count), strict=True)
        return all(lane.setting.machine.fits(share * held) for lane, held in each)

    return max(filter(fits, kept), default=0)


MOST_WORK = 20_000
"""Pieces of work in all estimated steps at most, which take some seconds."""


def shifted(
    request: Resolved,
    microbatches: int,
    spans: Sequence[CutSpans],
    bounds: Sequence[int],
    fits: Callable[[Sequence[CutSpan]], bool],
) -> tuple[int, ...]:
    """Return the bounds of the parts of a partition after shifts of their ends.

    Args:
        request: the request.
        microbatches: microbatches in a mini-batch.
        spans: for each part the spans on its devices.
        bounds: the first layer of each part, and the number of layers.
        fits: returns whether parts fit the memory.
    """

    def parts(ends: Sequence[int]) -> list[CutSpan]:
        return [own.span(*pair) for own, pair in zip(spans, pairwise(ends), strict=True)]

    best = tuple(bounds)
    least, tried = estimated_s(request, microbatches, parts(best)), {best}
    most = MOST_WORK // (2 * microbatches * len(spans))
    while True:
        ahead = next((ends for ends in _neighbours(best, spans[0].ends) if ends not in tried), None)
        if ahead is None or len(tried) > most:
            return best
        tried.add(ahead)
        found = parts(ahead)
        seconds = estimated_s(request, microbatches, found)
        if seconds < least and fits(found):
            least, best = seconds, ahead


def _neighbours(bounds: tuple[int, ...], places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the partitions with one end a place further or nearer."""
    for at in range(1, len(bounds) - 1):
        own = places.index(bounds[at])
        for place in (places[own - 1], places[own + 1]):
            if bounds[at - 1] < place < bounds[at + 1]:
                yield (*bounds[:at], place, *bounds[at + 1 :])
