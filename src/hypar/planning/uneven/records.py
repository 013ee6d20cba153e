"""The records in a plan of the decisions for a heterogeneous machine, and the nodes of a stored plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.setting import Setting
from hypar.planning.question import NO_MACHINE, Answer
from hypar.planning.records import Leaf
from hypar.planning.uneven.tree import Branching
from hypar.schedule.lanes import Lane
from hypar.sharding.tree import WHOLE_ARRAY, GroupRecord, Split
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.tree import Branch


def splits_of(branch: Branch) -> Iterator[Split]:
    """Yield the splits of a group, then the splits of the device groups inside it."""
    if isinstance(branch, Leaf):
        yield from branch.splits()
        return
    yield _uneven_split(branch)
    for below in branch.below:
        yield from splits_of(below)


def together(splits: Sequence[Split]) -> Split:
    """Return the splits of one group in several stages as one, with the layers of all; its costs sum over all groups."""
    first = splits[0]
    choices = {layer: own for split in splits for layer, own in split.choices.items()}
    costs = {layer: cost for split in splits for layer, cost in split.costs.items()}
    found = {"choices": choices, "costs": costs, "cost": _sum(costs.values())}
    if first.sides is None:
        return first.model_copy(update=found)
    apart = {
        layer: [*split.shares_of(layer)]
        for split in splits
        for layer in split.choices
        if split.shares_of(layer) != tuple(first.shares)
    }
    sides = [
        _side(own[0].group, [one.received for one in own], [one.computed for one in own])
        for own in zip(*(split.sides or () for split in splits), strict=True)
    ]
    return first.model_copy(update={**found, "layer_shares": apart or None, "sides": sides})


def _side(group: str, received: Sequence[float], computed: Sequence[float]) -> GroupRecord:
    return GroupRecord(group=group, received=_sum(received), computed=_sum(computed))


def _sum(costs: Iterable[float]) -> float:
    return exact_number(math.fsum(costs))


def _uneven_split(branch: Branching) -> Split:
    """Return an uneven split, with the cost that its slowest device group receives, or that all receive."""
    names = [layer.name for layer in branch.graph.layers]
    rows = [branch.received[branch.late]] if branch.slowest else branch.received
    costs = [math.fsum(column) for column in zip(*rows, strict=True)]
    below = branch.below[branch.late]
    if branch.slowest and isinstance(below, Leaf) and not below.levels:
        costs = [cost + own for cost, own in zip(costs, branch.computed[branch.late], strict=True)]
    groups = branch.machine.groups
    sides = {own.name: _side(own.name, (), ()) for own in groups}
    for group, *own in zip(branch.groups, branch.received, branch.computed, strict=True):
        sides[group.name] = _side(group.name, *own)

    def spread(shares: Sequence[float]) -> list[float]:
        given = dict(zip(branch.at_work, shares, strict=True))
        return [given.get(group, 0.0) for group in range(len(groups))]

    named = dict(zip(names, branch.taken, strict=True))
    return Split(
        level=branch.depth,
        group=branch.name,
        ways=len(groups),
        shares=spread(branch.shares),
        choices={name: dict(choice.degrees) for name, (choice, _) in named.items()},
        costs={name: exact_number(cost) for name, cost in zip(names, costs, strict=True)},
        cost=_sum(costs),
        sides=[*sides.values()],
        layer_shares={name: spread(own) for name, (_, own) in named.items() if own != branch.shares} or None,
    )


class TreeReader(NamedTuple):
    """The reading of a plan's tree of device groups as nodes without costs, in a setting but for its devices."""

    plan: Plan
    setting: Setting

    def branch(self, name: str, machine: Machine, graph: PlanGraph, depth: int) -> Branch:
        """Return one device group, which has a machine and layers, below a number of uneven splits."""
        own = [split for split in self.plan.splits if split.group == name]
        if machine.groups:
            return self._split(own[0], machine, graph, depth)
        setting = replace(self.setting, machine=machine, array=tuple(split.ways for split in own))
        choices = tuple(tuple(split.choice(layer.name) for split in own) for layer in graph.layers)
        lane = Lane(graph, choices, setting, "" if name == WHOLE_ARRAY else name, depth)
        return Leaf(lane=lane, answer=Answer(choices=choices, costs=(), solver="", exact=True))

    def _split(self, split: Split, machine: Machine, graph: PlanGraph, depth: int) -> Branching:
        taken = [(split.choice(layer.name), split.shares_of(layer.name)) for layer in graph.layers]
        found = Branching(name=split.group, depth=depth, graph=graph, machine=machine)
        found = found.decided(range(len(machine.groups)), taken, split.shares)
        own = found.groups
        return found.grown(lambda at, left: self.branch(own[at].name, own[at].machine, left, depth + 1))


def branch_of(plan: Plan, request: Resolved, graph: LayerGraph) -> Branch:
    """Return the node of a plan without stages on the machine of a request, if any, without costs; raises ``HardwareError``."""
    used = (request.machine or NO_MACHINE).using(plan.arrays or {})
    setting = Setting(
        machine=used,
        array=(),
        element_bytes=graph.element_bytes,
        optimizer=request.optimizer,
        convention=request.counted,
    )
    return TreeReader(plan, setting).branch(WHOLE_ARRAY, used, graph.nodes(plan.graph), 0)
