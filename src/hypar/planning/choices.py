"""The choices of a plan, level by level: for each layer what else it might have had, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING, cast

import numpy as np

from hypar.planning.records import Leaf
from hypar.planning.replay import costed_node
from hypar.planning.resolved import Resolved
from hypar.planning.sources import require_groups
from hypar.planning.stages.running import Staging
from hypar.sharding.amounts.factors import Offered
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.costs.graphs.tables import Tables
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


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelChoices:
    """The choices at one level of one group of devices, given the plan's choices above it.

    ``free`` are the options of each layer in the space; the one ``chosen`` may be none of them, as by a pin. ``level`` is 0
    for the outermost, ``ways`` the number of its groups, and ``group`` the one that is divided on a heterogeneous machine,
    else empty. Planned ``jointly``, the plan weighs the levels below too. ``costed`` makes the costs of all ``options``,
    ``items`` returns a layer's own, item by item. Unless the level's cost ``adds_up``, the slowest group counts, which may
    be another one anew.
    """

    layers: Sequence[PlanNode]
    free: Sequence[Options]
    chosen: Options
    level: int
    ways: int
    group: str
    jointly: bool
    costed: Callable[[], CostGraph]
    items: Callable[[int], dict[str, Costs]]
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
    free, sizes = _beside(question, lane), question.outermost()
    options = tuple(map(tuple, map(map, repeat(_with), free, lane.choices)))
    question = replace(question, options=options, sizes=())
    for level in question.levels:
        index, ways, chosen = level.index, level.ways, tuple([own[level.index] for own in lane.choices])
        tables = question.tables(index, index + 1, sizes)
        yield LevelChoices(
            layers=question.graph.layers,
            free=[at_layer[index] for at_layer in free],
            chosen=chosen,
            level=lane.depth + index,
            ways=ways,
            group=lane.name or group,
            jointly=plan.search == "joint" and not level.innermost,
            costed=tables.built,
            items=partial(_items, tables),
        )
        sizes = question.below(sizes, chosen, ways)


def _beside(question: Question, lane: Lane) -> list[list[Options]]:
    """Return the options of each layer at each level that can run beside its choices at the others."""
    return [
        [question.left(node, at, (*own[:at], *own[at + 1 :])) for at in range(len(own))]
        for node, own in enumerate(lane.choices)
    ]


def _items(tables: Tables, node: int) -> dict[str, Costs]:
    """Return the cost of each option inside a layer item by item, ``[tuples above, options]``."""
    return {name: costs[0] for name, costs in tables.items(0, [node]).items()}


def _in_tree(
    plan: Plan, planner: Planner, node: Branch, entered: State | None = None, root: str = ""
) -> Iterator[LevelChoices]:
    """Yield the levels of a node, of a stage on the ``root`` of its groups, an uneven split before what is below it."""
    if isinstance(node, Leaf):
        if node.question is not None:
            yield from _in_leaf(plan, node.question, node.lane, root)
        return
    entered = planner.state_above(node.graph) if entered is None else entered
    yield _uneven(planner, node, entered)
    for below, state in zip(node.below, node.states(entered), strict=True):
        yield from _in_tree(plan, planner, below, state)


def _uneven(planner: Planner, branch: Branching, entered: State | None) -> LevelChoices:
    """Return the choices of an uneven split at a plan's shares: the costs of its late group, or of all if they add up."""
    split = planner.split_of(branch, entered)
    weights = np.ones(len(split.rates))
    if branch.slowest:
        weights = np.eye(len(split.rates))[branch.late]
    free, chosen = planner.options_of(branch), tuple([choice for choice, _ in branch.taken])
    offers = [
        Offered.of([(choice, shares) for choice in _with(options, own)])
        for options, (own, shares) in zip(free, branch.taken, strict=True)
    ]

    weighed = partial(np.tensordot, weights, axes=1)

    def costed() -> CostGraph:
        nodes, edges = split.tables(offers)
        pairs = zip(split.graph.tensors, edges, strict=True)
        made = (Edge.dense(tensor.producer, tensor.consumer, weighed(costs)) for tensor, costs in pairs)
        return CostGraph(nodes=tuple(map(weighed, nodes)), edges=tuple(made))

    def items(node: int) -> dict[str, Costs]:
        computed = weighed(split.work(split.graph.layers[node], offers[node]))
        sums = {"sums": weighed(split.layer_costs(node, offers[node])) - computed}
        return {"compute": computed, **sums} if computed.any() else sums

    return LevelChoices(
        layers=branch.graph.layers,
        free=free,
        chosen=chosen,
        level=branch.depth,
        ways=len(branch.machine.groups),
        group=branch.name,
        jointly=True,
        costed=costed,
        items=items,
        adds_up=not split.slowest,
    )
