"""Remarks on a plan: the joint optimum, faster baselines, shards without elements, and what a machine leaves unused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.document import Note
from hypar.errors import InputError, TableLimitError, few
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan
from hypar.plan.records import SEARCHED, Score, origin_of
from hypar.plan.request import BEST
from hypar.planning.planner import follow, planned
from hypar.planning.question import ask
from hypar.planning.resolved import BASELINE, BASELINES, FIXED, Resolved, baseline_request
from hypar.sharding.space import shards_left
from hypar.solve.solvers.base import load_solver
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from hypar.machine.machine import Machine

LEAST_SHOWN, CHEAP_ENTRIES, ANY_SHAPE = 1e-3, 2**22, "h_tree"
"""The least gain of a faster baseline that is remarked; the most table entries for which the joint optimum is computed beside
a greedy plan, some milliseconds; and the topology on which the shape of an array does not change what an exchange takes."""


def remarks(plan: Plan, scores: Mapping[str, Score] | None = None) -> list[Note]:
    """Return the remarks on a plan that knows its network; ``scores`` are those of ``baseline_scores``, if they are known."""
    made, known = origin_of(plan), baseline_scores(plan) if scores is None else scores
    return [
        *_joint(plan, made.network, Resolved.of(plan, made.machine, made.profile)),
        *_faster(plan, known),
        *_too_fine(plan, made.network),
        *on_this_machine(plan, made.machine),
    ]


def _joint(plan: Plan, graph: LayerGraph, request: Resolved) -> Iterator[Note]:
    """Yield the cost of the joint optimum beside a greedy plan, unless the engine chose or refined it."""
    greedy = plan.search == "greedy" and len(plan.array) > 1 and not (plan.heterogeneous or plan.staged)
    if not greedy or plan.refined or (plan.baselines and plan.baselines.taken != SEARCHED):
        return
    request = replace(
        request, search="joint", solver=None, refine=False, chunks=None, stages=None, baselines=()
    )
    question = ask(request, graph)
    if question.leaves_no_choice:
        return
    structure = question.structure(0, len(question.levels))
    _, solver = question.pick_solver(structure)
    tables = solver.tables(structure) if solver.exact else None
    if tables is None or tables.work > CHEAP_ENTRIES:
        yield Note("", "the joint optimum is expensive to compute; --search joint finds it or bounds the gap")
        return
    best = follow(request, graph).cost
    gain = 1 - best.value / plan.cost.value if plan.cost.value else 0.0
    lower = f"{gain:.2%} lower, {amount(best.value, best.unit)}: --search joint"
    yield Note("", f"the joint optimum is {lower if gain > 0 else 'no lower'}")


def baseline_scores(plan: Plan) -> dict[str, Score]:
    """Return the scores of dp and of the baselines that a plan was not timed against; empty for one without a score."""
    made = origin_of(plan)
    graph, machine = made.network, made.machine
    if graph is None or machine is None or plan.score is None:
        return {}
    if plan.staged and (plan.heterogeneous or plan.strategy == "fit"):
        # Device groups in stages have arrays of their own, and what trains without stages was compared before.
        return {}
    from hypar.planning.chunks import run_chunked  # noqa: PLC0415 (only for a plan with a score)
    from hypar.planning.engine import baselines  # noqa: PLC0415 (only for a plan with a score)

    request = _over_all(plan, replace(Resolved.of(plan, machine, made.profile), refine=False))
    timed = () if plan.baselines is None or (plan.refined and plan.chunks) else plan.baselines.names
    names = BASELINES[1:] if plan.cost.name == "time" else FIXED[1:]
    others = [name for name in names if name not in timed and plan.strategy != "fit"]
    graph = request.network(graph.with_batch(plan.model.batch))
    with suppress(InputError, TableLimitError):
        planner, found = planned(baseline_request(request, BASELINE), graph)
        nodes = {BASELINE: found, **dict(baselines(planner, graph, found, others))}
        return {name: run_chunked(node.work, request.chunks).score(machine) for name, node in nodes.items()}
    return {}


def _over_all(plan: Plan, request: Resolved) -> Resolved:
    """Return the request over the same devices without stages, which become a level, and then without pins."""
    if plan.stages is None or plan.stages.asked == BEST:
        return request
    outside = plan.stages.outside or 0
    array = (*plan.array[:outside], len(plan.stages.stages), *plan.array[outside:])
    return replace(request.over(array), pins=())


def _faster(plan: Plan, scores: Mapping[str, Score]) -> Iterator[Note]:
    """Yield the gain of the fastest baseline that fits, if it is faster than the plan, and what else may fit."""
    if plan.score is None:
        return
    now = plan.score.time_s
    times = {name: score.time_s for name, score in scores.items() if score.fits}
    name = min(times, key=times.__getitem__, default="")
    if name and times[name] < now * (1 - LEAST_SHOWN):
        where = " over the same devices without stages" + " and pins" * bool(plan.pins) if plan.staged else ""
        both = f"{format_seconds(times[name])} against {format_seconds(now)} a step"
        yield Note("faster", f"{name}{where}: {both}, {1 - times[name] / now:.2%} less")
    if not plan.score.fits and plan.strategy != "fit" and not plan.heterogeneous:
        yield Note(
            "fits", "--strategy fit seeks what fits: by ZeRO, recompute, microbatches, stages and other cuts"
        )


def _too_fine(plan: Plan, graph: LayerGraph) -> Iterator[Note]:
    if plan.heterogeneous:
        return
    found: list[str] = []
    for layer in graph.with_batch(graph.batch // plan.microbatches).nodes(plan.graph).layers:
        chosen = plan.choices(layer.name)
        dims = dict.fromkeys(dim for choice in chosen for dim in choice.divided)
        left = shards_left(tuple((dim, layer.nest.sizes[dim]) for dim in dims), chosen)
        found += [f"{layer.name} {dim}" for dim, more in left if more < 1]
    if found:
        yield Note("shards", f"more than there are elements, as the papers allow: {few(found)}")


def on_this_machine(plan: Plan, machine: Machine | None) -> Iterator[Note]:
    """Yield how much of a machine a plan uses, and that its devices as another array take another time."""
    if machine is None:
        return
    if plan.num_devices < machine.num_devices:
        used = f"{plan.num_devices:,} of the {machine.num_devices:,} devices of {machine.name} are used"
        yield Note("machine", used)
    tiers = () if machine.groups else machine.tiers
    shaped = [tier.name for tier in tiers if tier.name != ANY_SHAPE]
    if shaped and len(plan.array) > len(tiers) and not (plan.staged or plan.heterogeneous):
        flat = f"as --array {math.prod(plan.array)} the same devices take another time on a {shaped[-1]}"
        yield Note("array", f"{len(plan.array)} levels exchange one after another; {flat}")


def proven(plan: Plan) -> bool:
    """Return whether every search behind a plan found its optimum, by an exact solver or by a bound."""
    several = plan.bounds and len(plan.bounds) > 1
    costs = [split.cost for split in plan.splits] if several else [plan.cost.value]
    # The stages of a pipeline may have been solved by several solvers.
    exact = all(load_solver(name).exact for name in plan.solver.split(", ") if name)
    return exact or plan.bounds == costs
