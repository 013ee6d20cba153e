"""Plan the devices of a machine from the root of its tree: uneven splits, one after another, and identical devices below them.

Each uneven split is decided by a search of its own. Each device group then plans the shards that its shares leave, identical
devices by the requested search, which decides all their levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hypar.costs.graphs.tables import structure
from hypar.errors import MemoryLimitError, OptionError
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph
from hypar.plan.plan import Plan
from hypar.planning.pins import Pin, apply_pins
from hypar.planning.question import (
    Answer,
    Question,
    cost_of,
    load_search,
    question_of,
    setting_for,
    space_of,
)
from hypar.planning.records import Leaf, Node, claim_of, limits_of, pins_text, plan_of
from hypar.planning.resolved import Resolved
from hypar.planning.searches.named import COUNTING_PAYS, costs_by_level
from hypar.planning.uneven.split import (
    Assignment,
    Decision,
    Line,
    Quadratics,
    UnevenSplit,
    by_layer,
    quadratics_of,
    search,
    settled,
    settled_costs,
)
from hypar.planning.uneven.tree import Branch, Branching, splits_of
from hypar.schedule.lanes import Lane
from hypar.sharding.amounts.counted import State, outermost
from hypar.sharding.amounts.factors import Taken
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Options, simple
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup, Machine

RULES = {
    "equal": "equal shares, types by weights of the groups",
    "linear": "shares by AccPar's rule, found with the types in turn",
    "exact": "exact shares, found with the types in turn",
    "layers": "exact shares, then shares of each layer",
}
"""The claims of the rules for shares."""


MOST_TURNS = 5
"""Largest number of rounds in which shares are found from the costs below them."""

MOST_TRIES = 8
"""Largest number of times that shares are found anew within the memory limits."""

LEAST_STEP = 0.01
"""Least fraction by which a limit of a share is lowered where the same choices do not fit again: elements are whole."""


class Slot(NamedTuple):
    """One layer at one node, with its name, its choice at each level of the node, its options at each, and whether choices at all levels can run."""

    layer: str
    chosen: Options
    options: tuple[Options, ...]
    runs: Callable[[Options], bool]


class Planner:
    """A recursive planner of the tree of a machine's devices.

    In a stage all groups work, the partition regards the memory, and the costs of all groups are summed, as another stage may have
    another slowest group. Otherwise the shares of a ``rule`` but equal ones adapt to the memory of the devices.
    """

    def __init__(
        self,
        request: Resolved,
        graph: PlanGraph,
        pins: Sequence[Pin],
        element_bytes: int,
        *,
        in_stage: bool = False,
    ) -> None:
        """Store the arguments; by the layers of ``graph`` the solver of all uneven splits is chosen.

        Raises ``InputError`` if the request does not suit the network or the machine.
        """
        self.machine, uneven = request.machine, request.heterogeneous
        if uneven is not None:
            self.machine = uneven.using(request.arrays)
            request = replace(request, solver=solver_for(request, graph))
        self.request, self.pins, self.element_bytes = request, pins, element_bytes
        self.in_stage, self.cost = in_stage, cost_of(request)
        self.rule = request.shares if self.cost.slowest else "equal"
        self.adapts = self.rule != "equal" and not in_stage

    def planned(self, graph: PlanGraph) -> Branch:
        """Plan all layers of a network, or of a stage.

        Raises:
            InputError: the request does not suit the network or the machine, or no shares fit the memory.
            TableLimitError: the tables of an exact search would not fit.
        """
        assert self.machine is not None  # noqa: S101 (a planner is of a machine)
        found = self._node(WHOLE_ARRAY, self.machine, graph)
        if self.adapts and isinstance(found, Branching) and not found.fits():
            names = ", ".join(group.name for group in self.machine.groups)
            place, problem = f"hardware {self.machine.name!r}", f"no shares of {names} fit their memory"
            hint = "take a smaller batch, or --shares equal to see what they would hold"
            raise MemoryLimitError(place, problem, hint=hint)
        return found

    def answered(self, question: Question, answer: Answer) -> Leaf:
        """Return all devices of the request with the answer of a search."""
        setting = setting_for(self.request, self.element_bytes, self.cost)
        return Leaf(lane=Lane(question.graph, answer.choices, setting), answer=answer, question=question)

    def _node(
        self, name: str, machine: Machine, graph: PlanGraph, depth: int = 0, entered: State | None = None
    ) -> Branch:
        """Plan a group, whose layers have the sizes that ``depth`` uneven splits leave; below these is a state, None by ``paper``.

        An uneven split is planned over all its device groups, then without the groups that only add cost.
        If no shares fit the memory, return equal shares of all groups: a split above may find smaller ones.
        """
        if not machine.groups:
            return self._leaf(name if depth else "", machine, graph, depth, entered)
        place = Branching(name=name, depth=depth, graph=graph, machine=machine, groups=machine.groups)
        place = replace(place, entered=entered, slowest=self.cost.slowest)
        return SplitSearch(self, place, self.options_of(place)).best()

    def _leaf(self, name: str, machine: Machine, graph: PlanGraph, depth: int, entered: State | None) -> Leaf:
        """Plan a group of identical devices by the requested search; its name is empty if there is no other."""
        request, nothing = self.request.on(machine, name or WHOLE_ARRAY), ((),) * len(graph.layers)
        setting = setting_for(request, self.element_bytes, self.cost)
        leaf = Leaf(lane=Lane(graph, nothing, setting, name, depth))
        if not request.array:
            return leaf
        question = self.question_in(leaf, entered)
        uneven, run = self.request.heterogeneous is not None, load_search(request.search).run
        answer = _answer(request.search, question) if uneven else run(question)
        return Leaf(lane=leaf.lane._replace(choices=answer.choices), answer=answer, question=question)

    def with_groups(self, made: Branching) -> Branching:
        """Return a decision with its costs, and with its device groups planned."""
        depth, sides = made.depth + 1, zip(made.sides(), self._states(made), strict=True)
        below = [self._node(of.name, of.machine, graph, depth, state) for (of, graph), state in sides]
        return self._priced(made, below)

    def _states(self, branch: Branching) -> Sequence[State | None]:
        if self.cost.convention == PAPER:
            return [None] * len(branch.groups)
        return self.split_of(branch).entered.crossing(branch.graph, branch.taken)[-1]

    def question_in(self, leaf: Leaf, entered: State | None) -> Question:
        """Return the search problem of the levels of a group: its own, unless splits above were exchanged."""
        own, graph, setting, depth = leaf.question, leaf.graph, leaf.lane.setting, leaf.lane.depth
        if own is not None and own.graph is graph and own.entered is entered:
            return own
        inside: dict[int | None, int | None] = {depth + level: level for level in range(len(setting.array))}
        inside[None] = None
        pins = [replace(pin, level=inside[pin.level]) for pin in self.pins if pin.level in inside]
        if entered is None:
            # If one of two layers is empty here, nothing moves between them inside the group.
            empty = [layer.empty for layer in graph.layers]
            tensors = tuple(one for one in graph.tensors if not (empty[one.producer] or empty[one.consumer]))
            graph = replace(graph, tensors=tensors)
        request = replace(self.request, machine=setting.machine).over(setting.array)
        return replace(question_of(request, graph, pins, self.element_bytes), entered=entered)

    def _priced(self, branch: Branching, below: Sequence[Branch]) -> Branching:
        """Return a split with the costs that this planner counts for its choices and shares, and with nodes of its groups."""
        costs = settled_costs(self.split_of(branch), branch.taken)
        received, computed = (tuple(map(tuple, rows.tolist())) for rows in costs)
        return replace(branch, received=received, computed=computed, below=tuple(below))

    def costed(self, node: Node) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares."""
        return self.counted(cast("Branch", node))

    def counted(self, branch: Branch, entered: State | None = None) -> Branch:
        """Return a node with the costs of its choices and shares, in the state that splits above leave.

        A bound over all levels holds for every plan of the space, a level's bound only below the search's own choices.
        """
        if isinstance(branch, Leaf):
            return self._costed_leaf(branch, entered) if branch.lane.setting.array else branch
        made = replace(branch, entered=entered, slowest=self.cost.slowest)
        below = map(self.counted, made.below, self._states(made))
        return self._priced(made, [*below])

    def _costed_leaf(self, leaf: Leaf, entered: State | None) -> Leaf:
        question, choices, bounds = self.question_in(leaf, entered), (*leaf.lane.choices,), leaf.answer.bounds
        kept = len(bounds) == 1 and self.within(leaf)
        costs = costs_by_level(question, choices)
        answer = replace(leaf.answer, choices=choices, costs=costs, bounds=bounds if kept else ())
        return replace(leaf, question=question, answer=answer)

    def within(self, node: Node) -> bool:
        """Return whether all choices of a node are among the options of the request, pins included."""
        each = (zip(slot.chosen, slot.options, strict=True) for slot in self.slots(node))
        return all(choice in options for own in each for choice, options in own)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every split and every group of a tree with its options, outer nodes first."""
        if isinstance(node, Leaf):
            if node.levels:
                question = self.question_in(node, None)
                for at, layer in enumerate(node.graph.layers):
                    runs = partial(question.runs, at)
                    yield Slot(layer.name, node.lane.choices[at], question.options[at], runs)
            return
        branch = cast("Branching", node)
        each = zip(branch.graph.layers, branch.taken, self.options_of(branch), strict=True)
        for layer, (choice, _), options in each:
            yield Slot(layer.name, (choice,), (options,), lambda _: True)
        for below in branch.below:
            yield from self.slots(below)

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
        found = []
        for layer, (options,) in zip(graph.layers, held, strict=True):
            found.append(tuple(choice for choice in space.that_run(layer, options) if simple(choice, ways)))
            if not found[-1]:
                what = f"{layer.name!r} cannot be divided in one dim over {ways} device groups"
                raise OptionError(f"space {self.request.space!r}", what, "one dim over all device groups")
        return tuple(found)

    def solver(self, node: Branch) -> str:
        """Return the name of the solver of a node; all splits have one."""
        return node.answer.solver if isinstance(node, Leaf) else self.request.solver or ""

    def claim(self, node: Node) -> str:
        """Return the claim of a node that a search has found: the plans that it is optimal among."""
        if isinstance(node, Leaf):
            return claim_of(self.request, self.question_in(node, None), node.answer)
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
        """Return the plan of a node of a network, without a score."""
        branch = cast("Branch", node)
        splits = [*splits_of(branch)]
        found: dict[str, Any] = {"claim": claim, "solver": self.solver(branch)}
        if isinstance(branch, Leaf):
            cost, answer = math.fsum(split.cost for split in splits), branch.answer
            found |= {"bounds": answer.bounds, "limits": limits_of(answer)}
        else:
            cost, found["path"] = branch.cost, branch.path if branch.slowest else None
        return plan_of(self.request, graph, splits, cost, pins=self.pins, **found)

    def split_of(self, place: Branching, options: Sequence[Options] = ()) -> UnevenSplit:
        """Return the uneven split at a place of the tree over the groups that work, with options of each layer to choose from."""
        return UnevenSplit(
            graph=place.graph,
            options=tuple(options),
            rates=tuple(self.cost.group_rates(group, self.element_bytes) for group in place.groups),
            slowest=self.cost.slowest,
            solver=load_solver(self.request.solver or ""),
            entered=place.entered or outermost(place.graph, self.cost.convention, tied=False),
        )


@dataclass(frozen=True, eq=False)
class SplitSearch:
    """The search of the decision of an uneven split: the choice of each layer, the shares of its groups, and their subtrees.

    An uneven split is decided by the communication between its device groups and by their computation, as AccPar does. Of
    the candidate decisions, which include equal shares, the one whose whole subtree is cheapest is kept. Exact shares are found
    again with the communication found below, which differs between groups. Shares that exceed a device's memory are not offered.
    ``place`` is the split with nothing decided but the groups that work, ``options`` those of each layer; the ``planner`` prices
    a decision, and plans its groups. In a stage all groups work, whatever their memory.
    """

    planner: Planner
    place: Branching
    options: tuple[Options, ...]

    @cached_property
    def every(self) -> Quadratics:
        """The costs of all options over the groups that work."""
        return quadratics_of(self.planner.split_of(self.place, self.options))

    @cached_property
    def equal(self) -> Branching:
        """The best decision with equal shares."""
        return self._made(min(search(self.every, "equal")))

    def best(self) -> Branching:
        """Return the cheapest decision found, also without groups that only add cost; equal shares if none fit the memory."""
        own, adapts = self, self.planner.adapts
        found = self._cheapest(self.tried(None))
        while adapts and len(own.place.groups) > 1:
            fewer = [own.without(group) for group in own.place.groups]
            tried = {one: each for each in fewer for one in each.tried(found)}
            without = self._cheapest(tried, found)
            if without is None:
                own = own.without(min(own.place.groups, key=lambda group: group.memory_bytes))
            elif without is found:
                break
            else:
                found, own = without, tried[without]
        return self.equal if found is None else found

    def without(self, out: DeviceGroup) -> SplitSearch:
        """Return the search over all groups that work but one."""
        groups = tuple(group for group in self.place.groups if group is not out)
        return replace(self, place=replace(self.place, groups=groups))

    def _cheapest(self, tried: Iterable[Branching], found: Branching | None = None) -> Branching | None:
        for one in tried:
            whole = len(one.below) == len(one.machine.groups)
            found = one if one.beats(found) and (whole or not self.planner.in_stage) else found
        return found

    def tried(self, found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions that fit the memory, equal shares first, if these beat what is found."""
        if self.equal.beats(found) and self._fits(self.equal):
            yield self.equal
        if self.planner.rule != "equal" and len(self.place.groups) > 1:
            yield from self._proposed("linear" if self.planner.rule == "linear" else "exact")

    def _made(self, decision: Decision, taken: Sequence[Taken] = ()) -> Branching:
        """Return a decision with its costs, and with its device groups planned; ``taken`` if single layers have other shares."""
        taken = taken or settled(self.every.split, decision)
        return self.planner.with_groups(self.place.decided(taken, decision.shares))

    def _proposed(self, rule: str) -> Iterator[Branching]:
        """Yield the decisions of a rule that fit the memory: of shares that are exact, found again with what is known below.

        Each may be followed by one with separate shares for each layer.
        """
        before: Decision | None = None
        below: list[Line] | None = None
        ended: list[tuple[float, float]] | None = None
        for _ in range(MOST_TURNS):
            found = self._fitting(rule, below, before)
            if found is None:
                return
            decision, made = found
            yield made
            if rule != "exact":
                return
            if self.planner.rule == "layers" and all(decision.shares):
                apart = self._made(decision, by_layer(self.every, decision))
                # A group without any layer is idle, which is tried separately.
                yield from [apart] if apart.groups == self.place.groups and self._fits(apart) else []
            if before is not None and decision.shares == before.shares:
                return
            now = [*zip(decision.shares, made.spread(made.moved, self.place.groups), strict=True)]
            below = [*map(_line, now, ended or now)]
            before, ended = decision, now

    def _fitting(
        self, rule: str, below: Sequence[Line] | None, before: Decision | None
    ) -> tuple[Decision, Branching] | None:
        """Return a decision of a rule whose shares are found anew within the memory until they fit; None if there is none but that before."""
        most = [1.0] * len(self.place.groups)
        chosen: Assignment | None = None
        for _ in range(MOST_TRIES):
            decision = min(search(self.every, rule, most, below), default=None)
            if decision is None or (before is not None and decision.repeats(before)):
                return None
            made = self._made(decision)
            if self._fits(made):
                return decision, made
            room = made.spread(made.limits(), self.place.groups)
            if decision.assignment == chosen:
                pairs = zip(most, room, strict=True)
                room = [was if own >= 1 else min(own, was * (1 - LEAST_STEP)) for was, own in pairs]
            most, chosen = room, decision.assignment
        return None

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.planner.adapts or one.fits()


def _line(now: tuple[float, float], before: tuple[float, float]) -> Line:
    """Return the cost below a group as a line over its share, through two shares with their costs.

    With the same choices a group with a larger share does not move less: if it does, its choices changed between
    the two decisions, and the line is constant.
    """
    (share, moved), (other, then) = now, before
    slope = max(0.0, (then - moved) / (other - share)) if other != share else 0.0
    return moved - slope * share, slope


@lru_cache(maxsize=512)
def _answer(search: str, question: Question) -> Answer:
    """Run a search; candidate decisions, and plans for other machines with a group in common, ask the same again.

    Where the solver of the uneven splits would need large tables, the levels of a group are searched as those of identical devices.
    """
    large = question.structure(0, len(question.levels)).entries > COUNTING_PAYS
    return load_search(search).run(replace(question, solver=None) if large else question)


def solver_for(request: Resolved, graph: PlanGraph) -> str:
    """Return the requested solver, or the cheapest one for all uneven splits and groups of identical devices."""
    if request.solver is not None:
        return request.solver
    space = space_of(request, graph)
    arrays = {(2,), *(request.arrays.values() if load_search(request.search).at_once else ())}
    every = (
        [[space.choices(one, ways) for ways in array] for one in graph.layers] for array in sorted(arrays)
    )
    return cheapest(tuple(structure(graph, options, PAPER) for options in every))
