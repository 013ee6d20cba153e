"""Plan a heterogeneous machine from the root of its tree, one uneven split after another.

An uneven split is decided by the communication between its device groups and by their computation, as AccPar does.
Each group then plans the shards that its shares leave, identical devices by the requested search. Of the candidate
decisions, which include equal shares and idle groups, the one whose whole subtree is cheapest is kept. Exact shares are
found again with the communication found below, which differs between groups. Shares that exceed a device's memory are
not offered. Under a joint search a small network has all its choices at the uneven splits as candidates: at equal shares the
plan is then optimal.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from hypar.costs.base import convention_of
from hypar.costs.graphs.paper import structure
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.plan.splits import WHOLE_ARRAY
from hypar.planning.nodes.leaf import Leaf
from hypar.planning.nodes.levels import LevelPlanner
from hypar.planning.question import space_of
from hypar.planning.records import Decided
from hypar.planning.refinement import Slot
from hypar.planning.searches.base import load_search
from hypar.planning.uneven.common_shares import best, search
from hypar.planning.uneven.layer_shares import Offer, by_layer, settled, settled_costs
from hypar.planning.uneven.memory import fits, limits
from hypar.planning.uneven.quadratics import quadratics_of
from hypar.planning.uneven.records import claim_of, splits_of
from hypar.planning.uneven.split import UnevenSplit
from hypar.planning.uneven.tree import Branching, state_above
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.pins import apply_pins
from hypar.sharding.transfers import simple
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.network.contraction import ContractedGraph
    from hypar.planning.nodes.leaf import Node
    from hypar.planning.request import Request
    from hypar.planning.searches.base import Answer, Question
    from hypar.planning.uneven.common_shares import Decision
    from hypar.planning.uneven.quadratics import Line, Quadratics
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.pins import Pin
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.entered import Entered

LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better, and shares are the same: equal shares stay if no others are cheaper."""

MOST_TURNS = 5
"""Largest number of rounds in which shares are found from the costs below them."""

MOST_CHOICES = 128
"""Largest number of choices of all layers at all uneven splits that a joint search tries one by one."""

MOST_PLANS = 2**16
"""Largest number of choices of all layers at all splits and levels for which it does."""

MOST_TRIES = 8
"""Largest number of times that shares are found anew within the memory limits."""


class _Place(NamedTuple):
    """The uneven split to be decided, with its options and the state above it; None by ``paper``."""

    name: str
    machine: HeterogeneousMachine
    graph: ContractedGraph
    depth: int
    entered: Entered | None
    options: tuple[Options, ...]


class Planner(LevelPlanner):
    """A recursive planner of a machine's tree of device groups."""

    def __init__(
        self,
        request: Request,
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
        self.counted = DIRECT if self.cost.direct and request.counted == PAPER else request.counted
        self.thorough = False

    @classmethod
    def of(
        cls,
        request: Request,
        graph: ContractedGraph,
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
        found = cls(own, pins, element_bytes, root=root or WHOLE_ARRAY, in_stage=in_stage)
        found.thorough = found.tries_all(graph)
        return found

    def tries_all(self, graph: ContractedGraph) -> bool:
        """Return whether a joint search has all choices of some layers at the uneven splits as candidates."""
        if not load_search(self.request.search).at_once:
            return False
        splits = (self._options(machine, graph, depth) for machine, depth in self.machine.splits())
        choices = math.prod(len(options) for split in splits for options in split)
        space = space_of(self.request, graph)
        inside = (
            math.prod(len(space.choices(layer, ways)) for layer in graph.layers for ways in array)
            for array in self.request.arrays.values()
        )
        return choices <= MOST_CHOICES and choices * max(inside) <= MOST_PLANS

    def planned(self, graph: ContractedGraph) -> Branching:
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

    def state_above(self, graph: ContractedGraph) -> Entered | None:
        """Return the state above all splits by which the cost counts."""
        return state_above(graph, convention_of(self.cost))

    def branch(
        self, group: DeviceGroup, graph: ContractedGraph, depth: int, entered: Entered | None
    ) -> Branch:
        """Plan one device group of an uneven split."""
        if isinstance(group.machine, HeterogeneousMachine):
            return self.split(group.name, group.machine, graph, depth, entered)
        return self.leaf(group.name, group.machine, graph, depth, entered)

    def _answer(self, question: Question) -> Answer:
        return _answer(self.request.search, question)

    def costed(self, node: Node, entered: Entered | None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares."""
        if isinstance(node, Leaf):
            return super().costed(node, entered)
        branch = as_branching(node)
        offers = [Offer(0, choice, shares) for choice, shares in branch.taken]
        each = _rows_of(self.split_of(branch, entered), offers, branch.at_work, len(branch.below))
        states = () if entered is None else entered.below(branch.graph, branch.taken)
        found = dict(zip(branch.at_work, states, strict=False))
        below = tuple(
            None if one is None else cast("Branch", self.costed(one, found.get(group)))
            for group, one in enumerate(branch.below)
        )
        made = replace(
            branch,
            received=tuple(row[0] for row in each),
            computed=tuple(row[1] for row in each),
            slowest=self.cost.slowest and not self.in_stage,
        )
        return made.with_below(below)

    def split_of(self, branch: Branching, entered: Entered | None) -> UnevenSplit:
        """Return the uneven split of a decision, with its choices as the only options."""
        options = tuple((offer.choice,) for offer in branch.offers)
        place = _Place(branch.name, branch.machine, branch.graph, branch.depth, entered, options)
        return self.split_at(place, branch.at_work)

    def options_of(self, branch: Branching) -> tuple[Options, ...]:
        """Return the options of each layer at the split of a decision."""
        return self._options(branch.machine, branch.graph, branch.depth)

    def within(self, node: Node) -> bool:
        """Return whether all choices of a tree are among the options of the request, pins included."""
        if isinstance(node, Leaf):
            return super().within(node)
        branch = as_branching(node)
        options = self.options_of(branch)
        own = all(offer.choice in offered for offer, offered in zip(branch.offers, options, strict=True))
        return own and all(self.within(below) for below in branch.below if below is not None)

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
        return claim_of(self.request, as_branching(node), thorough=self.thorough)

    def decided(self, node: Node, claim: str) -> Decided:
        """Return the decisions of a tree, without a score."""
        branch = as_branching(node)
        return Decided(
            claim=claim,
            solver=self.solver(branch),
            pins=self.pins,
            splits=list(splits_of(branch)),
            cost=branch.cost,
            path=branch.path if branch.slowest else None,
        )

    def split(
        self,
        name: str,
        machine: HeterogeneousMachine,
        graph: ContractedGraph,
        depth: int,
        entered: Entered | None,
    ) -> Branching:
        """Plan an uneven split over all its device groups, then without the groups that only add cost.

        If no shares fit the memory, return equal shares of all groups: a split above may find smaller ones.
        """
        place = _Place(name, machine, graph, depth, entered, self._options(machine, graph, depth))
        found = self._decided(place)
        for chosen in itertools.product(*place.options) if self.thorough else ():
            one = self._decided(place._replace(options=tuple((choice,) for choice in chosen)))
            if self._fits(one) and (_cheaper(one, found) or not self._fits(found)):
                found = one
        return found

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.adapts or self.in_stage or fits(one)

    def _decided(self, place: _Place) -> Branching:
        """Return the cheapest decision found for an uneven split; equal shares if no shares fit the memory."""
        machine = place.machine
        at_work = tuple(range(len(machine.groups)))
        found = self._cheapest(self._tried(place, at_work, None))
        while self.adapts and not self.in_stage and len(at_work) > 1:
            fewer = [tuple(group for group in at_work if group != out) for out in at_work]
            tried = {one: groups for groups in fewer for one in self._tried(place, groups, found)}
            without = self._cheapest(iter(tried), found)
            if without is None:
                least = min(at_work, key=lambda group: machine.groups[group].memory_bytes)
                at_work = tuple(group for group in at_work if group != least)
            elif without is found:
                break
            else:
                found, at_work = without, tried[without]
        return self._equally(place) if found is None else found

    def _options(
        self, machine: HeterogeneousMachine, graph: ContractedGraph, depth: int
    ) -> tuple[Options, ...]:
        """Return each layer's options at an uneven split."""
        ways = len(machine.groups)
        own = [replace(pin, level=None) for pin in self.pins if pin.level in {None, depth}]
        return split_options(self.request, graph, ways, own)

    def _cheapest(self, tried: Iterator[Branching], found: Branching | None = None) -> Branching | None:
        """Return the decision with the cheapest subtree; ties go to the first."""
        for one in tried:
            if _cheaper(one, found) and not (self.in_stage and None in one.below):
                found = one
        return found

    def _tried(self, place: _Place, at_work: tuple[int, ...], found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions for the working groups, equal shares first, if these beat what is found."""
        every = self._quadratics(place, at_work)
        yield from self._within_memory(place, at_work, every, "equal", found=found)
        if self.adapts and len(at_work) > 1:
            yield from self._within_memory(place, at_work, every, "linear")
            if self.request.shares != "linear":
                yield from self._exactly(place, at_work, every)

    def _equally(self, place: _Place) -> Branching:
        """Return the decision with equal shares, whether they fit the memory or not."""
        at_work = tuple(range(len(place.machine.groups)))
        every = self._quadratics(place, at_work)
        decision = best(search(every, "equal"))
        offers = settled(every.split, decision.assignment, decision.shares, integral=self.request.integral)
        return self._branching(place, at_work, every.split, offers, decision)

    def _quadratics(self, place: _Place, at_work: tuple[int, ...]) -> Quadratics:
        """Compute the costs of all options for the working groups."""
        return quadratics_of(self.split_at(place, at_work))

    def split_at(self, place: _Place, at_work: tuple[int, ...]) -> UnevenSplit:
        """Return the uneven split over the working groups."""
        groups = tuple(place.machine.groups[group] for group in at_work)
        return UnevenSplit(
            graph=place.graph,
            options=place.options,
            groups=groups,
            rates=tuple(self.cost.group_rates(group, self.element_bytes) for group in groups),
            slowest=self.cost.slowest,
            solver=load_solver(solver_for(self.request, place.graph)),
            entered=place.entered,
        )

    def _exactly(self, place: _Place, at_work: tuple[int, ...], every: Quadratics) -> Iterator[Branching]:
        """Yield the decisions with exact shares, found again with the communication below."""
        below: tuple[Line, ...] | None = None
        before: Branching | None = None
        for _ in range(MOST_TURNS):
            found = list(self._within_memory(place, at_work, every, "exact", below, before))
            yield from found
            if not found or (before is not None and found[0].shares == before.shares):
                return
            below = found[0].lines_below(at_work, before)
            before = found[0]

    def _within_memory(
        self,
        place: _Place,
        at_work: tuple[int, ...],
        every: Quadratics,
        rule: str,
        below: Sequence[Line] | None = None,
        before: Branching | None = None,
        found: Branching | None = None,
    ) -> Iterator[Branching]:
        """Yield the decision of a rule, finding its shares anew until they fit the memory; equal shares stay.

        Nothing is yielded if the rule comes back to an earlier decision, or if equal shares are no cheaper than what
        is found.
        """
        most: tuple[float, ...] | None = None
        for _ in range(MOST_TRIES):
            decisions = search(every, rule, most, below)
            if not decisions:
                return
            decision = best(decisions)
            if before is not None and _same(decision, before, at_work):
                return
            offers = settled(
                every.split, decision.assignment, decision.shares, integral=self.request.integral
            )
            made = self._branching(place, at_work, every.split, offers, decision)
            if rule == "equal" and not _cheaper(made, found):
                return
            if self._fits(made):
                yield made
                yield from self._by_layer(place, at_work, every, decision, rule)
                return
            if rule == "equal":
                return
            room = limits(made)
            most = tuple(room[group] for group in at_work)

    def _by_layer(
        self, place: _Place, at_work: tuple[int, ...], every: Quadratics, decision: Decision, rule: str
    ) -> Iterator[Branching]:
        """Yield the decision with separate shares for each layer, if requested and if they fit the memory."""
        if self.request.shares != "layers" or rule != "exact" or not all(decision.shares):
            return
        offers = by_layer(every, decision, integral=self.request.integral)
        # A group without any layer is idle, which is tried separately.
        if all(any(shares) for shares in zip(*(offer.shares for offer in offers), strict=True)):
            made = self._branching(place, at_work, every.split, offers, decision)
            if self.in_stage or fits(made):
                yield made

    def _branching(
        self,
        place: _Place,
        at_work: tuple[int, ...],
        split: UnevenSplit,
        offers: Sequence[Offer],
        decision: Decision,
    ) -> Branching:
        """Build the subtree of a decision."""
        count = len(place.machine.groups)

        def spread(shares: Sequence[float]) -> tuple[float, ...]:
            """Return the shares of all groups, 0 for idle ones."""
            given = dict(zip(at_work, shares, strict=True))
            return tuple(given.get(group, 0.0) for group in range(count))

        each = _rows_of(split, offers, at_work, count)
        made = Branching(
            name=place.name,
            depth=place.depth,
            graph=place.graph,
            machine=place.machine,
            offers=tuple(offer._replace(shares=spread(offer.shares)) for offer in offers),
            shares=spread(decision.shares),
            integral=self.request.integral,
            received=tuple(row[0] for row in each),
            computed=tuple(row[1] for row in each),
            below=(None,) * count,
            slowest=split.slowest,
            element_bytes=self.element_bytes,
            counted=self.counted,
        )
        busy = [any(offer.shares[number] for offer in made.offers) for number in range(count)]
        taken = [(offer.choice, offer.shares) for offer in offers]
        entered = () if place.entered is None else place.entered.below(place.graph, taken)
        states = dict(zip(at_work, entered, strict=False))
        below = [
            self.branch(group, made.graph_of(number), place.depth + 1, states.get(number))
            if busy[number]
            else None
            for number, group in enumerate(place.machine.groups)
        ]
        return made.with_below(tuple(below))


def _rows_of(
    split: UnevenSplit, offers: Sequence[Offer], at_work: Sequence[int], count: int
) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Return the cost of each layer for each group to receive and to compute; nothing for an idle group."""
    received, computed = settled_costs(split, tuple(offers))
    nothing = (0.0,) * len(offers)
    rows = {
        group: (tuple(received[row].tolist()), tuple(computed[row].tolist()))
        for row, group in enumerate(at_work)
    }
    return [rows.get(group, (nothing, nothing)) for group in range(count)]


def split_options(
    request: Request, graph: ContractedGraph, ways: int, pins: Sequence[Pin] = ()
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


def _cheaper(one: Branching, found: Branching | None) -> bool:
    """Return whether a decision has a cheaper subtree than what is found, if anything is."""
    return found is None or one.cost < found.cost * (1 - LEAST_GAIN)


def _same(decision: Decision, made: Branching, at_work: Sequence[int]) -> bool:
    """Return whether a decision has the choices of another and, but for rounding, its shares."""
    picks = tuple(offer.pick for offer in made.offers)
    shares = [made.shares[group] for group in at_work]
    return decision.assignment == picks and all(
        abs(own - other) <= LEAST_GAIN for own, other in zip(decision.shares, shares, strict=True)
    )


def solver_for(request: Request, graph: ContractedGraph) -> str:
    """Return the requested solver, or the cheapest one for all uneven splits and groups of identical devices."""
    if request.solver is not None:
        return request.solver
    space = space_of(request, graph)
    arrays = {(2,), *(request.arrays.values() if load_search(request.search).at_once else ())}
    return cheapest(
        tuple(
            structure(graph, [tuple(space.choices(layer, ways) for ways in array) for layer in graph.layers])
            for array in sorted(arrays)
        )
    )
