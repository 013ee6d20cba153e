"""Plan a heterogeneous machine from the root of its tree, one uneven split after another.

Each uneven split is decided by a search of its own. Each device group then plans the shards that its shares leave, identical
devices by the requested search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from hypar.costs.graphs.tables import structure
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.planning.pins import apply_pins
from hypar.planning.question import load_search, space_of
from hypar.planning.records import pins_text, plan_of
from hypar.planning.uneven.levels import LevelPlanner, Slot
from hypar.planning.uneven.memory import fits, limits, tightened
from hypar.planning.uneven.split import (
    UnevenSplit,
    best,
    by_layer,
    quadratics_of,
    search,
    settled,
    settled_costs,
)
from hypar.planning.uneven.tree import Branching, splits_of, state_above
from hypar.sharding.amounts.counted import outermost
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import simple
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.pins import Pin
    from hypar.planning.question import Answer, Question
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.levels import Node
    from hypar.planning.uneven.split import Assignment, Decision, Line, Quadratics
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.amounts.counted import State
    from hypar.sharding.amounts.factors import Taken
    from hypar.sharding.placement import Options

RULES = {
    "equal": "equal shares, types by weights of the groups",
    "linear": "shares by AccPar's rule, found with the types in turn",
    "exact": "exact shares, found with the types in turn",
    "layers": "exact shares, then shares of each layer",
}
"""The claims of the rules for shares."""


LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better, and shares are the same: equal shares stay if no others are cheaper."""

MOST_TURNS = 5
"""Largest number of rounds in which shares are found from the costs below them."""

MOST_TRIES = 8
"""Largest number of times that shares are found anew within the memory limits."""


@dataclass(frozen=True, eq=False)
class SplitSearch:
    """The search of the decision of an uneven split: the choice of each layer, the shares of its groups, and their subtrees.

    An uneven split is decided by the communication between its device groups and by their computation, as AccPar does. Of
    the candidate decisions, which include equal shares, the one whose whole subtree is cheapest is kept. Exact shares are found
    again with the communication found below, which differs between groups. Shares that exceed a device's memory are not offered.
    ``place`` is the split with nothing decided but the groups that work, ``entered`` the state above it.
    """

    planner: Planner
    place: Branching
    entered: State | None
    options: tuple[Options, ...]

    @cached_property
    def every(self) -> Quadratics:
        """The costs of all options over the groups that work."""
        return quadratics_of(self.planner.split_at(self.place, self.options, self.entered))

    def best(self) -> Branching:
        """Return the cheapest decision found, also without groups that only add cost; equal shares if none fit the memory."""
        own, groups, adapts = self, self.place.machine.groups, self.planner.adapts
        found = self._cheapest(self.tried(None))
        while adapts and len(own.place.at_work) > 1:
            fewer = [own.without(group) for group in own.place.at_work]
            tried = {one: each for each in fewer for one in each.tried(found)}
            without = self._cheapest(iter(tried), found)
            if without is None:
                own = own.without(min(own.place.at_work, key=lambda group: groups[group].memory_bytes))
            elif without is found:
                break
            else:
                found, own = without, tried[without]
        if found is not None:
            return found
        decision = best(search(self.every, "equal"))
        return self._made(settled(self.every.split, decision), decision)

    def without(self, out: int) -> SplitSearch:
        """Return the search over all groups that work but one."""
        at_work = tuple(group for group in self.place.at_work if group != out)
        return replace(self, place=replace(self.place, at_work=at_work))

    def _cheapest(self, tried: Iterator[Branching], found: Branching | None = None) -> Branching | None:
        """Return the decision with the cheapest subtree; ties go to the first."""
        for one in tried:
            if _cheaper(one, found) and not (
                self.planner.in_stage and len(one.below) < len(one.machine.groups)
            ):
                found = one
        return found

    def tried(self, found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions, equal shares first, if these beat what is found."""
        rule = self.planner.rule
        yield from self._proposed("equal", found)
        if rule != "equal" and len(self.place.at_work) > 1:
            yield from self._proposed("linear")
            yield from self._proposed("exact") if rule != "linear" else ()

    def _made(self, taken: Sequence[Taken], decision: Decision) -> Branching:
        """Return a decision with its costs, and with its device groups planned."""
        made = self.place.decided(taken, decision.shares)
        return self.planner.with_groups(self.planner.priced(made, self.entered), self.entered)

    def _proposed(self, rule: str, found: Branching | None = None) -> Iterator[Branching]:
        """Yield the decisions of a rule that fit the memory: of shares that are exact, found again with what is known below.

        Shares that do not fit are found anew within what does; equal shares stay, and are none if no cheaper than what is found.
        """
        at_work, before = self.place.at_work, None
        below: list[Line] | None = None
        most: tuple[float, ...] | None = None
        chosen: Assignment | None = None
        turns = tries = 0
        while turns < MOST_TURNS and tries < MOST_TRIES:
            decisions = search(self.every, rule, most, below)
            if not decisions:
                return
            decision = best(decisions)
            taken = settled(self.every.split, decision)
            if before is not None and _same(taken, dict(zip(at_work, decision.shares, strict=True)), before):
                return
            made = self._made(taken, decision)
            fitting = (rule != "equal" or _cheaper(made, found)) and self._fits(made)
            if rule == "equal" and not fitting:
                return
            if fitting:
                yield made
                if rule != "exact":
                    return
                yield from self._by_layer(decision) if self.planner.rule == "layers" else ()
                if before is not None and made.share_of == before.share_of:
                    return
                below, before = [_line_below(made, group, before) for group in at_work], made
                turns, tries, most, chosen = turns + 1, 0, None, None
            else:
                room = dict(zip(made.at_work, limits(made), strict=True))
                own = tuple(room.get(group, 0.0) for group in at_work)
                most = own if most is None or decision.assignment != chosen else tightened(most, own)
                tries, chosen = tries + 1, decision.assignment

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.planner.adapts or fits(one)

    def _by_layer(self, decision: Decision) -> Iterator[Branching]:
        """Yield the decision with separate shares for each layer, if they fit the memory."""
        taken = by_layer(self.every, decision) if all(decision.shares) else []
        # A group without any layer is idle, which is tried separately.
        if taken and all(any(shares) for shares in zip(*(shares for _, shares in taken), strict=True)):
            made = self._made(taken, decision)
            if self._fits(made):
                yield made


def _cheaper(one: Branching, found: Branching | None) -> bool:
    """Return whether a decision has a cheaper subtree than what is found, if anything is."""
    return found is None or one.cost < found.cost * (1 - LEAST_GAIN)


def _line_below(one: Branching, group: int, other: Branching | None) -> Line:
    """Return the cost below a group as a line over its share, through one decision and another.

    With the same choices a group with a larger share does not move less: if it does, its choices changed between
    the two decisions, and the line is constant.
    """
    (share, moved), slope = one.moved_below(group), 0.0
    if other is not None:
        before, then = other.moved_below(group)
        slope = max(0.0, (then - moved) / (before - share)) if before != share else 0.0
    return moved - slope * share, slope


def _same(taken: Sequence[Taken], shares: Mapping[int, float], made: Branching) -> bool:
    """Return whether a decision has the choices of another and, but for rounding, its common shares."""
    alike = [choice for choice, _ in taken] == [choice for choice, _ in made.taken]
    return alike and all(
        abs(share - made.share_of.get(group, 0.0)) <= LEAST_GAIN for group, share in shares.items()
    )


class Planner(LevelPlanner):
    """A recursive planner of a machine's tree of device groups, whose outermost split divides a group of a name, ``root``.

    In a stage all groups work, the partition regards the memory, and the costs of all groups are summed, as another stage may have
    another slowest group.
    """

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
        """Store the arguments; by the layers of ``graph`` the solver of all splits is chosen.

        Raises ``InputError`` if the request does not suit the network or the machine.
        """
        super().__init__(replace(request, solver=solver_for(request, graph)), pins, element_bytes)
        self.root, self.in_stage = root or WHOLE_ARRAY, in_stage
        assert request.heterogeneous is not None  # noqa: S101 (a planner of uneven splits)
        self.machine = request.heterogeneous.using(request.arrays)
        self.rule = request.shares if self.cost.slowest else "equal"

    @property
    def adapts(self) -> bool:
        """Return whether shares adapt to the memory of the devices."""
        return self.rule != "equal" and not self.in_stage

    def planned(self, graph: PlanGraph) -> Branching:
        """Plan all layers of a network.

        Raises:
            InputError: the request does not suit the network or the machine, or no shares fit the memory.
            TableLimitError: the tables of an exact search would not fit.
        """
        found = self._split(self.root, self.machine, graph, 0, self.state_above(graph))
        if self.in_stage:
            return found.summed()
        if self.adapts and not fits(found):
            names = ", ".join(group.name for group in self.machine.groups)
            place, problem = f"hardware {self.machine.name!r}", f"no shares of {names} fit their memory"
            hint = "take a smaller batch, or --shares equal to see what they would hold"
            raise MemoryLimitError(place, problem, hint=hint)
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
        at_work, slowest = tuple(range(len(machine.groups))), self.cost.slowest
        place = Branching(
            name=name, depth=depth, graph=graph, machine=machine, at_work=at_work, slowest=slowest
        )
        return SplitSearch(self, place, entered, self.options_of(place)).best()

    def with_groups(self, made: Branching, entered: State | None) -> Branching:
        """Return a decision below a state with its device groups planned."""
        groups, states = made.groups, made.states(entered)

        def planned(at: int, graph: PlanGraph) -> Branch:
            machine = groups[at].machine
            plan = self._split if machine.groups else self.leaf
            return plan(groups[at].name, machine, graph, made.depth + 1, states[at])

        return made.grown(planned)

    def _answer(self, question: Question) -> Answer:
        return _answer(self.request.search, question)

    def priced(self, branch: Branching, entered: State | None) -> Branching:
        """Return a split with the costs that this planner counts for its choices and shares, below a state."""
        costs = settled_costs(self.split_of(branch, entered), branch.taken)
        received, computed = (tuple(map(tuple, rows.tolist())) for rows in costs)
        return replace(branch, received=received, computed=computed)

    def costed(self, node: Node, entered: State | None = None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares, in the state that splits above leave."""
        if not isinstance(node, Branching):
            return super().costed(node, entered)
        entered = self.state_above(node.graph) if entered is None else entered
        made, states = self.priced(node, entered), node.states(entered)
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
        held = apply_pins(pins, graph, free, (ways,), space)
        found = [
            tuple(choice for choice in space.that_run(layer, options) if simple(choice, ways))
            for layer, (options,) in zip(graph.layers, held, strict=True)
        ]
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
            yield Slot(layer.name, (choice,), (options,), lambda _: True)
        for below in node.below:
            yield from self.slots(below)

    def solver(self, node: Node) -> str:  # noqa: ARG002 (all splits have one)
        """Return the name of the solver of all splits."""
        return self.request.solver or ""

    def claim(self, node: Node) -> str:
        """Return the claim of a tree: the plans that it is optimal among."""
        request, branch = self.request, cast("Branching", node)
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
        branch, request = cast("Branching", node), self.request
        found: dict[str, Any] = {"claim": claim, "solver": self.solver(branch)}
        found["path"] = branch.path if branch.slowest else None
        return plan_of(request, graph, [*splits_of(branch)], branch.cost, pins=self.pins, **found)

    def split_of(self, branch: Branching, entered: State | None) -> UnevenSplit:
        """Return the uneven split of a decision, with its choices as the only options."""
        return self.split_at(branch, [(choice,) for choice, _ in branch.taken], entered)

    def split_at(self, place: Branching, options: Sequence[Options], entered: State | None) -> UnevenSplit:
        """Return the uneven split at a place of the tree over the groups that work, below a state."""
        return UnevenSplit(
            graph=place.graph,
            options=tuple(options),
            rates=tuple(self.cost.group_rates(group, self.element_bytes) for group in place.groups),
            slowest=self.cost.slowest,
            solver=load_solver(self.request.solver or ""),
            entered=entered or outermost(place.graph, PAPER, tied=False),
        )


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
    every = [
        [tuple(space.choices(one, ways) for ways in array) for one in graph.layers]
        for array in sorted(arrays)
    ]
    return cheapest(tuple(structure(graph, options, PAPER) for options in every))
