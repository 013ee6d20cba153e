"""The devices of each stage, and the best number of stages: every number that the array's devices allow is tried.

The devices of a stage are any of identical devices, or an equal part of one device group of a heterogeneous machine, which is
divided into stages at its outermost split: each group holds equally many consecutive stages. A stage receives from a stage of
its own group over the links of their devices, and from one of another group over the link of its group to the others.
Idea: candidates are divided into stages and run by the engine in the order of lower bounds of their steps, as long as these are
below the fastest step found.
Guarantee: the same stages as if all candidates were divided, ties included.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from hypar.activity import count, tell
from hypar.errors import HardwareError, OptionError
from hypar.plan.request import BEST
from hypar.plan.stages import FLUSHES
from hypar.planning.pins import parse_pin
from hypar.planning.question import setting_for
from hypar.planning.resolved import checked_microbatches, stages_of_each
from hypar.planning.stages.arriving import link_of, places_for
from hypar.planning.stages.ends import stage_ends
from hypar.planning.stages.partition import ROUNDING, divided, least_seconds, unfit
from hypar.planning.stages.running import Staging
from hypar.planning.stages.spans import CutSpans
from hypar.planning.uneven.planner import Planner
from hypar.sharding.tree import MOST_DEVICES, WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.tree import Branch

MULTIPLES = (1, 2, 4, 8)
"""Numbers of microbatches per stage that are tried."""


def orders_of(request: Resolved, stages: int) -> list[tuple[str | None, ...]]:
    """Return the orders of device groups to try, the group of each stage; None for identical devices."""
    machine = request.heterogeneous
    if machine is None or request.outside:
        return [(None,) * stages]
    each = stages_of_each(machine, stages)
    names = tuple(group.name for group in machine.groups for _ in range(each))
    return [*dict.fromkeys((names, names[::-1]))]


Known = dict[str | None, dict[str, "Branch"]]
"""The best cuts of spans on each device group, whatever the number of stages and the links; None stands for identical devices."""


def spans_of(
    request: Resolved,
    graph: LayerGraph,
    groups: Sequence[str | None],
    microbatches: int,
    known: Known | None = None,
) -> tuple[CutSpans, ...]:
    """Return for each part of each stage, in the network's order, the spans of a network on its devices.

    The arrays of the request are those inside a stage; ``groups`` has the device group of each stage, None for identical devices.
    More best cuts of spans are added to those that are ``known`` for the same request.

    Raises:
        InputError: the request does not suit the network, or an array the machine.
    """
    request = replace(request, microbatches=microbatches)
    answers: Known = {} if known is None else known
    machines: dict[str | None, DeviceGroup] = {own.name: own for own in _machine(request).groups}
    made: dict[tuple[str | None, bool, bool], CutSpans] = {}
    for name in dict.fromkeys(groups):
        group, each = machines.get(name), groups.count(name)
        own = request if group is None else request.on(group.machine, group.name)
        spans = _spans(own, graph, name, each, answers.setdefault(name, {}))
        links = spans.forward, group and group.using(request.arrays)
        for before, behind in product((False, True), repeat=2):
            made[name, before, behind] = replace(spans, forward=links[before], backward=links[behind])
    parts = (None, *tuple(groups) * (request.parts or 1), None)
    around = zip(parts, parts[1:], parts[2:], strict=False)
    return tuple(
        made[own, before not in {None, own}, behind not in {None, own}] for before, own, behind in around
    )


def _machine(request: Resolved) -> Machine:
    assert request.machine is not None  # noqa: S101 (stages without a machine are refused)
    return request.machine


def _spans(
    request: Resolved, graph: LayerGraph, name: str | None, stages: int, answers: dict[str, Branch]
) -> CutSpans:
    """Return the spans on the devices of a group, for stages between others there."""
    whole, arrays = graph.nodes(request.graph), request.arrays
    # No more devices than the arrays have.
    inside = _machine(request).of_stage(
        request.outside, lambda own, each: places_for(each, arrays[own], stages)
    )
    request = replace(request, machine=inside.using(arrays))
    pins = [parse_pin(text, whole, MOST_DEVICES.bit_length()) for text in request.pins]
    pins = [pin for pin in pins if pin.level is None or pin.level < request.levels]
    planner = Planner(request, whole, pins, graph.element_bytes, root=name, in_stage=True)
    leaves = [(machine, own) for own, machine, _ in _machine(request).leaves()]
    link = link_of([(machine, arrays[own]) for machine, own in leaves], stages)
    setting = setting_for(request.on(*leaves[0]), graph.element_bytes, planner.cost)
    return CutSpans(
        request=request,
        planner=planner,
        whole=whole,
        microbatch=graph.with_batch(graph.batch // (request.microbatches or 1)).nodes(request.graph),
        setting=setting,
        group=name,
        stages=stages,
        forward=link,
        backward=link,
        answers=answers,
    )


def plan_stages(request: Resolved, graph: LayerGraph, limit: float = math.inf) -> Staging | None:
    """Divide a network into the requested stages, and cut each; None if the best number is not faster than a limit in seconds.

    Raises:
        InputError: the network, the batch or the machine does not allow that number of stages, or none fit the memory.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    if request.stages == BEST:
        return _best_stages(request, graph, limit)
    assert isinstance(request.stages, int)  # noqa: S101 (checked with the request)
    known: Known = {}
    orders = [_spans_in(request, graph, groups, known) for groups in orders_of(request, request.stages)]
    found = [own for spans in orders if (own := _staged(request, spans, graph))]
    if not found:
        raise unfit(request, graph, orders[0])
    return found[0] if len(found) == 1 else min(found, key=lambda own: own.seconds)


def _staged(
    request: Resolved, spans: Sequence[CutSpans], graph: LayerGraph, limit: float = math.inf
) -> Staging | None:
    """Return the stages of the best partition; arguments as in ``divided``."""
    stages = divided(spans, graph, limit)
    return None if stages is None else Staging.of(request, stages)


def _spans_in(
    request: Resolved, graph: LayerGraph, groups: Sequence[str | None], known: Known
) -> tuple[CutSpans, ...]:
    """Return the spans for each part of the requested stages, for which the network has places; arguments as in ``spans_of``."""
    stages, parts = len(groups), request.parts
    names = [layer.name for layer in graph.nodes(request.graph).layers]
    layers = len(names)
    places = layers if request.starts else len(stage_ends(names)) - 1
    each = "one for each layer that is cut" if places == layers else "one for each block of layers"
    if not 1 <= stages <= places:
        raise OptionError("stages", f"found {stages}", f"1 to {places}, {each}")
    if parts is not None and stages == 1:
        raise OptionError("parts", f"found {parts} of a single stage", "2 stages or more")
    if parts is not None and stages * parts > places:
        found = f"found {parts} of each of {stages} stages"
        raise OptionError("parts", found, f"at most {places} in all, {each}")
    microbatches = checked_microbatches(request.microbatches, request.schedule, graph.batch, stages, layers)
    return spans_of(request, graph, groups, microbatches, known)


def _best_stages(request: Resolved, graph: LayerGraph, limit: float) -> Staging | None:
    candidates = [*_candidates(request, graph)]
    ahead = sorted((least_seconds(spans), number) for number, (_, spans) in enumerate(candidates))
    found: list[tuple[float, int, Staging]] = []
    for done, (bound, number) in enumerate(ahead):
        least = min([limit, *(seconds for seconds, _, _ in found)])
        if bound == math.inf or bound > least * (1 + ROUNDING):
            break
        count(done, len(candidates))
        own, spans = candidates[number]
        inside = f" of {'x'.join(map(str, own.array))}" if own.array else ""
        tell(f"trying {len(spans) // (own.parts or 1)} stages{inside}, {own.microbatches} microbatches")
        with suppress(HardwareError):
            if staging := _staged(own, spans, graph, least):
                found.append((staging.seconds, number, staging))
    count(len(candidates), len(candidates))
    seconds, _, best = min(found, default=(limit, 0, None))
    return best if seconds < limit else None


def _candidates(request: Resolved, graph: LayerGraph) -> Iterator[tuple[Resolved, tuple[CutSpans, ...]]]:
    """Yield numbers of stages, levels inside and microbatches to try as requests, with the spans for each stage in some order."""
    known: dict[tuple[object, ...], Known] = {}
    places = len(stage_ends([layer.name for layer in graph.nodes(request.graph).layers])) - 1
    for stages, arrays in _divisions(request):
        several = request.parts is not None and graph.batch % stages
        if stages * (request.parts or 1) > places or several:
            continue
        answers = known.setdefault((*arrays.items(),), {})
        for microbatches in _microbatches(request, graph.batch, stages):
            own = replace(request, arrays=arrays, microbatches=microbatches)
            for groups in orders_of(own, stages):
                with suppress(HardwareError):
                    yield own, spans_of(own, graph, groups, microbatches, answers)


def _divisions(request: Resolved) -> Iterator[tuple[int, dict[str, tuple[int, ...]]]]:
    """Yield numbers of stages over the outermost levels, with the levels inside: all that remain, or the innermost.

    Device groups hold equally many stages each, and all their other levels are inside.
    """
    machine = _machine(request)
    if machine.groups:
        each = [
            {math.prod(array[:at]): at for at in range(len(array) + 1)} for array in request.arrays.values()
        ]
        for count in sorted(each[0].keys() & set.intersection(*map(set, each))):
            inside = zip(request.arrays.items(), each, strict=True)
            yield count * len(machine.groups), {name: array[at[count] :] for (name, array), at in inside}
        return
    for outer in range(1, len(request.array) + 1):
        stages = math.prod(request.array[:outer])
        for inner in range(outer, len(request.array) + 1):
            if machine.num_devices % math.prod((stages, *request.array[inner:])) == 0:
                yield stages, {WHOLE_ARRAY: request.array[inner:]}


def _microbatches(request: Resolved, batch: int, stages: int) -> list[int]:
    """Return the numbers of microbatches to try: the requested one, or the schedule's default and multiples of the stages."""
    own = checked_microbatches(request.microbatches, request.schedule, batch, stages)
    flushes = request.microbatches is None and FLUSHES[request.schedule]
    more = (each * stages for each in MULTIPLES if flushes and batch % (each * stages) == 0)
    return sorted({own, *more})
