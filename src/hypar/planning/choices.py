"""The choices of a plan, level by level: for each layer what else it might have had, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.nodes.levels import Leaf
from hypar.planning.question import ask
from hypar.planning.replay import costed_tree
from hypar.planning.resolved import Resolved
from hypar.planning.sources import require_groups
from hypar.planning.stages.sites import spans_of
from hypar.planning.uneven.planner import as_branching, as_planner
from hypar.sharding.amounts.factors import Offered
from hypar.sharding.space import targets_of
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.costs.graphs.tables import Tables
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
    from hypar.plan.plan import Plan
    from hypar.plan.stages import StagesRecord
    from hypar.planning.searches.base import Question
    from hypar.planning.stages.spans import CutSpans
    from hypar.planning.uneven.planner import Planner
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelChoices:
    """The choices at one level of one group of devices, given the plan's choices above it.

    Attributes:
        layers: the layers.
        options: the options of each, the plan's own last if it is none of the space, as by a pin.
        free: those of the space alone.
        picked: the option that each takes.
        level: the level, 0 for the outermost.
        ways: its ways, or the number of device groups.
        group: on a heterogeneous machine the group that is divided; empty otherwise.
        jointly: whether the plan weighs the levels below too.
        adds_up: whether the level's cost is a sum; otherwise the slowest group counts, which may be another one anew.
        costed: makes the costs.
        items: the own costs of a layer, item by item.
    """

    layers: Sequence[PlanNode]
    options: Sequence[Options]
    free: Sequence[Options]
    picked: Sequence[int]
    level: int
    ways: int
    group: str
    jointly: bool
    adds_up: bool = True
    costed: Callable[[], CostGraph]
    items: Callable[[int], dict[str, Costs]]

    @cached_property
    def problem(self) -> CostGraph:
        """The costs of all choices, alone and in pairs."""
        return self.costed()


def choices_by_level(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | None,
    profile: Profile | None = None,
) -> Iterator[LevelChoices]:
    """Yield the choices of a plan, stage by stage, each group's outer levels first.

    Args:
        plan: the plan.
        graph: its network, with the plan's batch.
        machine: the machine of its score.
        profile: the measured times that its cost used.

    Raises:
        PlanError: the machine has other device groups.
    """
    if machine is not None:
        require_groups(plan, machine, Path("plan"))
    request = replace(Resolved.of(plan, machine, profile).as_planned(plan), pins=(), refine=False)
    if plan.stages is not None and plan.staged:
        yield from _in_stages(plan, plan.stages, request, graph)
    elif request.heterogeneous is not None:
        yield from _in_tree(plan, *costed_tree(request, plan, graph, request.heterogeneous))
    else:
        question, _ = ask(request, graph)
        yield from _in_question(plan, question)


def _in_stages(
    plan: Plan, stages: StagesRecord, request: Resolved, graph: LayerGraph
) -> Iterator[LevelChoices]:
    spans = spans_of(request, graph, [stage.group for stage in stages.stages], stages.microbatches)
    bounds = accumulate((len(layers) for _, layers in stages.spans), initial=0)
    for own, (start, end) in zip(spans, pairwise(bounds), strict=True):
        yield from _in_stage(plan, own, start, end)


def _in_stage(plan: Plan, spans: CutSpans, start: int, end: int) -> Iterator[LevelChoices]:
    if spans.request.heterogeneous is None:
        yield from _in_question(plan, spans.question(start, end), group=spans.group or "")
        return
    node = spans.of_batch(spans.stored(plan, start, end).cuts.node, start, end)
    planner, entered = as_planner(spans.planner), spans.planner.state_above(node.graph)
    yield from _in_tree(plan, planner, as_branching(planner.costed(node, entered)), entered)


def _in_question(
    plan: Plan, question: Question, choices: Sequence[Options] = (), depth: int = 0, group: str = ""
) -> Iterator[LevelChoices]:
    """Yield the levels of identical devices."""
    choices = choices or [plan.choices(layer.name) for layer in question.graph.layers]
    free, sizes = question.options, question.outermost()
    options = tuple(tuple(map(_with, at_layer, own)) for at_layer, own in zip(free, choices, strict=True))
    question = replace(question, options=options)
    for level in question.levels:
        index, above, ways = level.index, sizes, level.ways
        tables = question.tables(index, index + 1, above)
        chosen = [own[index] for own in choices]
        offered = [at_layer[index] for at_layer in options]
        yield LevelChoices(
            layers=question.graph.layers,
            options=offered,
            free=[at_layer[index] for at_layer in free],
            picked=[own.index(choice) for own, choice in zip(offered, chosen, strict=True)],
            level=depth + index,
            ways=ways,
            group=group,
            jointly=plan.search == "joint" and not level.innermost,
            costed=tables.built,
            items=partial(_items, tables),
        )
        sizes = question.below(above, chosen, ways)


def _items(tables: Tables, node: int) -> dict[str, Costs]:
    """Return the cost of each option inside a layer item by item, ``[tuples above, options]``."""
    return {name: costs[0] for name, costs in tables.items(0, [node]).items()}


def _with(options: Options, choice: Choice) -> Options:
    return options if choice in options else (*options, choice)


def _in_tree(plan: Plan, planner: Planner, branch: Branch, entered: State | None) -> Iterator[LevelChoices]:
    """Yield the levels of a tree of device groups, an uneven split before what is below it."""
    if isinstance(branch, Leaf):
        lane = branch.lane
        if branch.levels:
            question = planner.question_in(branch, entered)
            yield from _in_question(plan, question, lane.choices, lane.depth, lane.name)
        return
    yield _uneven(planner, branch, entered)
    states = () if entered is None else entered.crossing(branch.graph, branch.taken)[-1]
    found = dict(zip(branch.at_work, states, strict=False))
    for group in branch.at_work:
        below = branch.below[group]
        if below is not None:
            yield from _in_tree(plan, planner, below, found.get(group))


def _uneven(planner: Planner, branch: Branching, entered: State | None) -> LevelChoices:
    """Return the choices of an uneven split at a plan's shares: the costs of its late group, or of all if they add up."""
    split = planner.split_of(branch, entered)
    weights = np.ones(len(split.groups))
    if branch.slowest:
        weights = np.eye(len(split.groups))[branch.at_work.index(branch.late)]
    own = [choice for choice, _ in branch.taken]
    free = planner.options_of(branch)
    options = [*map(_with, free, own)]
    offers = [
        Offered.of([(choice, shares) for choice in offered])
        for offered, (_, shares) in zip(options, branch.taken, strict=True)
    ]

    def of_layer(node: int) -> Costs:
        return np.tensordot(weights, split.layer_costs(node, offers[node]), 1)

    def costed() -> CostGraph:
        edges = []
        for at, tensor in enumerate(split.graph.tensors):
            costs = split.tensor_costs(at, offers[tensor.producer], offers[tensor.consumer])
            edges.append(Edge.dense(tensor.producer, tensor.consumer, np.tensordot(weights, costs, 1)))
        return CostGraph(nodes=tuple(map(of_layer, range(len(offers)))), edges=tuple(edges))

    def items(node: int) -> dict[str, Costs]:
        computed = weights @ split.work(split.graph.layers[node], offers[node])
        sums = {"sums": of_layer(node) - computed}
        return {"compute": computed, **sums} if computed.any() else sums

    return LevelChoices(
        layers=branch.graph.layers,
        options=options,
        free=free,
        picked=[offered.index(choice) for offered, choice in zip(options, own, strict=True)],
        level=branch.depth,
        ways=len(branch.below),
        group=branch.name,
        jointly=True,
        adds_up=not split.slowest,
        costed=costed,
        items=items,
    )


def named_layers(plan: Plan, text: str, where: str) -> tuple[list[str], int | None]:
    """Return the layers that a text names, as ``conv*`` or ``fc1@H2``, and its level; None for all levels.

    Args:
        plan: the plan.
        text: the text.
        where: what it was given for, for the error.

    Raises:
        OptionError: there is no such layer or level.
    """
    count = max((split.level + 1 for split in plan.splits), default=0)
    return targets_of(text if count else text.partition("@")[0], plan.layers, count, where)
