"""The choices of a plan, level by level: for each layer what else it might have had, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import numpy as np

from hypar.costs.graphs.tables import Tables
from hypar.planning.records import Leaf
from hypar.planning.replay import costed_node
from hypar.planning.resolved import Resolved
from hypar.planning.sources import require_groups
from hypar.planning.stages.running import Staging
from hypar.planning.uneven.split import fixed
from hypar.sharding.amounts.factors import Offered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
    from hypar.plan.plan import Plan
    from hypar.planning.question import Question
    from hypar.planning.uneven.planner import Planner
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import Lane
    from hypar.sharding.amounts.counted import State
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelChoices:
    """The choices at one level of one group of devices, given the plan's choices above it.

    ``free`` are the options of each layer in the space; the one ``chosen`` may be none of them, as by a pin. ``level`` is 0
    for the outermost, ``ways`` the number of its groups, and ``group`` the one that is divided on a heterogeneous machine,
    else empty. Planned ``jointly``, the plan weighs the levels below too. ``costed`` makes the costs of all ``options``,
    ``items`` returns those of single layers, item by item. Unless the level's cost ``adds_up``, the slowest group counts, which may
    be another one anew.
    """

    layers: Sequence[PlanNode]
    free: Sequence[Options]
    chosen: Sequence[Choice]
    level: int
    ways: int
    group: str
    jointly: bool
    costed: Callable[[], CostGraph]
    items: Callable[[Sequence[int]], dict[str, Costs]]
    adds_up: bool = True

    @cached_property
    def options(self) -> list[Options]:
        """The options of each layer, the plan's own last if it is none of the space."""
        return [*map(_with, self.free, self.chosen)]

    @cached_property
    def picked(self) -> list[int]:
        """The option that each layer takes."""
        return [own.index(choice) for own, choice in zip(self.options, self.chosen, strict=True)]

    @cached_property
    def problem(self) -> CostGraph:
        """The costs of all choices, alone and in pairs."""
        return self.costed()


def _with(options: Options, choice: Choice) -> Options:
    return options if choice in options else (*options, choice)


def choices_by_level(
    plan: Plan, graph: LayerGraph, machine: Machine | None, profile: Profile | None = None
) -> Iterator[LevelChoices]:
    """Yield the choices of a plan for a network of its batch, stage by stage, each group's outer levels first.

    Raises ``PlanError`` if the machine of its score has other device groups.
    """
    if machine is not None:
        require_groups(plan, machine)
    request = replace(Resolved.of(plan, machine, profile).as_planned(plan), pins=(), refine=False)
    planner, node = costed_node(request, plan, graph)
    if not isinstance(node, Staging):
        yield from _in_tree(plan, planner, cast("Branch", node))
        return
    for own in node.stages:
        yield from _in_tree(plan, own.spans.planner, own.searched, root=own.spans.group or "")


def _in_leaf(plan: Plan, question: Question, lane: Lane, group: str) -> Iterator[LevelChoices]:
    above = question.outermost()
    for level in question.levels:
        at, ways, chosen = level.index, level.ways, [own[level.index] for own in lane.choices]
        # Those that can run beside the choices at the other levels.
        free = [question.left(node, at, (*own[:at], *own[at + 1 :])) for node, own in enumerate(lane.choices)]
        options = [(own,) for own in map(_with, free, chosen)]
        tables = Tables(question.cost, question.graph, [level], options, above)
        yield LevelChoices(
            layers=question.graph.layers,
            free=free,
            chosen=chosen,
            level=lane.depth + at,
            ways=ways,
            group=lane.name or group,
            jointly=plan.search == "joint" and not level.innermost,
            costed=tables.built,
            items=partial(tables.items, 0),
        )
        above = question.below(above, chosen, ways)


def _in_tree(
    plan: Plan, planner: Planner, node: Branch, entered: State | None = None, root: str = ""
) -> Iterator[LevelChoices]:
    """Yield the levels of a node, of a stage on the ``root`` of its groups, an uneven split before what is below it."""
    if isinstance(node, Leaf):
        if node.question is not None:
            yield from _in_leaf(plan, node.question, node.lane, root)
        return
    yield _uneven(planner, node, entered)
    for below, state in zip(node.below, planner.states(node, entered), strict=True):
        yield from _in_tree(plan, planner, below, state)


def _uneven(planner: Planner, branch: Branching, entered: State | None) -> LevelChoices:
    """Return the choices of an uneven split at a plan's shares: the costs of its late group, or of all if they add up."""
    split = planner.split_of(branch, entered)
    weights = [float(at == branch.late or not branch.slowest) for at in range(len(split.rates))]
    free, chosen = planner.options_of(branch), [choice for choice, _ in branch.taken]
    offers = [
        tuple([(choice, shares) for choice in _with(options, own)])
        for options, (own, shares) in zip(free, branch.taken, strict=True)
    ]

    def items(nodes: Sequence[int]) -> dict[str, Costs]:
        costs = split.layer_costs(nodes[0], Offered.of(offers[nodes[0]]))
        computed, sums = (np.tensordot(weights, own, axes=1) for own in reversed(costs))
        return {"compute": computed, "sums": sums} if computed.any() else {"sums": sums}

    return LevelChoices(
        layers=branch.graph.layers,
        free=free,
        chosen=chosen,
        level=branch.depth,
        ways=len(branch.machine.groups),
        group=branch.name,
        jointly=True,
        costed=lambda: fixed(split, offers).problem(weights, weights),
        items=items,
        adds_up=not split.slowest,
    )
