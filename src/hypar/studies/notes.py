"""Notes on a plan: its distance from the optimum, the cost of its pins, and faster baselines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, OptionError, ProfileError, TableLimitError
from hypar.plan.records import SEARCHED
from hypar.plan.request import BEST
from hypar.planning.counting import bytes_received, cost_convention, score_convention
from hypar.planning.planner import follow
from hypar.planning.question import ask
from hypar.planning.resolved import BASELINES, FIXED, Resolved
from hypar.planning.searches.base import load_search
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.pins import parse_pin
from hypar.solve.limits import DEFAULT_BYTES, Limits
from hypar.solve.solvers.base import load_solver
from hypar.units import amount, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score

LEAST_SHOWN = 1e-4
"""The smallest gain of a baseline that is printed as a number."""

WIDER = "all divisors"
"""The space that has what the published space of a strategy for grids lacks."""

CHEAP_WIDER = 2**19
"""The most table entries for which that space is searched beside a plan: some tenths of a second."""

REMARK_S = 2.0
"""The most seconds of a joint search without pins, beside a plan with pins."""

CHEAP_ENTRIES = 2**22
"""The most table entries for which the joint optimum is computed beside a greedy plan: some milliseconds."""


def notes(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
    scores: Mapping[str, Score] | None = None,
) -> Iterator[str]:
    """Yield the lines to print below a plan.

    Args:
        plan: the plan.
        graph: the network that it is for.
        machine: the machine of its score.
        profile: the measured times that its cost used.
        scores: what ``baseline_scores`` returns for them, if it is known.

    Yields:
        The joint optimum beside a greedy plan, unless the engine chose or refined it; what the published space of ``deepa``
        lacks; the cost of pins, unless it was
        refined; the gain of a faster baseline; what the cost counted beside what moves; what of the machine the score
        leaves out; the layers with more shards along a dim than elements.
    """
    graph = graph.with_batch(plan.model.batch)
    asked = replace(Resolved.of(plan, machine, profile), refine=False)
    request = replace(asked, chunks=None)
    if (
        not plan.heterogeneous
        and not plan.staged
        and plan.search == "greedy"
        and len(plan.array) > 1
        and not plan.refined
        and (plan.baselines is None or plan.baselines.taken == SEARCHED)
        and not ask(request, graph)[0].leaves_no_choice
    ):
        best = joint_optimum(replace(request, stages=None, baselines=()), graph)
        if best is None:
            yield "the joint optimum is expensive to compute; --search joint finds it or bounds the gap to it"
        elif best.cost.value < plan.cost.value:
            gain = 1 - best.cost.value / plan.cost.value
            yield f"the joint optimum is {gain:.2%} lower: {amount(best.cost.value, best.cost.unit)}"
        else:
            yield "the joint optimum is no lower"
    if plan.strategy == "deepa" and plan.cost.name == "deepa" and not (plan.staged or plan.refined):
        yield from _wider_space(plan, request, graph)
    if plan.pins and not plan.refined:
        yield _pins_cost(plan, request, graph)
    yield from _faster_baseline(
        plan, baseline_scores(plan, graph, machine, profile) if scores is None else scores
    )
    yield from counting_lines(plan, graph)
    yield from machine_lines(plan, graph, machine)
    fine = () if plan.heterogeneous else finer_than_whole(plan, graph)
    if fine:
        more = f" and {len(fine) - 3} more" if len(fine) > 3 else ""
        yield f"cut into more shards than elements, as the papers allow: {', '.join(fine[:3])}{more}"


def _wider_space(plan: Plan, request: Resolved, graph: LayerGraph) -> Iterator[str]:
    """Yield what the space of ``deepa`` lacks, and the cost of a plan that has it, where that is cheap to search.

    Measured times are of the published space.
    """
    published = plan.space == load_strategy("deepa").space
    if not published or plan.heterogeneous or plan.profile is not None or plan.pins:
        return
    lacks = "the space of deepa, as published, has no in_channels and no divisors but powers of two"
    question, _ = ask(replace(request, space=WIDER), graph)
    if question.structure(0, len(question.levels)).entries > CHEAP_WIDER:
        yield f"{lacks}; --space {WIDER!r} has both"
        return
    costs = load_search(request.search).run(question).costs
    cost = math.fsum(map(math.fsum, costs))
    gain = 1 - cost / plan.cost.value
    if gain >= LEAST_SHOWN:
        yield f"{lacks}: with --space {WIDER!r} the cost is {gain:.2%} lower, {amount(cost, plan.cost.unit)}"


def counting_lines(plan: Plan, graph: LayerGraph, score: Score | None = None) -> Iterator[str]:
    """Yield the bytes that the cost counted and those that move, where its convention and the score's differ.

    Args:
        plan: the plan.
        graph: the network, with the plan's batch.
        score: its score; the plan's own if it is not given.

    Yields:
        Both, if they differ.
    """
    own, moved = cost_convention(plan), score_convention(plan, score)
    if DIRECT in {own, moved} or own == moved:
        return
    if plan.staged or plan.heterogeneous:
        yield f"the cost is counted by {own}, bytes and seconds by {moved}"
        return
    counted, received = (bytes_received(plan, graph, convention) for convention in (own, moved))
    if not math.isclose(counted, received):
        what = "a correct execution moves" if own == PAPER else f"by {moved}:"
        texts = [format_bytes(counted), format_bytes(received)]
        if texts[0] == texts[1]:
            texts = [f"{number:,.0f} B" for number in (counted, received)]
        yield f"counted by {own}: {texts[0]}; {what} {texts[1]}"


def machine_lines(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine | None
) -> Iterator[str]:
    """Yield what a score on a machine leaves out: its other devices, and the time of layers without a weight.

    Args:
        plan: the plan.
        graph: the network.
        machine: the machine; None yields nothing.
    """
    if machine is None:
        return
    if plan.num_devices < machine.num_devices:
        yield f"{plan.num_devices:,} of the {machine.num_devices:,} devices of {machine.name} are used"
    untimed = dict.fromkeys(
        layer.op_name
        for layer in graph.layers
        if not layer.op.multiplies and layer.op.unweighted_flop(layer.input_shapes)
        if not machine.counts_unweighted
    )
    if untimed:
        yield f"no weights, so not timed: {', '.join(untimed)}"


def _pins_cost(plan: Plan, request: Resolved, graph: LayerGraph) -> str:
    """Compare the cost with the same request's without pins, solved by the recorded solver if that is not exact."""
    if plan.stages is not None:
        solver = plan.stages.solver
    else:
        solver = None if load_solver(plan.solver).exact else plan.solver
    try:
        free = follow(replace(_briefly(request), pins=(), solver=solver), graph)
    except TableLimitError:
        return "the cost of the pins is unknown: without them the search would not fit"
    except HardwareError:
        return "the cost of the pins is unknown: without them no stages fit"
    if solver is None and not proven(free):
        return "the cost of the pins is unknown: without them no plan is proven optimal"
    now, then, unit = plan.cost.value, free.cost.value, plan.cost.unit
    timed = plan.stages is not None or plan.baselines is not None
    if timed and plan.score is not None and free.score is not None:
        now, then, unit = plan.score.time_s, free.score.time_s, "seconds"
    share = f" ({(now - then) / then:+.2%})" if then else ""
    word = "save" if now < then else "cost"
    return f"the pins {word} {amount(abs(now - then), unit)}{share}"


def _briefly(request: Resolved) -> Resolved:
    """Return the same request for a search whose result is a remark."""
    seconds, size = (min(pair) for pair in zip(request.limits, (REMARK_S, DEFAULT_BYTES), strict=True))
    return replace(request, limits=Limits(seconds, size), limited=False, cut=None)


def proven(plan: Plan) -> bool:
    """Return whether every search behind a plan found its optimum, by an exact solver or by a bound."""
    costs = (
        [split.cost for split in plan.splits] if plan.bounds and len(plan.bounds) > 1 else [plan.cost.value]
    )
    # The stages of a pipeline may have been solved by several solvers.
    exact = all(load_solver(name).exact for name in plan.solver.split(", ") if name)
    return exact or plan.bounds == costs


def baseline_scores(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
) -> dict[str, Score]:
    """Return the scores of the baselines that a plan was not timed against; empty for a plan without a score."""
    if plan.score is None or (plan.staged and plan.heterogeneous):
        # Device groups in stages have arrays of their own, which are none of the whole machine.
        return {}
    from hypar.planning.baselines import baseline_request  # noqa: PLC0415 (only for a plan with a score)

    graph = graph.with_batch(plan.model.batch)
    request = replace(Resolved.of(plan, machine, profile), refine=False)
    request = _without_stages(plan, request, graph)
    found = ((name, _score_of(baseline_request(request, name), graph)) for name in _not_timed(plan))
    return {name: score for name, score in found if score is not None}


def dp_time(plan: Plan, scores: Mapping[str, Score]) -> float | None:
    """Return the time of dp on a plan's machine; None for dp itself, with pins, and where it is not known.

    Args:
        plan: the plan.
        scores: what ``baseline_scores`` returns for it.
    """
    if plan.pins or plan.strategy == "dp":
        return None
    timed = {} if plan.baselines is None else plan.baselines.step_s
    return scores["dp"].time_s if "dp" in scores else timed.get("dp")


def _faster_baseline(plan: Plan, scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield the gain of the fastest baseline that fits as well as the plan, if it is faster than the plan."""
    if plan.score is None:
        return
    from hypar.planning.refinement import LEAST_GAIN  # noqa: PLC0415 (only for a plan with a score)

    now, fastest = plan.score.time_s, None
    for name, score in scores.items():
        if (plan.score.fits and not score.fits) or score.time_s >= now * (1 - LEAST_GAIN):
            continue
        if fastest is None or score.time_s < fastest[1].time_s:
            fastest = name, score
    if fastest is not None:
        name, score = fastest
        gain = 1 - score.time_s / now
        less = f"{gain:.2%}" if gain >= LEAST_SHOWN else f"under {LEAST_SHOWN:.2%}"
        where = " over the same devices, without stages," if plan.staged else ""
        times = f"{format_seconds(score.time_s)} against {format_seconds(now)} a step"
        yield f"{name}{where} would be faster: {times}, {less} less"


def _not_timed(plan: Plan) -> tuple[str, ...]:
    """Return the baselines that the plan in its present form was not timed against."""
    known = plan.baselines is not None and not (plan.refined and plan.chunks)
    timed = plan.baselines.names if known and plan.baselines is not None else ()
    names = BASELINES if plan.cost.name == "time" else FIXED
    return tuple(name for name in names if name not in timed)


def _without_stages(plan: Plan, request: Resolved, graph: LayerGraph) -> Resolved:
    """Return the request without stages: the stages become the outermost level, to which no pin applies."""
    if plan.stages is None or plan.stages.asked == BEST:
        return request
    nodes, levels = graph.nodes(plan.graph), range(len(plan.array))
    pins = [parse_pin(text, nodes, len(levels)) for text in plan.pins]
    outside = plan.stages.outside or 0
    inside = tuple(
        str(replace(pin, level=level + (level >= outside)))
        for pin in pins
        for level in (levels if pin.level is None else [pin.level])
    )
    array = (*plan.array[:outside], len(plan.stages.stages), *plan.array[outside:])
    return replace(request.over(array), pins=inside)


def _score_of(request: Resolved, graph: LayerGraph) -> Score | None:
    try:
        return follow(request, graph).score
    except (HardwareError, OptionError, ProfileError, TableLimitError):
        return None


def joint_optimum(request: Resolved, graph: LayerGraph) -> Plan | None:
    """Plan the request over all levels jointly; return None if the search is not cheap."""
    request = replace(request, search="joint", solver=None)
    question, _ = ask(request, graph)
    structure = question.structure(0, len(question.levels))
    _, solver = question.pick_solver(structure)
    tables = solver.tables(structure) if solver.exact else None
    return follow(request, graph) if tables and tables.work <= CHEAP_ENTRIES else None


def finer_than_whole(plan: Plan, graph: LayerGraph) -> tuple[str, ...]:
    """Return the layers with more shards along a dim than elements, as ``conv1 in_channels``."""
    found = []
    microbatches = 1 if plan.stages is None else plan.stages.microbatches
    for layer in graph.with_batch(graph.batch // microbatches).nodes(plan.graph).layers:
        shards: dict[str, int] = {}
        for dim, degree in (pair for choice in plan.choices(layer.name) for pair in choice.degrees):
            shards[dim] = shards.get(dim, 1) * degree
        found += [f"{layer.name} {dim}" for dim, count in shards.items() if count > layer.einsum.sizes[dim]]
    return tuple(found)
