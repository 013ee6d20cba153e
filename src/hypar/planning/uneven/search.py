"""Search the decision of an uneven split: the choice of each layer, the shares of the device groups, and their subtrees.

An uneven split is decided by the communication between its device groups and by their computation, as AccPar does. Of the
candidate decisions, which include equal shares and idle groups, the one whose whole subtree is cheapest is kept. Exact shares
are found again with the communication found below, which differs between groups. Shares that exceed a device's memory are
not offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.planning.uneven.memory import fits, limits
from hypar.planning.uneven.shares import best, by_layer, rows_of, search, settled
from hypar.planning.uneven.split import quadratics_of
from hypar.planning.uneven.tree import Branching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.network.nodes import PlanGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.shares import Decision, Offer
    from hypar.planning.uneven.split import Assignment, Line, Quadratics, UnevenSplit
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Options

LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better, and shares are the same: equal shares stay if no others are cheaper."""

MOST_TURNS = 5
"""Largest number of rounds in which shares are found from the costs below them."""

MOST_TRIES = 8
"""Largest number of times that shares are found anew within the memory limits."""


LEAST_STEP = 0.01
"""Least fraction by which a limit of a share is lowered where the same choices do not fit again: elements are whole."""


class Place(NamedTuple):
    """The uneven split to be decided, with its options and the state above it; None by ``paper``."""

    name: str
    machine: Machine
    graph: PlanGraph
    depth: int
    entered: State | None
    options: tuple[Options, ...]


class Below(Protocol):
    """What plans the whole tree, as the search of one split sees it.

    Attributes:
        request: the request.
        element_bytes: bytes of an element.
        adapts: whether shares may differ.
        in_stage: whether the layers are those of a stage, for which all groups work.
        counted: the convention by which a score counts.
    """

    request: Resolved
    element_bytes: int
    adapts: bool
    in_stage: bool
    counted: str

    def split_at(self, place: Place, at_work: tuple[int, ...]) -> UnevenSplit:
        """Return the uneven split over the working groups."""

    def branch(self, group: DeviceGroup, graph: PlanGraph, depth: int, entered: State | None) -> Branch:
        """Plan one device group of an uneven split."""

    def fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""


class SplitSearch:
    """The search of the decision of one uneven split."""

    def __init__(self, planner: Below, place: Place) -> None:
        """Store the arguments.

        Args:
            planner: the planner of the whole tree, which plans the device groups.
            place: the split.
        """
        self.planner, self.place = planner, place

    def best(self) -> Branching:
        """Return the cheapest decision found for an uneven split; equal shares if no shares fit the memory."""
        machine = self.place.machine
        at_work = tuple(range(len(machine.groups)))
        found = self._cheapest(self._tried(at_work, None))
        while self.planner.adapts and not self.planner.in_stage and len(at_work) > 1:
            fewer = [tuple(group for group in at_work if group != out) for out in at_work]
            tried = {one: groups for groups in fewer for one in self._tried(groups, found)}
            without = self._cheapest(iter(tried), found)
            if without is None:
                least = min(at_work, key=lambda group: machine.groups[group].memory_bytes)
                at_work = tuple(group for group in at_work if group != least)
            elif without is found:
                break
            else:
                found, at_work = without, tried[without]
        return self._equally() if found is None else found

    def _cheapest(self, tried: Iterator[Branching], found: Branching | None = None) -> Branching | None:
        """Return the decision with the cheapest subtree; ties go to the first."""
        for one in tried:
            if cheaper(one, found) and not (self.planner.in_stage and None in one.below):
                found = one
        return found

    def _tried(self, at_work: tuple[int, ...], found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions for the working groups, equal shares first, if these beat what is found."""
        every = quadratics_of(self.planner.split_at(self.place, at_work))
        yield from self._within_memory(at_work, every, "equal", found=found)
        if self.planner.adapts and len(at_work) > 1:
            yield from self._within_memory(at_work, every, "linear")
            if self.planner.request.shares != "linear":
                yield from self._exactly(at_work, every)

    def _equally(self) -> Branching:
        """Return the decision with equal shares, whether they fit the memory or not."""
        at_work = tuple(range(len(self.place.machine.groups)))
        every = quadratics_of(self.planner.split_at(self.place, at_work))
        decision = best(search(every, "equal"))
        offers = settled(every.split, decision.assignment, decision.shares)
        return self._branching(at_work, every.split, offers, decision)

    def _exactly(self, at_work: tuple[int, ...], every: Quadratics) -> Iterator[Branching]:
        """Yield the decisions with exact shares, found again with the communication below."""
        below: tuple[Line, ...] | None = None
        before: Branching | None = None
        for _ in range(MOST_TURNS):
            found = list(self._within_memory(at_work, every, "exact", below, before))
            yield from found
            if not found or (before is not None and found[0].shares == before.shares):
                return
            below = found[0].lines_below(at_work, before)
            before = found[0]

    def _within_memory(
        self,
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
        chosen: Assignment | None = None
        for _ in range(MOST_TRIES):
            decisions = search(every, rule, most, below)
            if not decisions:
                return
            decision = best(decisions)
            if before is not None and _same(decision, before, at_work):
                return
            offers = settled(every.split, decision.assignment, decision.shares)
            made = self._branching(at_work, every.split, offers, decision)
            if rule == "equal" and not cheaper(made, found):
                return
            if self.planner.fits(made):
                yield made
                yield from self._by_layer(at_work, every, decision, rule)
                return
            if rule == "equal":
                return
            room = limits(made)
            own = tuple(room[group] for group in at_work)
            again = most is not None and decision.assignment == chosen
            most, chosen = _tightened(most, own) if most is not None and again else own, decision.assignment

    def _by_layer(
        self, at_work: tuple[int, ...], every: Quadratics, decision: Decision, rule: str
    ) -> Iterator[Branching]:
        """Yield the decision with separate shares for each layer, if requested and if they fit the memory."""
        if self.planner.request.shares != "layers" or rule != "exact" or not all(decision.shares):
            return
        offers = by_layer(every, decision)
        # A group without any layer is idle, which is tried separately.
        if all(any(shares) for shares in zip(*(offer.shares for offer in offers), strict=True)):
            made = self._branching(at_work, every.split, offers, decision)
            if self.planner.in_stage or fits(made):
                yield made

    def _branching(
        self,
        at_work: tuple[int, ...],
        split: UnevenSplit,
        offers: Sequence[Offer],
        decision: Decision,
    ) -> Branching:
        """Build the subtree of a decision."""
        place = self.place
        count = len(place.machine.groups)

        def spread(shares: Sequence[float]) -> tuple[float, ...]:
            """Return the shares of all groups, 0 for idle ones."""
            given = dict(zip(at_work, shares, strict=True))
            return tuple(given.get(group, 0.0) for group in range(count))

        received, computed = rows_of(split, offers, at_work, count)
        made = Branching(
            name=place.name,
            depth=place.depth,
            graph=place.graph,
            machine=place.machine,
            offers=tuple(offer._replace(shares=spread(offer.shares)) for offer in offers),
            shares=spread(decision.shares),
            received=received,
            computed=computed,
            below=(None,) * count,
            slowest=split.slowest,
            element_bytes=self.planner.element_bytes,
            counted=self.planner.counted,
        )
        busy = [any(offer.shares[number] for offer in made.offers) for number in range(count)]
        taken = [(offer.choice, offer.shares) for offer in offers]
        entered = () if place.entered is None else place.entered.crossing(place.graph, taken)[-1]
        states = dict(zip(at_work, entered, strict=False))
        below = [
            self.planner.branch(group, made.graph_of(number), place.depth + 1, states.get(number))
            if busy[number]
            else None
            for number, group in enumerate(place.machine.groups)
        ]
        return made.with_below(tuple(below))


def cheaper(one: Branching, found: Branching | None) -> bool:
    """Return whether a decision has a cheaper subtree than what is found, if anything is."""
    return found is None or one.cost < found.cost * (1 - LEAST_GAIN)


def _tightened(most: Sequence[float], room: Sequence[float]) -> tuple[float, ...]:
    """Return the limits of shares, lowered for groups whose shares within the limits so far do not fit."""
    pairs = zip(most, room, strict=True)
    return tuple(before if own >= 1 else min(own, before * (1 - LEAST_STEP)) for before, own in pairs)


def _same(decision: Decision, made: Branching, at_work: Sequence[int]) -> bool:
    """Return whether a decision has the choices of another and, but for rounding, its shares."""
    picks = tuple(offer.pick for offer in made.offers)
    shares = [made.shares[group] for group in at_work]
    return decision.assignment == picks and all(
        abs(own - other) <= LEAST_GAIN for own, other in zip(decision.shares, shares, strict=True)
    )
