"""Plan a heterogeneous machine from the root of its tree, one uneven split after another.

Each uneven split is decided by a search of its own, see ``search``. Each device group then plans the shards that its shares
leave, identical devices by the requested search.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self, cast

from hypar.costs.base import load_cost
from hypar.costs.graphs.tables import structure
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.planning.levels import Leaf, LevelPlanner, Slot
from hypar.planning.pins import apply_pins
from hypar.planning.question import convention_for, load_search, space_of
from hypar.planning.records import plan_of
from hypar.planning.resolved import baseline_request
from hypar.planning.strategies.base import load_strategy
from hypar.planning.uneven.memory import fits
from hypar.planning.uneven.records import claim_of, splits_of
from hypar.planning.uneven.search import Place, SplitSearch
from hypar.planning.uneven.shares import Offer, rows_of
from hypar.planning.uneven.split import UnevenSplit
from hypar.planning.uneven.tree import Branching, state_above
from hypar.sharding.amounts.above import outermost
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import simple
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.levels import Node
    from hypar.planning.pins import Pin
    from hypar.planning.question import Answer, Question
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Options


class Planner(LevelPlanner):
    """A recursive planner of a machine's tree of device groups."""

    def __init__(
        self,
        request: Resolved,
        pins: Sequence[Pin],
        element_bytes: int,
        *,
        root: str = WHOLE_ARRAY,
        in_stage: bool = False,
    ) -> None:
        """Store the arguments.

        Args:
            request: the request.
            pins: choices to hold.
            element_bytes: bytes of an element.
            root: the name of the group that the outermost split divides.
            in_stage: whether the layers are those of a stage: all groups then work, the partition regards the memory, and
                the costs of all groups are summed, as another stage may have another slowest group.
        """
        super().__init__(request, pins, element_bytes)
        self.root, self.in_stage = root, in_stage
        assert request.heterogeneous is not None  # noqa: S101 (a planner of uneven splits)
        self.machine = request.heterogeneous.using(request.arrays)
        self.adapts = request.shares != "equal" and self.cost.slowest
        self.counted = convention_for(request, self.cost)

    @classmethod
    def of(
        cls,
        request: Resolved,
        graph: PlanGraph,
        pins: Sequence[Pin],
        element_bytes: int,
        *,
        root: str | None = None,
        in_stage: bool = False,
    ) -> Self:
        """Return the planner of a request, with the solver of all its splits for some layers; arguments as in ``__init__``.

        Raises:
            InputError: the request does not suit the network or the machine.
        """
        own = replace(request, solver=solver_for(request, graph))
        return cls(own, pins, element_bytes, root=root or WHOLE_ARRAY, in_stage=in_stage)

    def planned(self, graph: PlanGraph) -> Branching:
        """Plan all layers of a network.

        Raises:
            InputError: the request does not suit the network or the machine, or no shares fit the memory.
            TableLimitError: the tables of an exact search would not fit.
        """
        machine = self.machine
        found = self.split(self.root, machine, graph, 0, self.state_above(graph))
        if self.in_stage:
            return found.summed()
        if self.adapts and not fits(found):
            names = ", ".join(group.name for group in machine.groups)
            hint = "take a smaller batch, or --shares equal to see what they would hold"
            raise MemoryLimitError(
                f"hardware {machine.name!r}", f"no shares of {names} fit their memory", hint=hint
            )
        return found

    def state_above(self, graph: PlanGraph) -> State | None:
        """Return the state above all splits by which the cost counts."""
        return state_above(graph, self.cost.convention)

    def branch(self, group: DeviceGroup, graph: PlanGraph, depth: int, entered: State | None) -> Branch:
        """Plan one device group of an uneven split."""
        if group.machine.groups:
            return self.split(group.name, group.machine, graph, depth, entered)
        return self.leaf(group.name, group.machine, graph, depth, entered)

    def _answer(self, question: Question) -> Answer:
        return _answer(self.request.search, question)

    def costed(self, node: Node, entered: State | None = None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares, in the state that splits above leave."""
        if isinstance(node, Leaf):
            return super().costed(node, entered)
        branch = as_branching(node)
        entered = self.state_above(branch.graph) if entered is None else entered
        offers = [Offer(0, choice, shares) for choice, shares in branch.taken]
        received, computed = rows_of(
            self.split_of(branch, entered), offers, branch.at_work, len(branch.below)
        )
        states = () if entered is None else entered.crossing(branch.graph, branch.taken)[-1]
        found = dict(zip(branch.at_work, states, strict=False))
        below = tuple(
            None if one is None else cast("Branch", self.costed(one, found.get(group)))
            for group, one in enumerate(branch.below)
        )
        made = replace(
            branch,
            received=received,
            computed=computed,
            slowest=self.cost.slowest and not self.in_stage,
        )
        return made.with_below(below)

    def split_of(self, branch: Branching, entered: State | None) -> UnevenSplit:
        """Return the uneven split of a decision, with its choices as the only options."""
        options = tuple((offer.choice,) for offer in branch.offers)
        place = Place(branch.name, branch.machine, branch.graph, branch.depth, entered, options)
        return self.split_at(place, branch.at_work)

    def options_of(self, branch: Branching) -> tuple[Options, ...]:
        """Return the options of each layer at the split of a decision."""
        return self._options(branch.machine, branch.graph, branch.depth)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every split and every group of a tree with its options, outer nodes first."""
        if isinstance(node, Leaf):
            yield from super().slots(node)
            return
        branch = as_branching(node)
        rows = zip(branch.graph.layers, branch.offers, self.options_of(branch), strict=True)
        for layer, offer, options in rows:
            yield Slot(layer.name, (offer.choice,), (options,))
        for below in branch.below:
            if below is not None:
                yield from self.slots(below)

    def solver(self, node: Node) -> str:  # noqa: ARG002 (all splits have one)
        """Return the name of the solver of all splits."""
        return self.request.solver or ""

    def claim(self, node: Node) -> str:
        """Return the claim of a tree: the plans that it is optimal among."""
        return claim_of(self.request, as_branching(node))

    def decided(self, graph: LayerGraph, node: Node, claim: str) -> Plan:
        """Return the plan of a tree for a network, without a score."""
        branch, request = as_branching(node), self.request
        path, splits = branch.path if branch.slowest else None, [*splits_of(branch)]
        solver = self.solver(branch)
        return plan_of(
            request, graph, splits, branch.cost, pins=self.pins, claim=claim, solver=solver, path=path
        )

    def split(
        self,
        name: str,
        machine: Machine,
        graph: PlanGraph,
        depth: int,
        entered: State | None,
    ) -> Branching:
        """Plan an uneven split over all its device groups, then without the groups that only add cost.

        If no shares fit the memory, return equal shares of all groups: a split above may find smaller ones.
        """
        place = Place(name, machine, graph, depth, entered, self._options(machine, graph, depth))
        return SplitSearch(self, place).best()

    def fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.adapts or self.in_stage or fits(one)

    def _options(self, machine: Machine, graph: PlanGraph, depth: int) -> tuple[Options, ...]:
        """Return each layer's options at an uneven split."""
        ways = len(machine.groups)
        own = [replace(pin, level=None) for pin in self.pins if pin.level in {None, depth}]
        return split_options(self.request, graph, ways, own)

    def split_at(self, place: Place, at_work: tuple[int, ...]) -> UnevenSplit:
        """Return the uneven split over the working groups."""
        groups = tuple(place.machine.groups[group] for group in at_work)
        return UnevenSplit(
            graph=place.graph,
            options=place.options,
            groups=groups,
            rates=tuple(self.cost.group_rates(group, self.element_bytes) for group in groups),
            slowest=self.cost.slowest,
            solver=load_solver(solver_for(self.request, place.graph)),
            entered=place.entered or outermost(place.graph, PAPER, tied=False),
        )


def split_options(
    request: Resolved, graph: PlanGraph, ways: int, pins: Sequence[Pin] = ()
) -> tuple[Options, ...]:
    """Return each layer's options at an uneven split: one dim divided over all groups, or a join left whole.

    Args:
        request: the request, for its space.
        graph: the layers.
        ways: the number of device groups.
        pins: choices to hold at this split.

    Raises:
        OptionError: a layer has none.
    """
    space = space_of(request, graph)
    free = [(space.choices(layer, ways),) for layer in graph.layers]
    held = apply_pins(pins, graph, free, (ways,))
    found = [tuple(choice for choice in options if simple(choice, ways)) for (options,) in held]
    for layer, options in zip(graph.layers, found, strict=True):
        if not options:
            what = f"{layer.name!r} cannot be divided in one dim over {ways} device groups"
            raise OptionError(f"space {request.space!r}", what, "one dim over all device groups")
    return tuple(found)


def as_planner(planner: LevelPlanner) -> Planner:
    """Return a planner that is known to be one of uneven splits."""
    assert isinstance(planner, Planner)  # noqa: S101 (its machine has several groups)
    return planner


def as_branching(node: Node) -> Branching:
    """Return a node that is known to be an uneven split."""
    assert isinstance(node, Branching)  # noqa: S101 (the node divides several groups)
    return node


@lru_cache(maxsize=512)
def _answer(search: str, question: Question) -> Answer:
    """Run a search; candidate decisions, and plans for other machines with a group in common, ask the same again.

    Where the tables of the solver of the uneven splits would not fit, the levels of a group are solved with a bound.
    """
    try:
        return load_search(search).run(question)
    except TableLimitError:
        return load_search(search).run(replace(question, solver=None))


def solver_for(request: Resolved, graph: PlanGraph) -> str:
    """Return the requested solver, or the cheapest one for all uneven splits and groups of identical devices."""
    if request.solver is not None:
        return request.solver
    space = space_of(request, graph)
    arrays = {(2,), *(request.arrays.values() if load_search(request.search).at_once else ())}
    return cheapest(
        tuple(
            structure(
                graph, [tuple(space.choices(one, ways) for ways in array) for one in graph.layers], PAPER
            )
            for array in sorted(arrays)
        )
    )


def baseline_of_groups(planner: LevelPlanner, graph: PlanGraph, name: str) -> Branching | None:
    """Plan by a strategy, with shares of its own; None if it cannot be planned."""
    named, own = load_strategy(name), baseline_request(planner.request, name)
    cost = named.heterogeneous_cost or named.cost
    shares = named.shares if load_cost(cost, {}).slowest else "equal"
    own = replace(own, cost=cost, shares=shares, solver=None)
    with suppress(MemoryLimitError, OptionError, TableLimitError):
        return Planner.of(own, graph, planner.pins, planner.element_bytes).planned(graph)
    return None
