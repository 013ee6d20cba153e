"""The records in a plan of the decisions for a heterogeneous machine, and the nodes of a stored plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.machine.setting import Setting
from hypar.planning.levels import Leaf
from hypar.planning.question import NO_MACHINE, Answer
from hypar.planning.uneven.shares import Offer
from hypar.planning.uneven.tree import Branching
from hypar.schedule.lanes import Lane
from hypar.sharding.tree import WHOLE_ARRAY, GroupRecord, Split
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        if below is not None:
            yield from splits_of(below)


def together(splits: Sequence[Split]) -> Split:
    """Return the splits of one group in several stages as one, with the layers of all; its costs sum over all groups."""
    first = splits[0]
    choices = {layer: own for split in splits for layer, own in split.choices.items()}
    costs = {layer: cost for split in splits for layer, cost in split.costs.items()}
    found = {"choices": choices, "costs": costs, "cost": exact_number(math.fsum(costs.values()))}
    if first.sides is None:
        return first.model_copy(update=found)
    apart = {
        layer: [*split.shares_of(layer)]
        for split in splits
        for layer in split.choices
        if split.shares_of(layer) != tuple(first.shares)
    }
    sides = [
        GroupRecord(
            group=own[0].group,
            received=exact_number(math.fsum(one.received for one in own)),
            computed=exact_number(math.fsum(one.computed for one in own)),
        )
        for own in zip(*(split.sides or () for split in splits), strict=True)
    ]
    return first.model_copy(update={**found, "layer_shares": apart or None, "sides": sides})


def _uneven_split(branch: Branching) -> Split:
    """Return an uneven split, with the cost that its slowest device group receives, or that all receive."""
    names = [layer.name for layer in branch.graph.layers]
    rows = [branch.received[branch.late]] if branch.slowest else branch.received
    costs = [math.fsum(column) for column in zip(*rows, strict=True)]
    below = branch.below[branch.late]
    if branch.slowest and isinstance(below, Leaf) and not below.levels:
        costs = [cost + own for cost, own in zip(costs, branch.computed[branch.late], strict=True)]
    apart = {
        name: list(offer.shares)
        for name, offer in zip(names, branch.offers, strict=True)
        if offer.shares != branch.shares
    }
    groups = zip(branch.machine.groups, branch.received, branch.computed, strict=True)
    return Split(
        level=branch.depth,
        group=branch.name,
        ways=len(branch.shares),
        shares=list(branch.shares),
        choices={name: dict(offer.choice.degrees) for name, offer in zip(names, branch.offers, strict=True)},
        costs={name: exact_number(cost) for name, cost in zip(names, costs, strict=True)},
        cost=exact_number(math.fsum(costs)),
        sides=[
            GroupRecord(
                group=group.name,
                received=exact_number(math.fsum(received)),
                computed=exact_number(math.fsum(computed)),
            )
            for group, received, computed in groups
        ],
        layer_shares=apart or None,
    )


def claim_of(request: Resolved, branch: Branching) -> str:
    """Return the claim of a plan for a heterogeneous machine: the plans that it is optimal among.

    Args:
        request: the request.
        branch: the planned tree.
    """
    pins = f" and {len(request.pins)} pin{'s' * (len(request.pins) > 1)}" if request.pins else ""
    over = f"over ({request.space}){pins}, one dim a split, for least {request.cost}"
    inexact = [leaf.answer.solver for leaf in branch.leaves() if not leaf.answer.exact]
    if inexact:
        return (
            f"not optimal: solver {inexact[0]!r} is not exact; {request.search} search in each group {over}"
        )
    inner = f"{request.search} search in each group"
    if request.shares == "equal" and not branch.slowest:
        return f"each uneven split is optimal at equal shares given those above it, then {inner}, {over}"
    kinds = {
        "equal": "equal shares, types by weights of the groups",
        "linear": "shares by AccPar's rule, found with the types in turn",
        "exact": "exact shares, found with the types in turn",
        "layers": "exact shares, then shares of each layer",
    }
    return f"{kinds[request.shares]}, not proven optimal, then {inner}, {over}"


def branch_of(plan: Plan, request: Resolved, graph: LayerGraph) -> Branch:
    """Return the node of a plan without stages on the machine of a request, if any, without costs; raises ``HardwareError``."""
    used = (request.machine or NO_MACHINE).using(plan.arrays or {})
    reader = TreeReader(plan, graph.element_bytes, request.optimizer, request.counted)
    return reader.branch(WHOLE_ARRAY, used, graph.nodes(plan.graph), 0)


class TreeReader:
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
        return Leaf(lane=lane, answer=answer)

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
