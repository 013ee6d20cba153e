"""Find the partition of a network into stages, together with the cuts inside them.

Every span of consecutive layers gets its best cuts by the requested search, and with them its cost as a stage: the
partition with the least bottleneck is exact over these. With ``best`` in place of a number, every number of stages and
of levels inside them that the array's devices allow is tried, and the engine decides.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.activity import tell
from hypar.errors import HardwareError, MemoryLimitError, OptionError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.plan.splits import WHOLE_ARRAY
from hypar.planning.checks.stages import BEST
from hypar.planning.stages.partition import best_partition
from hypar.planning.stages.running import estimated_s, fullest_moments, kept_in_flight, run_stages
from hypar.planning.stages.shifting import shifted
from hypar.planning.stages.sites import orders_of, spans_of
from hypar.planning.stages.spans import joined
from hypar.planning.stages.starts import given_bounds
from hypar.schedule.lanes import whole_lane
from hypar.schedule.memory import held_with
from hypar.schedule.pipeline_orders import SCHEDULES, checked_microbatches
from hypar.sharding.pins import parse_pin
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.request import Request
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.sites import KnownOf
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.schedule.lanes import Lane, Moment
    from hypar.sharding.pins import Pin

MOST_LAYERS = 512
"""Largest number of layers: some minutes of planning if no two are equal."""

MULTIPLES = (1, 2, 4, 8)
"""Numbers of microbatches per stage that are tried for ``best``."""


NEAR = 1.1
"""How much slower than the fastest a candidate's estimate may be for the engine to run it, where transfers overlap."""

MOST_RUN = 8
"""Largest number of candidates that the engine runs."""


class Divided(NamedTuple):
    """A network divided into stages that were not run.

    Attributes:
        request: the request; its array is the one inside a stage.
        microbatches: microbatches in a mini-batch.
        stages: the parts of the stages in the network's order.
        spans: for each of them all spans of the network on its devices.
    """

    request: Request
    microbatches: int
    stages: list[CutSpan]
    spans: tuple[CutSpans, ...]

    def run(self) -> Staging:
        """Run the stages in the engine."""
        return run_stages(self.request, self.microbatches, self.stages)


def pins_of(request: Request, graph: LayerGraph) -> tuple[Pin, ...]:
    """Parse the pins of a request, which hold at the levels inside every stage.

    Raises:
        OptionError: there is no such layer, level or choice.
    """
    apart = request.heterogeneous is not None and not request.outside
    nodes, levels = graph.nodes(request.graph), request.levels - apart
    return tuple(parse_pin(text, nodes, levels) for text in request.pins)


def plan_stages(
    request: Request,
    graph: LayerGraph,
    progress: Callable[[int, int], None] = lambda *_: None,
    limit: float = math.inf,
) -> tuple[Staging, tuple[CutSpans, ...]] | None:
    """Divide a network into the requested stages, and cut each stage.

    Args:
        request: the request.
        graph: the network.
        progress: called with the number of tries done, and their total.
        limit: seconds that a step of the best stages must be below.

    Returns:
        The stages, with the spans that each is of, or None if the best stages are not below the limit.

    Raises:
        InputError: the network, the batch or the machine does not allow that number of stages.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    if request.stages != BEST:
        assert isinstance(request.stages, int)  # noqa: S101 (checked with the request)
        return _in_orders(request, graph, request.stages)
    tries = list(_tries(request, graph))
    known: dict[tuple[object, ...], KnownOf] = {}
    found: list[tuple[float, int, Divided]] = []
    least = limit
    for number, (groups, own) in enumerate(tries):
        inside = f" of {'x'.join(map(str, own.array))}" if own.array else ""
        tell(f"trying {len(groups)} stages{inside}, {own.microbatches} microbatches")
        with suppress(HardwareError):  # stages that do not fit are not candidates
            of_array = known.setdefault((*own.arrays.items(),), {})
            divided = _divided(own, graph, groups, of_array, least * NEAR)
            if divided is not None:
                seconds = estimated_s(divided.request, divided.microbatches, divided.stages)
                least = min(least, seconds)
                found.append((seconds, number, divided))
        progress(number + 1, len(tries))
    overlap = any(machine.overlap for machine in request.machines)
    near = [divided for seconds, _, divided in sorted(found) if seconds <= least * NEAR]
    return _fastest(near[: MOST_RUN if overlap or request.chunks else 1], limit)


def _in_orders(request: Request, graph: LayerGraph, stages: int) -> tuple[Staging, tuple[CutSpans, ...]]:
    """Return the best stages in the order of device groups whose step is the fastest by the engine.

    Raises:
        InputError: that number of stages is not possible, or no partition fits the memory in any order.
    """
    found: list[tuple[Staging, tuple[CutSpans, ...]]] = []
    refused: list[MemoryLimitError] = []
    known: KnownOf = {}
    for groups in orders_of(request, stages):
        try:
            divided = _divided(request, graph, groups, known)
        except MemoryLimitError as error:
            refused.append(error)
            continue
        assert divided is not None  # noqa: S101 (without a limit there are stages, or an error)
        found.append((divided.run(), divided.spans))
    if not found:
        raise refused[0]
    return min(found, key=lambda one: one[0].ran.timeline.makespan)


def _fastest(candidates: Sequence[Divided], limit: float) -> tuple[Staging, tuple[CutSpans, ...]] | None:
    """Return the candidate whose step is the fastest by the engine; None if none is below a limit."""
    best = None
    for divided in candidates:
        staging = divided.run()
        if staging.ran.timeline.makespan < limit:
            best, limit = (staging, divided.spans), staging.ran.timeline.makespan
    return best


def _tries(request: Request, graph: LayerGraph) -> Iterator[tuple[tuple[str | None, ...], Request]]:
    """Yield the candidates, each with the device groups of its stages: stages over the outermost levels."""
    layers = len(graph.nodes(request.graph).layers)
    for stages, arrays in _divisions(request):
        several = request.parts is not None and graph.batch % stages
        if stages * (request.parts or 1) <= layers and not several:
            for microbatches in _microbatches(request, graph.batch, stages):
                own = replace(request, arrays=arrays, microbatches=microbatches)
                for groups in dict.fromkeys(orders_of(own, stages)):
                    yield groups, own


def _divisions(request: Request) -> Iterator[tuple[int, dict[str, tuple[int, ...]]]]:
    """Yield numbers of stages over the outermost levels, with the levels inside: all that remain, or the innermost.

    Device groups hold equally many stages each, and all their other levels are inside.
    """
    machine = request.machine
    if isinstance(machine, HeterogeneousMachine):
        each = [
            {math.prod(array[:at]): at for at in range(len(array) + 1)} for array in request.arrays.values()
        ]
        for count in sorted(each[0].keys() & set.intersection(*map(set, each))):
            inside = zip(request.arrays.items(), each, strict=True)
            yield count * len(machine.groups), {name: array[at[count] :] for (name, array), at in inside}
        return
    assert machine is not None  # noqa: S101 (stages without a machine are refused)
    for outer in range(1, len(request.array) + 1):
        stages = math.prod(request.array[:outer])
        for inner in range(outer, len(request.array) + 1):
            if machine.num_devices % math.prod((stages, *request.array[inner:])) == 0:
                yield stages, {WHOLE_ARRAY: request.array[inner:]}


def _microbatches(request: Request, batch: int, stages: int) -> list[int]:
    """Return the numbers of microbatches to try: the requested one, or the schedule's default and multiples of the stages."""
    own = checked_microbatches(request.microbatches, request.schedule, batch, stages)
    flushes = request.microbatches is None and SCHEDULES[request.schedule].flushes
    more = (each * stages for each in MULTIPLES if flushes and batch % (each * stages) == 0)
    return sorted({own, *more})


def _divided(
    request: Request,
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
        The stages, or None if the busiest stage alone takes longer than the limit.

    Raises:
        InputError: that number of stages is not possible, or no partition fits the memory.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    layers, stages = len(graph.nodes(request.graph).layers), len(groups)
    if not 1 <= stages <= layers:
        raise OptionError("stages", f"found {stages}", f"1 to {layers}, one for each layer that is cut")
    _require_room(request.parts, stages, layers)
    microbatches = checked_microbatches(request.microbatches, request.schedule, graph.batch, stages, layers)
    spans = spans_of(request, graph, groups, microbatches, known)
    if request.starts:
        bounds = given_bounds(request.starts, graph, spans[0].whole)
        found = joined(spans, [own.span(*ends) for own, ends in zip(spans, pairwise(bounds), strict=True)])
        _require_fits(found, fullest_moments(request.schedule, stages, microbatches, request.parts))
        return Divided(request, microbatches, found, spans)
    if layers > MOST_LAYERS:
        message = f"stages: found {layers:,} layers that are cut; allowed: {MOST_LAYERS:,}; try --starts"
        raise TableLimitError(message, layers, MOST_LAYERS)
    most = limit if request.balance == "time" else math.inf
    best = _best(replace(request, microbatches=microbatches), spans, stages, most)
    if best is not None:
        return Divided(request, microbatches, joined(spans, best), spans)
    if most < math.inf:
        return None
    machines = [own.setting.machine for own in spans]
    sizes = " and ".join(
        dict.fromkeys(format_bytes(own.memory_bytes) for own in machines if own.memory_bytes is not None)
    )
    words = "" if request.parts is None else f" of {request.parts} parts that share it equally"
    problem = f"no {stages} stages{words} fit {sizes}, the memory of a device"
    name = (request.heterogeneous or machines[0]).name
    raise MemoryLimitError(f"hardware {name!r}", problem, hint="try more stages, or a smaller batch")


def _best(request: Request, spans: Sequence[CutSpans], stages: int, limit: float) -> list[CutSpan] | None:
    """Return the parts of the best partition that fits the memory, or None if there is none within a limit.

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
        found = [own.span(*ends) for own, ends in zip(spans, pairwise(best.bounds), strict=True)]
        if parts is None:
            return found
        if fits(found):
            shifts = request.balance == "time"
            return shifted(request, microbatches, spans, best.bounds, fits) if shifts else found
    return None


def _require_room(parts: int | None, stages: int, layers: int) -> None:
    """Refuse more parts than layers, and parts of a single stage, between which nothing would be sent."""
    if parts is None:
        return
    if stages == 1:
        raise OptionError("parts", f"found {parts} of a single stage", "2 stages or more")
    if stages * parts > layers:
        found = f"found {parts} of each of {stages} stages"
        raise OptionError("parts", found, f"at most {layers} in all, one for each layer that is cut")


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
                    lane.at(lane.name, lane.place._replace(first=first, moments=tuple(own)))
                    for lane, first in zip(lanes, firsts[stage::count], strict=False)
                ]
            )
            yield stage + 1, lane, held_with(lane, max(part.cuts.memory[group]["buffers"] for part in parts))


def _require_fits(stages: Sequence[CutSpan], moments: Sequence[Sequence[Moment]]) -> None:
    """Refuse given stages of which one does not fit the memory.

    Raises:
        MemoryLimitError: one does not fit.
    """
    for number, lane, held in held_in(stages, moments):
        machine = lane.setting.machine
        if not machine.fits(held):
            found = f"found {format_bytes(held)} in stage {number}, from {lane.graph.layers[0].name!r} on"
            allowed = f"{format_bytes(machine.memory_bytes or 0.0)}, the memory of a device"
            hint = "try more stages, or a smaller batch"
            raise MemoryLimitError(f"hardware {machine.name!r}", found, allowed, hint)
