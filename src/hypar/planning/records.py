"""The records in a plan of the decisions of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.costs.base import load_cost, parameters_of
from hypar.ops.dims import in_order
from hypar.plan.plan import SCHEMA, Plan, rooted
from hypar.plan.records import CostRecord, LimitsRecord, ModelRecord, ProfileRecord
from hypar.planning.question import context_of
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.records import BaselinesRecord, ChunksRecord, RefinementRecord, Score
    from hypar.plan.stages import StagesRecord
    from hypar.planning.resolved import Resolved
    from hypar.planning.searches.base import Answer, Question
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice
    from hypar.sharding.space import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decisions of a request, on identical devices, on device groups, or in stages.

    Attributes:
        claim: the claim of the plan.
        solver: name of the solver.
        pins: the choices that were held.
        splits: the splits, outer ones first.
        cost: the cost that was minimised.
        array: ways of each level.
        arrays: ways of each level inside each device group; None for the requested ones.
        path: the slowest device groups, whose splits the cost sums; None if it sums all.
        bounds: lower bounds of the cost; empty if none is stated.
        limits: the limits that kept the search from a proof; None if none did.
        stages: the stages; None without a pipeline.
        baselines: the strategies that were timed beside it; None if none were.
        refined: the changes by refinement; None if it was not requested.
        chunks: the layers that exchange their gradients together; None if not requested.
        score: the score on the machine; None if no machine is named.
    """

    claim: str
    solver: str
    pins: Sequence[Pin]
    splits: Sequence[Split]
    cost: float
    array: Sequence[int] = ()
    arrays: Mapping[str, Sequence[int]] | None = None
    path: list[str] | None = None
    bounds: Sequence[float] = ()
    limits: LimitsRecord | None = None
    stages: StagesRecord | None = None
    baselines: BaselinesRecord | None = None
    refined: RefinementRecord | None = None
    chunks: ChunksRecord | None = None
    score: Score | None = None


def plan_of(request: Resolved, graph: LayerGraph, found: Decided) -> Plan:
    """Record the decisions of a request for a network as a plan.

    Its entries have their types as they are, so pydantic need not judge them, for which it would first build validators.
    """
    cost = load_cost(request.cost, request.parameters, context_of(request))
    groups, profile = request.heterogeneous is not None, _profile_of(request)
    arrays = request.arrays if found.arrays is None else found.arrays
    plan = Plan.model_construct(
        schema_=SCHEMA,
        model=ModelRecord.model_construct(
            name=graph.name,
            digest=graph.digest,
            batch=graph.batch,
            dims=in_order(graph.nodes(request.graph).named_dims) or None,
        ),
        graph=request.graph,
        strategy=request.strategy,
        space=request.space,
        search=request.search,
        solver=found.solver,
        array=list(found.array),
        arrays={name: list(array) for name, array in arrays.items()} if groups else None,
        shares=request.shares if request.uneven else None,
        path=found.path,
        pins=[str(pin) for pin in found.pins],
        profile=profile,
        bounds=[exact_number(max(0.0, bound)) for bound in found.bounds] or None,
        limits=found.limits,
        convention=request.convention,
        cost=CostRecord.model_construct(
            name=request.cost,
            value=exact_number(found.cost),
            unit=cost.unit,
            parameters=parameters_of(cost),
        ),
        claim=found.claim,
        stages=found.stages,
        root=rooted(found.splits, found.stages),
        baselines=found.baselines,
        refined=found.refined,
        chunks=found.chunks,
        score=found.score,
    )
    plan.require_whole()
    return plan


def _profile_of(request: Resolved) -> ProfileRecord | None:
    """Record the measured times of the cost, or of the step."""
    if request.profile is not None:
        return ProfileRecord(name=request.profile.name, digest=request.profile.digest)
    times = None if request.machine is None else request.machine.measured
    return ProfileRecord(name=times.source, digest=f"sha256:{times.digest}") if times else None


def decided(
    request: Resolved, question: Question, pins: Sequence[Pin], answer: Answer, claim: str
) -> Decided:
    """Return the decisions of a search for identical devices, without a score."""
    names = [layer.name for layer in question.graph.layers]
    splits = [
        even_split(
            level, names, [options[level.index] for options in answer.choices], costs, group=WHOLE_ARRAY
        )
        for level, costs in zip(question.levels, answer.costs, strict=True)
    ]
    return Decided(
        claim=claim,
        solver=answer.solver,
        pins=pins,
        splits=splits,
        cost=math.fsum(split.cost for split in splits),
        array=request.array,
        bounds=answer.bounds,
        limits=_limits_of(answer),
    )


def _limits_of(answer: Answer) -> LimitsRecord | None:
    """Return the record of the limits that kept a search from a proof."""
    if answer.limits is None:
        return None
    cut = answer.cut
    return LimitsRecord(
        seconds=exact_number(answer.limits.seconds),
        bytes=exact_number(answer.limits.bytes),
        cut=None if cut is None else cut.by,
        answers=None if cut is None else cut.answers,
    )


def even_split(
    level: Level,
    names: Sequence[str],
    choices: Sequence[Choice],
    costs: Sequence[float],
    *,
    group: str,
    depth: int = 0,
) -> Split:
    """Return the record of one level of identical devices."""
    return Split.model_construct(
        level=depth + level.index,
        group=group,
        ways=level.ways,
        shares=[1 / level.ways] * level.ways,
        choices={name: dict(choice.degrees) for name, choice in zip(names, choices, strict=True)},
        numbering={
            name: [dict([digit]) for digit in choice.order]
            for name, choice in zip(names, choices, strict=True)
            if choice.order
        }
        or None,
        costs={name: exact_number(cost) for name, cost in zip(names, costs, strict=True)},
        cost=exact_number(math.fsum(costs)),
    )
