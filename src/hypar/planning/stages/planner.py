"""Plan in stages: their number, their devices, and their records.

Every number of stages that the array's devices allow is tried where the best is asked for. The devices of a stage are any of
identical devices, or an equal part of one device group of a heterogeneous machine, which is divided into stages at its outermost
split: each group holds equally many consecutive stages.
Idea: a candidate is divided into stages, and run by the engine, as far as the lower bound of its busiest stage is below the fastest
step found. Guarantee: the same stages as if all candidates were divided, ties included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, cast

from hypar.activity import count, tell
from hypar.errors import HardwareError, MemoryLimitError, OptionError
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan
from hypar.plan.records import FLUSHES, StageRecord, StagesRecord
from hypar.plan.request import BEST
from hypar.planning.engine import timed
from hypar.planning.pins import parse_pin
from hypar.planning.question import load_search
from hypar.planning.records import Node, objective, pins_text, plan_of
from hypar.planning.resolved import Resolved, checked_microbatches, stages_of_each
from hypar.planning.stages.partition import divided, unfit
from hypar.planning.stages.running import Staging, kept_in_flight, works_of
from hypar.planning.stages.spans import CutSpan, CutSpans, Known, spans_of, stage_ends
from hypar.planning.uneven.planner import Planner, Slot
from hypar.planning.uneven.tree import Branching, splits_of
from hypar.schedule.pipeline_orders import in_flight, staleness
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.solve.solvers.base import load_solver
from hypar.units import exact_number

MULTIPLES = (1, 2, 4, 8)
"""Numbers of microbatches per stage that are tried."""


def decided_stages(request: Resolved, graph: LayerGraph, whole: Plan | None) -> Plan:
    """Decide a network in the requested stages.

    Of the best number, ``whole`` is the plan without stages, which is returned if no stages are faster.

    Raises:
        InputError: the request does not suit the network, or no stages fit the memory.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    if request.profile is not None:
        request.profile.require(graph.name, graph.digest, graph.batch, request.array)
    # If no layer is cut, search and solver are not used, but their names are checked.
    load_search(request.search)
    if request.solver is not None:
        load_solver(request.solver)
    planner = StagePlanner(request, graph)
    fitting = whole.score if whole is not None and whole.score is not None and whole.score.fits else None
    staging = plan_stages(request, graph, math.inf if fitting is None else fitting.time_s)
    if staging is None:
        assert whole is not None  # noqa: S101 (a given number of stages has an answer)
        claim = f"{whole.claim}; no stages that were tried are faster"
        return whole.model_copy(update={"stages": _no_stages(request, whole), "claim": claim})
    return timed(planner, graph, staging)


def orders_of(request: Resolved, stages: int) -> list[tuple[str | None, ...]]:
    """Return the orders of device groups to try, the group of each stage; None for identical devices."""
    machine = request.heterogeneous
    if machine is None or request.outside:
        return [(None,) * stages]
    each = stages_of_each(machine, stages)
    names = tuple(group.name for group in machine.groups for _ in range(each))
    return [*dict.fromkeys((names, names[::-1]))]


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
    found, misfits = list[Staging](), list[MemoryLimitError]()
    for spans in orders:
        try:
            found += filter(None, [divided(request, spans, graph)])
        except MemoryLimitError as misfit:
            misfits.append(misfit)
    if not found:
        raise misfits[0] if misfits else unfit(request, graph, orders[0])
    return found[0] if len(found) == 1 else min(found, key=lambda own: own.seconds)


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
    candidates, best = [*_candidates(request, graph)], None
    for done, (own, spans) in enumerate(candidates):
        count(done, len(candidates))
        inside = f" of {'x'.join(map(str, own.array))}" if own.array else ""
        tell(f"trying {len(spans) // (own.parts or 1)} stages{inside}, {own.microbatches} microbatches")
        with suppress(HardwareError):
            staging = divided(own, spans, graph, limit)
            if staging is not None and staging.seconds < limit:
                best, limit = staging, staging.seconds
    count(len(candidates), len(candidates))
    return best


def _candidates(request: Resolved, graph: LayerGraph) -> Iterator[tuple[Resolved, tuple[CutSpans, ...]]]:
    """Yield numbers of stages, levels inside and microbatches to try as requests, with the spans for each stage in some order."""
    known: Known = {}
    places = len(stage_ends([layer.name for layer in graph.nodes(request.graph).layers])) - 1
    for stages, arrays in _divisions(request):
        several = request.parts is not None and graph.batch % stages
        if stages * (request.parts or 1) > places or several:
            continue
        for microbatches in _microbatches(request, graph.batch, stages):
            own = replace(request, arrays=arrays, microbatches=microbatches)
            for groups in orders_of(own, stages):
                with suppress(HardwareError):
                    yield own, spans_of(own, graph, groups, microbatches, known)


def _divisions(request: Resolved) -> Iterator[tuple[int, dict[str, tuple[int, ...]]]]:
    """Yield numbers of stages over the outermost levels, with the levels inside: all that remain, or the innermost.

    Device groups hold equally many stages each, and all their other levels are inside.
    """
    machine = request.machine
    assert machine is not None  # noqa: S101 (stages without a machine are refused)
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


class StagePlanner(Planner):
    """The planner of stages, each of which has a planner of its own for its cuts."""

    def __init__(self, request: Resolved, graph: LayerGraph) -> None:
        """Store the arguments; raises ``InputError`` for pins that do not suit the network."""
        # Pins hold at the levels inside every stage.
        apart = request.heterogeneous is not None and not request.outside
        nodes, levels = graph.nodes(request.graph), request.levels - apart
        self.request, self.element_bytes = replace(request, baselines=()), request.element_bytes(graph)
        self.pins = tuple(parse_pin(text, nodes, levels) for text in request.pins)

    def costed(self, node: Node) -> Node:
        """Return stages with the costs that their planners count for their choices and shares."""
        staging = cast("Staging", node)
        return staging.having(own.spans.planner.counted(own.searched) for own in staging.stages)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer of every stage at each of its nodes with its options."""
        for own in cast("Staging", node).stages:
            yield from own.spans.planner.slots(own.searched)

    def claim(self, node: Node) -> str:
        """Return the claim of stages: the plans that they are optimal among."""
        return _claim(self.request, cast("Staging", node))

    def decided(self, graph: LayerGraph, node: Node, claim: str) -> Plan:
        """Return the plan of stages of a network, without a score."""
        staging = cast("Staging", node)
        splits = [*_splits(staging)]
        solvers = (own.spans.planner.solver(own.node) for own in staging.stages if _cut(own))
        return plan_of(
            replace(self.request, arrays=staging.request.arrays),
            graph,
            splits,
            math.fsum(split.cost for split in splits),
            claim=claim,
            solver=", ".join(dict.fromkeys(solvers)),
            pins=self.pins,
            stages=stages_of(staging, self.request),
        )


def stored_stages(plan: Plan, request: Resolved, graph: LayerGraph) -> Staging:
    """Return the stages that a plan records on the machine of a request; raises ``HardwareError`` if an array does not fit it."""
    stages = plan.stages
    assert stages is not None  # noqa: S101 (a plan in stages)
    own = replace(request.as_planned(plan), pins=(), schedule=stages.schedule, parts=stages.parts_of_each)
    spans = spans_of(own, graph, [stage.group for stage in stages.stages], stages.microbatches)
    bounds = pairwise(accumulate((len(layers) for _, layers in stages.spans), initial=0))
    found = [of.stored(plan, *ends) for of, ends in zip(spans, bounds, strict=True)]
    return Staging.of(own, found)


def stages_of(staging: Staging, request: Resolved) -> StagesRecord:
    """Return the record of stages for a plan."""
    stages, count, microbatches = staging.stages, staging.count, staging.stages[0].spans.microbatches
    each = [(stages[stage::count], works) for stage, works in enumerate(works_of(staging.request, count))]
    kept = zip(stages, kept_in_flight(staging.request, count), strict=True)
    costliest = max(span.cost(request.balance, own) for span, own in kept)
    return StagesRecord(
        **_asked(request),
        starts=True if request.starts else None,
        bottleneck=None if request.balance == "time" else exact_number(costliest),
        outside=request.outside or None,
        microbatches=microbatches,
        bottleneck_s=max(math.fsum(span.cost("time") for span in parts) for parts, _ in each),
        stages=[
            StageRecord(
                group=parts[0].spans.group,
                layers=[layer.name for span in parts for layer in span.lanes[0].graph.layers],
                parts=None if request.parts is None else [span.work.layers for span in parts],
                busy_s=math.fsum(span.seconds for span in parts),
                in_flight=in_flight(works),
                staleness=staleness(works, microbatches),
            )
            for parts, works in each
        ],
    )


def _no_stages(request: Resolved, whole: Plan) -> StagesRecord:
    """Return the record for a plan that is faster without stages: all layers form one stage."""
    time_s = 0.0 if whole.score is None else whole.score.time_s
    layers = list(whole.splits[0].choices)
    alone = StageRecord(layers=layers, busy_s=time_s, in_flight=1, staleness=0)
    return StagesRecord(**_asked(request), microbatches=1, bottleneck_s=time_s, stages=[alone])


def _asked(request: Resolved) -> dict[str, Any]:
    """Return the fields of a record that say what was asked for, and over which levels the best stages were sought."""
    best, uneven = request.stages == BEST, request.heterogeneous is not None
    return {
        "asked": request.stages,
        "asked_microbatches": request.microbatches if best else None,
        "solver": request.solver,
        "schedule": request.schedule,
        "parts": request.parts,
        "balance": None if request.balance == "time" else request.balance,
        "array": list(request.array) if best and not uneven else None,
        "arrays": {name: list(own) for name, own in request.arrays.items()} if best and uneven else None,
    }


def _claim(request: Resolved, staging: Staging) -> str:
    bounds = _claim_of_ends(request, staging)
    if not any(map(_cut, staging.stages)):
        return f"{bounds}, not cut"
    exact = all(leaf.answer.exact for span in staging.stages for leaf in span.node.leaves())
    solver = "" if exact else f" and solver {request.solver!r}, not exact,"
    if any(isinstance(span.node, Branching) for span in staging.stages):
        solver += f" with {request.shares} shares, not proven optimal,"
    over = f"over ({request.space}){pins_text(request)} for least {objective(request)}"
    return f"{bounds}, each cut by {request.search} search{solver} {over}"


def _claim_of_ends(request: Resolved, staging: Staging) -> str:
    orders = request.heterogeneous is not None and not request.outside
    found = "of both orders of the device groups the faster: " * orders
    if request.starts:
        return f"{found}stages as given"
    found += "of all numbers of stages tried the fastest: " * (request.stages == BEST)
    least = {"time": "bottleneck", "macs": "arithmetic in the costliest"}
    words = least.get(request.balance, f"{request.balance} in the costliest")
    of_all = f"stages of the least {words} of all partitions"
    found += (
        of_all if request.parts is None else f"stages of {request.parts} parts, by the least {words} part"
    )
    names = [layer.name for own in staging.stages for layer in own.node.graph.layers]
    found += " between blocks" * (len(stage_ends(names)) <= len(names))
    found += " that fit" * any(each.memory_bytes is not None for each in request.machines)
    if request.parts is not None and request.balance == "time":
        found += ", their ends then shifted as long as the step gets shorter"
    if not all(_replicated(span, request.outside) for span in staging.stages):
        found += " if other stages divide samples outside the stages"
    return found


def _replicated(span: CutSpan, outside: int) -> bool:
    """Return whether the layers of a stage divide samples at all levels outside the stages."""
    node = span.node
    if isinstance(node, Branching):
        return not outside or all(choice.divided == ("batch",) for choice, _ in node.taken)
    return all(
        choice.divided == ("batch",) for options in span.lanes[0].choices for choice in options[:outside]
    )


def _cut(span: CutSpan) -> bool:
    return isinstance(span.node, Branching) or bool(span.lanes[0].setting.array)


def _splits(staging: Staging) -> Iterator[Split]:
    """Yield one split for each level inside the stages of a device group, with the layers of all of them."""
    for group in dict.fromkeys(span.spans.group for span in staging.stages):
        nodes = (span.node for span in staging.stages if span.spans.group == group)
        for own in splits_of(*nodes, summed=True):
            alone = group is not None and own.group == WHOLE_ARRAY
            yield own.model_copy(update={"group": group}) if alone else own
