"""Remarks on a plan: the joint optimum, faster baselines, and what its cost and its score leave out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.document import Note
from hypar.errors import HardwareError, OptionError, ProfileError, TableLimitError
from hypar.plan.records import SEARCHED
from hypar.plan.request import BEST
from hypar.planning.counting import bytes_received, cost_convention, score_convention
from hypar.planning.planner import follow
from hypar.planning.question import ask
from hypar.planning.resolved import BASELINES, FIXED, Resolved
from hypar.sharding.conventions import DIRECT
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

LEAST_SHOWN = 1e-3
"""The least gain of a faster baseline that is remarked."""

CHEAP_ENTRIES = 2**22
"""The most table entries for which the joint optimum is computed beside a greedy plan: some milliseconds."""

ANY_SHAPE = "h_tree"
"""The topology on which the shape of an array does not change what an exchange takes."""


def remarks(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
    scores: Mapping[str, Score] | None = None,
) -> list[Note]:
    """Return the remarks to show below a plan.

    Args:
        plan: the plan.
        graph: the network that it is for.
        machine: the machine of its score.
        profile: the measured times that its cost used.
        scores: what ``baseline_scores`` returns for them, if it is known.

    Returns:
        The joint optimum beside a greedy plan, unless the engine chose or refined it; the gain of a faster baseline; the
        layers with more shards along a dim than elements; what the cost counted beside what moves; what of the machine the
        score leaves out.
    """
    graph = graph.with_batch(plan.model.batch)
    known = baseline_scores(plan, graph, machine, profile) if scores is None else scores
    return [
        *_joint(plan, graph, Resolved.of(plan, machine, profile)),
        *_faster(plan, known),
        *_too_fine(plan, graph),
        *counting(plan, graph),
        *on_this_machine(plan, graph, machine),
    ]


def _joint(plan: Plan, graph: LayerGraph, request: Resolved) -> Iterator[Note]:
    """Yield the cost of the joint optimum beside a greedy plan."""
    request = replace(request, refine=False, chunks=None, stages=None, baselines=())
    greedy = plan.search == "greedy" and len(plan.array) > 1 and not (plan.heterogeneous or plan.staged)
    chosen = plan.refined or (plan.baselines is not None and plan.baselines.taken != SEARCHED)
    if not greedy or chosen or ask(request, graph)[0].leaves_no_choice:
        return
    best = joint_optimum(request, graph)
    if best is None:
        yield Note("", "the joint optimum is expensive to compute; --search joint finds it or bounds the gap")
    elif best.cost.value < plan.cost.value:
        gain = 1 - best.cost.value / plan.cost.value
        lower = f"{gain:.2%} lower, {amount(best.cost.value, best.cost.unit)}: --search joint"
        yield Note("", f"the joint optimum is {lower}")
    else:
        yield Note("", "the joint optimum is no lower")


def joint_optimum(request: Resolved, graph: LayerGraph) -> Plan | None:
    """Plan the request over all levels jointly; return None if the search is not cheap."""
    request = replace(request, search="joint", solver=None)
    question, _ = ask(request, graph)
    structure = question.structure(0, len(question.levels))
    _, solver = question.pick_solver(structure)
    tables = solver.tables(structure) if solver.exact else None
    return follow(request, graph) if tables and tables.work <= CHEAP_ENTRIES else None


def baseline_scores(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
) -> dict[str, Score]:
    """Return the scores of dp and of the baselines that a plan was not timed against; empty for one without a score."""
    if plan.score is None or (plan.staged and plan.heterogeneous):
        # Device groups in stages have arrays of their own, which are none of the whole machine.
        return {}
    from hypar.planning.baselines import baseline_request  # noqa: PLC0415 (only for a plan with a score)

    graph = graph.with_batch(plan.model.batch)
    request = _over_all(plan, replace(Resolved.of(plan, machine, profile), refine=False))
    found = ((name, _score_of(baseline_request(request, name), graph)) for name in _compared(plan))
    return {name: score for name, score in found if score is not None}


def _over_all(plan: Plan, request: Resolved) -> Resolved:
    """Return the request over the same devices without stages, which become a level, and then without pins."""
    if plan.stages is None or plan.stages.asked == BEST:
        return request
    outside = plan.stages.outside or 0
    array = (*plan.array[:outside], len(plan.stages.stages), *plan.array[outside:])
    return replace(request.over(array), pins=())


def _compared(plan: Plan) -> tuple[str, ...]:
    """Return dp, for the headline, and the baselines that the plan in its present form was not timed against."""
    known = plan.baselines is not None and not (plan.refined and plan.chunks)
    timed = plan.baselines.names if known and plan.baselines is not None else ()
    names = BASELINES if plan.cost.name == "time" else FIXED
    headline = ("dp",) if in_headline(plan) else ()
    return tuple(dict.fromkeys((*headline, *(name for name in names if name not in timed))))


def in_headline(plan: Plan) -> bool:
    """Return whether a plan is compared with dp: not dp itself, and not with pins, which dp would have to keep."""
    return not plan.pins and plan.strategy != "dp"


def _score_of(request: Resolved, graph: LayerGraph) -> Score | None:
    try:
        return follow(request, graph).score
    except (HardwareError, OptionError, ProfileError, TableLimitError):
        return None


def _faster(plan: Plan, scores: Mapping[str, Score]) -> Iterator[Note]:
    """Yield the gain of the fastest baseline that fits as well as the plan, if it is faster than the plan."""
    if plan.score is None:
        return
    now, fits = plan.score.time_s, plan.score.fits
    times = {name: score.time_s for name, score in scores.items() if score.fits or not fits}
    name = min(times, key=times.__getitem__, default="")
    if name and times[name] < now * (1 - LEAST_SHOWN):
        where = " over the same devices without stages" + " and pins" * bool(plan.pins) if plan.staged else ""
        both = f"{format_seconds(times[name])} against {format_seconds(now)} a step"
        yield Note("faster", f"{name}{where}: {both}, {1 - times[name] / now:.2%} less")


def _too_fine(plan: Plan, graph: LayerGraph) -> Iterator[Note]:
    """Yield the dims of layers with more shards than elements of a sample or microbatch."""
    if plan.heterogeneous:
        return
    microbatches, found = 1 if plan.stages is None else plan.stages.microbatches, []
    for layer in graph.with_batch(graph.batch // microbatches).nodes(plan.graph).layers:
        shards: Counter[str] = Counter()
        for dim, degree in (pair for choice in plan.choices(layer.name) for pair in choice.degrees):
            shards[dim] = max(1, shards[dim]) * degree
        sizes = layer.einsum.sizes
        found += [f"{layer.name} {dim}" for dim, count in shards.items() if count > sizes[dim]]
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        named = f"{', '.join(found[:3])}{more}"
        yield Note("shards", f"more than there are elements, as the papers allow: {named}")


def counting(plan: Plan, graph: LayerGraph, score: Score | None = None) -> Iterator[Note]:
    """Yield the bytes that the cost counted and those that move, where its convention and the score's differ.

    Args:
        plan: the plan.
        graph: the network, with the plan's batch.
        score: its score; the plan's own if it is not given.
    """
    own, moved = cost_convention(plan), score_convention(plan, score)
    if DIRECT in {own, moved} or own == moved:
        return
    by = f"by the convention {own!r}, by which it was planned; {{}}by {moved!r}, which a step moves"
    if plan.staged or plan.heterogeneous:
        yield Note("counted", f"the cost {by.format('bytes and time ')}", detail=True)
        return
    counted, received = (bytes_received(plan, graph, convention) for convention in (own, moved))
    if not math.isclose(counted, received):
        texts = [format_bytes(counted), format_bytes(received)]
        if texts[0] == texts[1]:
            texts = [f"{number:,.0f} B" for number in (counted, received)]
        yield Note("counted", f"{texts[0]} {by.format(f'{texts[1]} ')}", detail=True)


def on_this_machine(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine | None
) -> Iterator[Note]:
    """Yield what a score on a machine leaves out: its other devices and layers without a weight; and other arrays.

    Args:
        plan: the plan.
        graph: the network.
        machine: the machine; None yields nothing.
    """
    if machine is None:
        return
    if plan.num_devices < machine.num_devices:
        used = f"{plan.num_devices:,} of the {machine.num_devices:,} devices of {machine.name} are used"
        yield Note("machine", used)
    yield from _shape(plan, machine)
    untimed = dict.fromkeys(
        layer.op_name
        for layer in graph.layers
        if not layer.op.multiplies and layer.op.unweighted_flop(layer.input_shapes)
        if not machine.counts_unweighted
    )
    if untimed:
        yield Note("not timed", f"layers without weights: {', '.join(untimed)}", True)


def _shape(plan: Plan, machine: Machine | HeterogeneousMachine) -> Iterator[Note]:
    """Yield that the same devices as another array take another time, where several levels share one network."""
    tiers = getattr(machine, "tiers", ())
    shaped = [tier.name for tier in tiers if tier.name != ANY_SHAPE]
    if plan.staged or plan.heterogeneous or len(plan.array) <= len(tiers) or not shaped:
        return
    flat = f"as --array {math.prod(plan.array)} the same devices take another time on a {shaped[-1]}"
    yield Note("array", f"{len(plan.array)} levels exchange one after another; {flat}")


def proven(plan: Plan) -> bool:
    """Return whether every search behind a plan found its optimum, by an exact solver or by a bound."""
    costs = (
        [split.cost for split in plan.splits] if plan.bounds and len(plan.bounds) > 1 else [plan.cost.value]
    )
    # The stages of a pipeline may have been solved by several solvers.
    exact = all(load_solver(name).exact for name in plan.solver.split(", ") if name)
    return exact or plan.bounds == costs
