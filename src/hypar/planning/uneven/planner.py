"""Plan a heterogeneous machine from the root of its tree, one uneven split after another.

Each uneven split is decided by a search of its own, see ``search``. Each device group then plans the shards that its shares
leave, identical devices by the requested search.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from hypar.costs.base import load_cost
from hypar.costs.graphs.tables import structure
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.planning.pins import apply_pins
from hypar.planning.question import load_search, space_of
from hypar.planning.records import pins_text, plan_of
from hypar.planning.resolved import baseline_request
from hypar.planning.strategies.base import load_strategy
from hypar.planning.uneven.levels import LevelPlanner, Slot
from hypar.planning.uneven.records import splits_of
from hypar.planning.uneven.search import SplitSearch, fits
from hypar.planning.uneven.shares import settled_costs
from hypar.planning.uneven.split import UnevenSplit, quadratics_of
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
    from hypar.planning.pins import Pin
    from hypar.planning.question import Answer, Question
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.levels import Node
    from hypar.planning.uneven.split import Quadratics
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Options

RULES = {
    "equal": "equal shares, types by weights of the groups",
    "linear": "shares by AccPar's rule, found with the types in turn",
    "exact": "exact shares, found with the types in turn",
    "layers": "exact shares, then shares of each layer",
}
"""The claims of the rules for shares."""


class Planner(LevelPlanner):
    """A recursive planner of a machine's tree of device groups."""

    def __init__(
        self,
        request: Resolved,
        graph: PlanGraph,
        pins: Sequence[Pin],
        element_bytes: int,
        *,
        root: str | None = None,
        in_stage: bool = False,
    ) -> None:
        """Store the arguments.

        Args:
            request: the request.
            graph: the layers, by which the solver of all splits is chosen.
            pins: choices to hold.
            element_bytes: bytes of an element.
            root: the name of the group that the outermost split divides; all devices if not given.
            in_stage: whether the layers are those of a stage: all groups then work, the partition regards the memory, and
                the costs of all groups are summed, as another stage may have another slowest group.

        Raises:
            InputError: the request does not suit the network or the machine.
        """
        super().__init__(replace(request, solver=solver_for(request, graph)), pins, element_bytes)
        self.root, self.in_stage = root or WHOLE_ARRAY, in_stage
        assert request.heterogeneous is not None  # noqa: S101 (a planner of uneven splits)
        self.machine = request.heterogeneous.using(request.arrays)
        self.rule = request.shares if self.cost.slowest else "equal"

    def planned(self, graph: PlanGraph) -> Branching:
        """Plan all layers of a network.

        Raises:
            InputError: the request does not suit the network or the machine, or no shares fit the memory.
            TableLimitError: the tables of an exact search would not fit.
        """
        machine = self.machine
        found = self._split(self.root, machine, graph, 0, self.state_above(graph))
        if self.in_stage:
            return found.summed()
        if self.rule != "equal" and not fits(found):
            names = ", ".join(group.name for group in machine.groups)
            hint = "take a smaller batch, or --shares equal to see what they would hold"
            raise MemoryLimitError(
                f"hardware {machine.name!r}", f"no shares of {names} fit their memory", hint=hint
            )
        return found

    def state_above(self, graph: PlanGraph) -> State | None:
        """Return the state above all splits by which the cost counts."""
        return state_above(graph, self.cost.convention)

    def _split(
        self, name: str, machine: Machine, graph: PlanGraph, depth: int, entered: State | None
    ) -> Branching:
        """Plan an uneven split over all its device groups, then without the groups that only add cost.

        If no shares fit the memory, return equal shares of all groups: a split above may find smaller ones.
        """
        slowest = self.cost.slowest
        place = Branching(name=name, depth=depth, graph=graph, machine=machine, slowest=slowest)
        options = self.options_of(place)

        def quadratics(at_work: tuple[int, ...]) -> Quadratics:
            return quadratics_of(self._split_at(replace(place, at_work=at_work), options, entered))

        def planned(made: Branching) -> Branching:
            groups, states = made.groups, made.states(entered)
            priced = self._priced(made, entered)
            return priced.grown(lambda at, own: self._branch(groups[at], own, depth + 1, states[at]))

        return SplitSearch(place, self.rule, self.in_stage, quadratics, planned).best()

    def _branch(self, group: DeviceGroup, graph: PlanGraph, depth: int, entered: State | None) -> Branch:
        plan = self._split if group.machine.groups else self.leaf
        return plan(group.name, group.machine, graph, depth, entered)

    def _answer(self, question: Question) -> Answer:
        return _answer(self.request.search, question)

    def _priced(self, branch: Branching, entered: State | None) -> Branching:
        """Return a split with the costs that this planner counts for its choices and shares, below a state."""
        costs = settled_costs(self.split_of(branch, entered), branch.taken)
        received, computed = (tuple(map(tuple, rows.tolist())) for rows in costs)
        return replace(branch, received=received, computed=computed)

    def costed(self, node: Node, entered: State | None = None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares, in the state that splits above leave."""
        if not isinstance(node, Branching):
            return super().costed(node, entered)
        entered = self.state_above(node.graph) if entered is None else entered
        made, states = self._priced(node, entered), node.states(entered)
        below = [self.costed(own, state) for own, state in zip(node.below, states, strict=True)]
        slowest = self.cost.slowest and not self.in_stage
        return replace(made, slowest=slowest, below=cast("tuple[Branch, ...]", tuple(below)))

    def options_of(self, branch: Branching) -> tuple[Options, ...]:
        """Return each layer's options at an uneven split: one dim divided over all groups, or a join left whole.

        Raises:
            OptionError: a layer has none.
        """
        graph, ways = branch.graph, len(branch.machine.groups)
        space = space_of(self.request, graph)
        free = [(space.choices(layer, ways),) for layer in graph.layers]
        pins = [replace(pin, level=None) for pin in self.pins if pin.level in {None, branch.depth}]
        held = apply_pins(pins, graph, free, (ways,))
        found = [tuple(choice for choice in options if simple(choice, ways)) for (options,) in held]
        for layer, options in zip(graph.layers, found, strict=True):
            if not options:
                what = f"{layer.name!r} cannot be divided in one dim over {ways} device groups"
                raise OptionError(f"space {self.request.space!r}", what, "one dim over all device groups")
        return tuple(found)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every split and every group of a tree with its options, outer nodes first."""
        if not isinstance(node, Branching):
            yield from super().slots(node)
            return
        rows = zip(node.graph.layers, node.taken, self.options_of(node), strict=True)
        for layer, (choice, _), options in rows:
            yield Slot(layer.name, (choice,), (options,))
        for below in node.below:
            yield from self.slots(below)

    def solver(self, node: Node) -> str:  # noqa: ARG002 (all splits have one)
        """Return the name of the solver of all splits."""
        return self.request.solver or ""

    def claim(self, node: Node) -> str:
        """Return the claim of a tree: the plans that it is optimal among."""
        request, branch = self.request, as_branching(node)
        over = f"over ({request.space}){pins_text(request)}, one dim a split, for least {request.cost}"
        inner = f"{request.search} search in each group"
        inexact = [leaf.answer.solver for leaf in branch.leaves() if not leaf.answer.exact]
        if inexact:
            return f"not optimal: solver {inexact[0]!r} is not exact; {inner} {over}"
        if request.shares == "equal" and not branch.slowest:
            return f"each uneven split is optimal at equal shares given those above it, then {inner}, {over}"
        return f"{RULES[request.shares]}, not proven optimal, then {inner}, {over}"

    def decided(self, graph: LayerGraph, node: Node, claim: str) -> Plan:
        """Return the plan of a tree for a network, without a score."""
        branch, request = as_branching(node), self.request
        path, splits = branch.path if branch.slowest else None, [*splits_of(branch)]
        solver = self.solver(branch)
        return plan_of(
            request, graph, splits, branch.cost, pins=self.pins, claim=claim, solver=solver, path=path
        )

    def split_of(self, branch: Branching, entered: State | None) -> UnevenSplit:
        """Return the uneven split of a decision, with its choices as the only options."""
        return self._split_at(branch, [(choice,) for choice, _ in branch.taken], entered)

    def _split_at(self, place: Branching, options: Sequence[Options], entered: State | None) -> UnevenSplit:
        """Return the uneven split at a place of the tree over the groups that work, below a state."""
        return UnevenSplit(
            graph=place.graph,
            options=tuple(options),
            rates=tuple(self.cost.group_rates(group, self.element_bytes) for group in place.groups),
            slowest=self.cost.slowest,
            solver=load_solver(self.request.solver or ""),
            entered=entered or outermost(place.graph, PAPER, tied=False),
        )


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
        return Planner(own, graph, planner.pins, planner.element_bytes).planned(graph)
    return None
