"""Divide a network into a number of stages: the partition with the least bottleneck, or given ends of stages.

Every span of consecutive layers gets its best cuts by the requested search, and with them its cost as a stage: the
partition with the least bottleneck is exact over these. In a network of many layers, stages end between blocks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import MemoryLimitError, OptionError
from hypar.plan.stages import FLUSHES
from hypar.planning.checked import checked_microbatches
from hypar.planning.stages.ends import given_bounds, stage_ends
from hypar.planning.stages.partition import best_partition, of_least_memory, shifted
from hypar.planning.stages.running import fullest_moments, kept_in_flight, run_stages
from hypar.planning.stages.sites import spans_of
from hypar.planning.stages.spans import joined
from hypar.schedule.lanes import whole_lane
from hypar.schedule.memory import held_with
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.sites import KnownOf
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.schedule.lanes import Lane
    from hypar.schedule.pipeline_orders import Moment


class Divided(NamedTuple):
    """A network divided into stages that were not run.

    Attributes:
        request: the request; its array is the one inside a stage.
        microbatches: microbatches in a mini-batch.
        bounds: the first layer of each part of a stage, in the network's order, and the number of layers.
        spans: for each of them all spans of the network on its devices.
    """

    request: Resolved
    microbatches: int
    bounds: tuple[int, ...]
    spans: tuple[CutSpans, ...]

    @property
    def stages(self) -> list[CutSpan]:
        """The parts of the stages in the network's order."""
        each = zip(self.spans, pairwise(self.bounds), strict=True)
        return joined(self.spans, [own.span(*ends) for own, ends in each])

    @property
    def priced(self) -> list[CutSpan]:
        """Parts that take as long."""
        if self.request.outside:
            return self.stages
        return [own.priced(*ends) for own, ends in zip(self.spans, pairwise(self.bounds), strict=True)]

    @property
    def held(self) -> Iterator[tuple[int, Lane, float]]:
        """What ``held_in`` yields."""
        order = self.request.schedule, len(self.spans) // (self.request.parts or 1)
        return held_in(self.stages, fullest_moments(*order, self.microbatches, self.request.parts))

    def run(self) -> Staging:
        """Run the stages in the engine."""
        return run_stages(self.request, self.microbatches, self.stages)


def divided(
    request: Resolved,
    graph: LayerGraph,
    groups: Sequence[str | None],
    known: KnownOf | None = None,
    limit: float = math.inf,
) -> Divided | None:
    """Return the best partition into stages, and their cuts.

    Args:
        request: the request; its array is the one inside a stage.
        graph: the network.
        groups: the device group of each stage; None for identical devices.
        known: all that is known of spans for the same request; more is added.
        limit: seconds that a step may take.

    Returns:
        The stages, or None if no partition fits the memory, or the busiest stage alone takes longer than the limit.

    Raises:
        InputError: that number of stages is not possible, or the given ones do not fit the memory.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    names, stages = [layer.name for layer in graph.nodes(request.graph).layers], len(groups)
    layers = len(names)
    places = layers if request.starts else len(stage_ends(names)) - 1
    each = "one for each layer that is cut" if places == layers else "one for each block of layers"
    if not 1 <= stages <= places:
        raise OptionError("stages", f"found {stages}", f"1 to {places}, {each}")
    _require_room(request.parts, stages, places, each)
    microbatches = checked_microbatches(request.microbatches, request.schedule, graph.batch, stages, layers)
    spans = spans_of(request, graph, groups, microbatches, known)
    if request.starts:
        bounds = given_bounds(request.starts, graph, spans[0].whole)
        given = Divided(request, microbatches, tuple(bounds), spans)
        _require_fits(given, graph)
        return given
    most = limit if request.balance == "time" else math.inf
    best = _best(replace(request, microbatches=microbatches), spans, stages, most)
    return None if best is None else Divided(request, microbatches, best, spans)


def unfit(request: Resolved, graph: LayerGraph, groups: Sequence[str | None]) -> MemoryLimitError:
    """Return why no partition fits, with the bytes of evenly divided stages; arguments as in ``divided``."""
    stages, machine = len(groups), request.heterogeneous or request.machines[0]
    microbatches = checked_microbatches(request.microbatches, request.schedule, graph.batch, stages)
    spans = spans_of(request, graph, groups, microbatches)
    kept = kept_in_flight(request.schedule, stages, microbatches, request.parts)
    least = of_least_memory(spans, microbatches, kept)
    assert least is not None  # noqa: S101 (there is room for every stage, and no limit)
    own = Divided(request, microbatches, least.bounds, spans)
    sizes = " and ".join(
        dict.fromkeys(format_bytes(each.memory_bytes) for each in request.machines if each.memory_bytes)
    )
    words = "" if request.parts is None else f" of {request.parts} parts that share it equally"
    problem = f"no {stages} stages{words} fit {sizes}, the memory of a device"
    number, lane, held = max(
        own.held, key=lambda each: each[2] / (each[1].setting.machine.memory_bytes or math.inf)
    )
    if not lane.setting.machine.fits(held):
        lacking = format_bytes(held - (lane.setting.machine.memory_bytes or 0))
        problem += f": divided evenly, stage {number} holds {format_bytes(held)}, {lacking} too much"
    return MemoryLimitError(f"hardware {machine.name!r}", problem, hint=_hint(own, graph))


def _hint(own: Divided, graph: LayerGraph) -> str:
    further = FLUSHES[own.request.schedule] and own.microbatches < graph.batch
    more = f"--microbatches above {own.microbatches}, " * further
    return f"try {more}another number of stages, a smaller batch, or devices with more memory"


def _best(request: Resolved, spans: Sequence[CutSpans], stages: int, limit: float) -> tuple[int, ...] | None:
    """Return the bounds of the parts of the best partition that fits the memory, or None if there is none within a limit.

    The parts of a stage share its memory: if all that each alone could take is too much, each gets an equal share.

    Args:
        request: the request, with the number of microbatches.
        spans: for each part the spans on its devices.
        stages: the number of stages.
        limit: what the costliest part may cost.
    """
    microbatches, parts = request.microbatches or 1, request.parts
    order = (request.schedule, stages, microbatches, parts)
    kept, held = kept_in_flight(*order), fullest_moments(*order)

    def fits(found: Sequence[CutSpan]) -> bool:
        return all(lane.setting.machine.fits(own) for _, lane, own in held_in(found, held))

    for share in dict.fromkeys((1, parts or 1)):
        best = best_partition(spans, microbatches, kept, limit, request.balance, share)
        if best is None:
            return None
        if parts is None:
            return best.bounds
        if fits([own.span(*ends) for own, ends in zip(spans, pairwise(best.bounds), strict=True)]):
            shifts = request.balance == "time"
            return shifted(request, microbatches, spans, best.bounds, fits) if shifts else best.bounds
    return None


def _require_room(parts: int | None, stages: int, places: int, each: str) -> None:
    """Refuse more parts than places for them, and parts of a single stage, between which nothing would be sent."""
    if parts is None:
        return
    if stages == 1:
        raise OptionError("parts", f"found {parts} of a single stage", "2 stages or more")
    if stages * parts > places:
        found = f"found {parts} of each of {stages} stages"
        raise OptionError("parts", found, f"at most {places} in all, {each}")


def held_in(
    stages: Sequence[CutSpan], moments: Sequence[Sequence[Moment]]
) -> Iterator[tuple[int, Lane, float]]:
    """Yield the number of each stage from 1, each lane with the layers of all its parts, and the bytes on a device.

    Args:
        stages: the parts of the stages in the network's order.
        moments: for each stage its pieces of work, at the moments when most microbatches wait.
    """
    count = len(moments)
    firsts = [*accumulate((span.layers for span in stages), initial=0)]
    for stage, own in enumerate(moments):
        parts = stages[stage::count]
        for group in range(len(parts[0].cuts.lanes)):
            lanes = [part.cuts.lanes[group] for part in parts]
            lane = whole_lane(
                [
                    lane.having(place=lane.place._replace(first=first, moments=tuple(own)))
                    for lane, first in zip(lanes, firsts[stage::count], strict=False)
                ]
            )
            yield (
                stage + 1,
                lane,
                held_with(lane, max(part.cuts.memory()[group]["buffers"] for part in parts)),
            )


def _require_fits(given: Divided, graph: LayerGraph) -> None:
    """Refuse given stages of which one does not fit the memory.

    Raises:
        MemoryLimitError: one does not fit.
    """
    for number, lane, held in given.held:
        machine = lane.setting.machine
        if not machine.fits(held):
            found = f"found {format_bytes(held)} in stage {number}, from {lane.graph.layers[0].name!r} on"
            allowed = f"{format_bytes(machine.memory_bytes or 0.0)}, the memory of a device"
            raise MemoryLimitError(f"hardware {machine.name!r}", found, allowed, _hint(given, graph))
