"""Rebuild the nodes of a stored plan: its uneven splits, and its groups of identical devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.machine.setting import Setting
from hypar.planning.nodes.leaf import Leaf
from hypar.planning.searches.base import Answer
from hypar.planning.uneven.layer_shares import Offer
from hypar.planning.uneven.tree import Branching
from hypar.schedule.lanes import Lane
from hypar.sharding.conventions import PAPER
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.uneven.tree import Branch


def branch_of(
    plan: Plan,
    machine: Machine,
    graph: PlanGraph,
    element_bytes: int,
    optimizer: str,
    counted: str = PAPER,
) -> Branch:
    """Return the node of a plan's whole machine, without costs.

    Args:
        plan: a plan for this machine, or for its device groups.
        machine: the machine.
        graph: the layers that the plan cuts.
        element_bytes: bytes of an element.
        optimizer: the optimizer whose updates are counted.
        counted: the convention by which transfers are counted.

    Raises:
        HardwareError: a group's array does not fit its machine.
    """
    used = machine.using(plan.arrays or {})
    return _Reader(plan, element_bytes, optimizer, counted).branch(WHOLE_ARRAY, used, graph, 0)


def subtree_of(
    plan: Plan,
    name: str,
    machine: Machine,
    graph: PlanGraph,
    element_bytes: int,
    optimizer: str,
    counted: str,
) -> Branching:
    """Return the tree of a group of a plan, without costs; the other arguments as in ``branch_of``.

    Args:
        plan: the plan.
        name: the name of the group.
        machine: its devices, those that are used.
        graph: the layers that it works for.
        element_bytes: bytes of an element.
        optimizer: the optimizer.
        counted: the convention.
    """
    return _Reader(plan, element_bytes, optimizer, counted).split(name, machine, graph, 0)


class _Reader:
    """A recursive reader of a plan's tree of device groups."""

    def __init__(self, plan: Plan, element_bytes: int, optimizer: str, counted: str) -> None:
        self.plan, self.element_bytes, self.optimizer, self.counted = plan, element_bytes, optimizer, counted

    def branch(self, name: str, machine: Machine, graph: PlanGraph, depth: int) -> Branch:
        """Return one device group."""
        if machine.groups:
            return self.split(name, machine, graph, depth)
        own = [split for split in self.plan.splits if split.group == name]
        setting = Setting(
            machine=machine,
            array=tuple(split.ways for split in own),
            element_bytes=self.element_bytes,
            optimizer=self.optimizer,
            convention=self.counted,
        )
        choices = [tuple(split.choice(layer.name) for split in own) for layer in graph.layers]
        answer = Answer(choices=(*choices,), costs=(), solver="", exact=True)
        lane = Lane(graph, answer.choices, setting, "" if name == WHOLE_ARRAY else name, depth)
        return Leaf(lane=lane, levels=(), answer=answer)

    def split(self, name: str, machine: Machine, graph: PlanGraph, depth: int) -> Branching:
        """Return one uneven split."""
        split = next(split for split in self.plan.splits if split.group == name)
        names = [layer.name for layer in graph.layers]
        found = Branching(
            name=name,
            depth=depth,
            graph=graph,
            machine=machine,
            offers=tuple(Offer(0, split.choice(layer), split.shares_of(layer)) for layer in names),
            shares=tuple(split.shares),
            received=(),
            computed=(),
            below=(None,) * len(machine.groups),
            slowest=True,
            element_bytes=self.element_bytes,
            counted=self.counted,
        )
        below = tuple(
            self.branch(group.name, group.machine, found.graph_of(number), depth + 1)
            if split.shares[number]
            else None
            for number, group in enumerate(machine.groups)
        )
        return found.with_below(below)
