"""Divide a network into a number of stages: the partition with the least bottleneck, or given ends of stages.

Every span of consecutive layers gets its best cuts by the requested search, and with them its cost as a stage. The best
partition is found by lower bounds; its spans are planned, their costs replace their bounds, and so on until all spans of
the best partition are planned: few rounds if the bounds are tight, and at worst every span is planned.
Guarantee: the same result as with all spans planned, ties included: every other partition costs at least its bound.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.errors import MemoryLimitError
from hypar.plan.stages import FLUSHES
from hypar.planning.stages.ends import given_bounds
from hypar.planning.stages.lower_bounds import ROUNDING, LowerBounds
from hypar.planning.stages.running import estimated_s, fullest_moments, kept_in_flight
from hypar.planning.stages.spans import joined
from hypar.schedule.lanes import whole_lane
from hypar.schedule.memory import held_with
from hypar.solve.partition import Partition, least_bottleneck, partition
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.spans import CutSpan, CutSpans
    from hypar.schedule.lanes import Lane
    from hypar.solve.edge import Costs

MOST_WORK = 20_000
"""Pieces of work in all estimated steps of shifted ends at most, which take some seconds."""


class _Table:
    """The costs of all spans between places on the devices of some stages: lower bounds, until a span is planned, and weighed.

    Attributes:
        costs: for each number of microbatches in flight the costs, ``[starts, ends]``; infinite where the memory is too small.
    """

    def __init__(self, spans: CutSpans, counts: Collection[int], balance: str, share: int) -> None:
        """Start with lower bounds; ``share`` is the number of spans that share the memory equally, 0 if it does not count."""
        least, capacity = LowerBounds(spans), spans.setting.machine.memory_bytes
        self.spans, self.balance, self.share = spans, balance, share
        most = capacity if share and capacity else math.inf
        self.costs = {
            count: np.where(share * least.memory(count) > most, np.inf, least.of(balance, count))
            for count in counts
        }
        self._place = {layer: place for place, layer in enumerate(spans.ends)}
        self._known: set[tuple[str, str]] = set()

    def plan(self, ends: tuple[int, int]) -> bool:
        """Replace the lower bounds of a span, and of all that are equal, by its costs; return whether they were not known."""
        found = [*self._new("cost", ends)]
        for span, count, own, equal in found:
            own[equal] = np.where(np.isinf(own[equal]), np.inf, span.cost(self.balance, count))
        return bool(found)

    def fits(self, ends: tuple[int, int], in_flight: int) -> bool:
        """Return whether a span fits the memory with microbatches in flight, and rule out with how many it does not."""
        for span, count, own, equal in self._new("memory", ends) if self.share else ():
            if not span.fits(count, self.share):
                own[equal] = np.inf
        start, end = (self._place[layer] for layer in ends)
        return math.isfinite(self.costs[in_flight][start, end])

    def _new(self, what: str, ends: tuple[int, int]) -> Iterator[tuple[CutSpan, int, Costs, Any]]:
        """Yield a span, the costs by microbatches in flight, and the places of all equal spans; nothing if asked of one before."""
        kinds, length, at = self.spans.kinds, ends[1] - ends[0], self._place
        own = kinds[slice(*ends)]
        if (what, own) not in self._known:
            self._known.add((what, own))
            starts = [start for start in at if start + length in at and kinds[start : start + length] == own]
            equal = [at[start] for start in starts], [at[start + length] for start in starts]
            for count, costs in self.costs.items():
                yield self.spans.priced(*ends), count, costs, equal


def _tables(spans: Sequence[CutSpans], balance: str, share: int) -> list[tuple[_Table, int]]:
    """Return for each part of a stage what is known of the spans on its devices, and the microbatches that it keeps."""
    request = spans[0].request
    kept = kept_in_flight(request, len(spans) // (request.parts or 1))
    known = {own: _Table(own, {*kept}, balance, share) for own in dict.fromkeys(spans)}
    return [(known[own], count) for own, count in zip(spans, kept, strict=True)]


def _least(tables: Sequence[tuple[_Table, int]], limit: float = math.inf) -> Partition | None:
    """Return the best partition by what is known of its spans, or None if none is within a limit."""
    first = tables[0][0].spans
    costs = [table.costs[kept] for table, kept in tables]
    seams = first.crossing_bytes[[*first.ends]]
    found = partition(costs.__getitem__, len(tables), seams, limit * (1 + ROUNDING))
    return None if found is None else found._replace(bounds=tuple(first.ends[at] for at in found.bounds))


def best_partition(
    spans: Sequence[CutSpans], limit: float = math.inf, balance: str = "time", share: int = 1
) -> Partition | None:
    """Return the best partition into stages, or None if none that fits the memory is within a limit.

    Args:
        spans: for each stage the spans on its devices.
        limit: what the costliest stage may cost.
        balance: the quantity that a stage costs, one of ``BALANCES``.
        share: the number of stages that share a device's memory equally.
    """
    tables, tight = _tables(spans, balance, share), True
    while (found := _least(tables, limit)) is not None:
        each = [(*own, ends) for own, ends in zip(tables, pairwise(found.bounds), strict=True)]
        # Memory is counted first as long as partitions do not fit, and then only where all else speaks for one.
        if tight and not all(table.fits(ends, kept) for table, kept, ends in each):
            continue
        planned = [table.plan(ends) for table, _, ends in each]
        tight = not any(planned)
        if tight and all(table.fits(ends, kept) for table, kept, ends in each):
            return found
    return None


def least_seconds(spans: Sequence[CutSpans]) -> float:
    """Return a lower bound of the seconds of a step, infinite if no partition fits the memory; arguments as above.

    Where the pipeline runs empty a stage waits for the first microbatch; otherwise the busiest stage alone counts.
    """
    tables = _tables(spans, "time", 1)
    ahead = np.minimum.reduce([LowerBounds(own).ahead for own in dict.fromkeys(spans)])
    late = ahead * (1 - ROUNDING) * FLUSHES[spans[0].request.schedule]

    def costs(stage: int) -> Costs:
        table, kept = tables[stage]
        return np.asarray(table.costs[kept] + late)

    return least_bottleneck(costs, len(spans), len(spans[0].ends) - 1)


def divided(spans: Sequence[CutSpans], graph: LayerGraph, limit: float = math.inf) -> list[CutSpan] | None:
    """Return the parts of the stages of the best partition, in the network's order, with the transfers between them.

    None if no partition fits the memory, or the busiest stage alone takes longer than a limit.

    Raises:
        InputError: the given stages are not possible, or do not fit the memory.
        TableLimitError: the tables of a search would not fit.
    """
    request = spans[0].request
    if request.starts:
        bounds: tuple[int, ...] | None = given_bounds(request.starts, graph, spans[0].whole)
    else:
        bounds = _best(spans, limit if request.balance == "time" else math.inf)
    if bounds is None:
        return None
    found = [own.span(*ends) for own, ends in zip(spans, pairwise(bounds), strict=True)]
    for number, lane, held in held_in(found) if request.starts else ():
        machine = lane.setting.machine
        if not machine.fits(held):
            problem = f"found {format_bytes(held)} in stage {number}, from {lane.graph.layers[0].name!r} on"
            allowed = f"{format_bytes(machine.memory_bytes or 0.0)}, the memory of a device"
            raise MemoryLimitError(f"hardware {machine.name!r}", problem, allowed, _hint(spans, graph))
    return joined(found)


def _best(spans: Sequence[CutSpans], limit: float) -> tuple[int, ...] | None:
    """Return the bounds of the parts of the best partition that fits the memory, or None if there is none within a limit.

    The parts of a stage share its memory: if all that each alone could take is too much, each gets an equal share.
    """
    balance, parts = spans[0].request.balance, spans[0].request.parts
    for share in dict.fromkeys((1, parts or 1)):
        best = best_partition(spans, limit, balance, share)
        if best is None or parts is None:
            return None if best is None else best.bounds
        if _fit(_equal_to(spans, best.bounds)):
            return _shifted(spans, best.bounds) if balance == "time" else best.bounds
    return None


def _equal_to(spans: Sequence[CutSpans], bounds: Sequence[int]) -> list[CutSpan]:
    """Return spans that cost the same."""
    return [own.priced(*ends) for own, ends in zip(spans, pairwise(bounds), strict=True)]


def _fit(stages: Sequence[CutSpan]) -> bool:
    return all(lane.setting.machine.fits(held) for _, lane, held in held_in(stages))


def _shifted(spans: Sequence[CutSpans], bounds: tuple[int, ...]) -> tuple[int, ...]:
    """Return the bounds of the parts of a partition after shifts of their ends, as long as the estimated step gets shorter."""
    best, tried, least = bounds, {bounds}, estimated_s(_equal_to(spans, bounds))
    most = MOST_WORK // (2 * spans[0].microbatches * len(spans))
    while len(tried) <= most:
        ahead = next((ends for ends in _neighbours(best, spans[0].ends) if ends not in tried), None)
        if ahead is None:
            break
        tried.add(ahead)
        found = _equal_to(spans, ahead)
        seconds = estimated_s(found)
        if seconds < least and _fit(found):
            least, best = seconds, ahead
    return best


def _neighbours(bounds: tuple[int, ...], places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the partitions with one end a place further or nearer."""
    for at in range(1, len(bounds) - 1):
        own = places.index(bounds[at])
        for place in (places[own - 1], places[own + 1]):
            if bounds[at - 1] < place < bounds[at + 1]:
                yield (*bounds[:at], place, *bounds[at + 1 :])


def held_in(stages: Sequence[CutSpan]) -> Iterator[tuple[int, Lane, float]]:
    """Yield the number of each stage from 1, each lane with the layers of all its parts, and the bytes on a device.

    ``stages`` are the parts of the stages in the network's order.
    """
    request = stages[0].spans.request
    count = len(stages) // (request.parts or 1)
    firsts = [*accumulate((span.layers for span in stages), initial=0)]
    for stage, own in enumerate(fullest_moments(request, count)):
        parts = stages[stage::count]
        for group in range(len(parts[0].lanes)):
            each = zip((part.lanes[group] for part in parts), firsts[stage::count], strict=False)
            placed = (lane.having(place=lane.place._replace(first=at, moments=own)) for lane, at in each)
            lane = whole_lane([*placed])
            yield stage + 1, lane, held_with(lane, max(part.memory[group]["buffers"] for part in parts))


def unfit(request: Resolved, graph: LayerGraph, spans: Sequence[CutSpans]) -> MemoryLimitError:
    """Return why no partition fits, with the bytes of evenly divided stages; ``spans`` are those of each part."""
    least = _least(_tables(spans, "memory", 0))
    assert least is not None  # noqa: S101 (there is room for every stage, and no limit)
    sizes = dict.fromkeys(format_bytes(each.memory_bytes) for each in request.machines if each.memory_bytes)
    words = "" if request.parts is None else f" of {request.parts} parts that share it equally"
    stages = len(spans) // (request.parts or 1)
    problem = f"no {stages} stages{words} fit {' and '.join(sizes)}, the memory of a device"
    over = (
        (held / (lane.setting.machine.memory_bytes or math.inf), number, held, lane.setting.machine)
        for number, lane, held in held_in(_equal_to(spans, least.bounds))
    )
    _, number, held, machine = max(over, key=itemgetter(0))
    if not machine.fits(held):
        lacking = format_bytes(held - (machine.memory_bytes or 0))
        problem += f": divided evenly, stage {number} holds {format_bytes(held)}, {lacking} too much"
    machine = request.heterogeneous or request.machines[0]
    return MemoryLimitError(f"hardware {machine.name!r}", problem, hint=_hint(spans, graph))


def _hint(spans: Sequence[CutSpans], graph: LayerGraph) -> str:
    microbatches = spans[0].microbatches
    further = FLUSHES[spans[0].request.schedule] and microbatches < graph.batch
    more = f"--microbatches above {microbatches}, " * further
    return f"try {more}another number of stages, a smaller batch, or devices with more memory"
