"""The search of an uneven split: its candidate decisions, within the memory of the devices, each with its whole subtree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.planning.uneven.split import best, by_layer, quadratics_of, search, settled
from hypar.schedule.memory import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypar.planning.uneven.split import Assignment, Decision, Line, Quadratics, UnevenSplit
    from hypar.planning.uneven.tree import Branching
    from hypar.sharding.amounts.factors import Taken

LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better, and shares are the same: equal shares stay if no others are cheaper."""

MOST_TURNS = 5
"""Largest number of rounds in which shares are found from the costs below them."""

MOST_TRIES = 8
"""Largest number of times that shares are found anew within the memory limits."""

LEAST_STEP = 0.01
"""Least fraction by which a limit of a share is lowered where the same choices do not fit again: elements are whole."""

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@dataclass(frozen=True, eq=False)
class SplitSearch:
    """The search of the decision of an uneven split: the choice of each layer, the shares of its groups, and their subtrees.

    An uneven split is decided by the communication between its device groups and by their computation, as AccPar does. Of
    the candidate decisions, which include equal shares, the one whose whole subtree is cheapest is kept. Exact shares are found
    again with the communication found below, which differs between groups. Shares that exceed a device's memory are not offered.
    ``place`` is the split with nothing decided but the groups that work, ``rule`` that of the shares; ``split`` gives its costs
    over these groups, ``planned`` prices a decision, and plans its groups. In a stage all groups work, whatever their memory.
    """

    place: Branching
    rule: str
    in_stage: bool
    split: Callable[[Branching], UnevenSplit]
    planned: Callable[[Branching], Branching]

    @property
    def adapts(self) -> bool:
        """Whether shares adapt to the memory of the devices."""
        return self.rule != "equal" and not self.in_stage

    @cached_property
    def every(self) -> Quadratics:
        """The costs of all options over the groups that work."""
        return quadratics_of(self.split(self.place))

    @cached_property
    def equal(self) -> Branching:
        """The best decision with equal shares."""
        return self._made(best(search(self.every, "equal")))

    def best(self) -> Branching:
        """Return the cheapest decision found, also without groups that only add cost; equal shares if none fit the memory."""
        own, groups, adapts = self, self.place.machine.groups, self.adapts
        found = self._cheapest(self.tried(None))
        while adapts and len(own.place.at_work) > 1:
            fewer = [own.without(group) for group in own.place.at_work]
            tried = {one: each for each in fewer for one in each.tried(found)}
            without = self._cheapest(tried, found)
            if without is None:
                own = own.without(min(own.place.at_work, key=lambda group: groups[group].memory_bytes))
            elif without is found:
                break
            else:
                found, own = without, tried[without]
        return self.equal if found is None else found

    def without(self, out: int) -> SplitSearch:
        """Return the search over all groups that work but one."""
        at_work = tuple(group for group in self.place.at_work if group != out)
        return replace(self, place=replace(self.place, at_work=at_work))

    def _cheapest(self, tried: Iterable[Branching], found: Branching | None = None) -> Branching | None:
        """Return the decision with the cheapest subtree; ties go to the first."""
        for one in tried:
            whole = len(one.below) == len(one.machine.groups)
            found = one if _cheaper(one, found) and (whole or not self.in_stage) else found
        return found

    def tried(self, found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions that fit the memory, equal shares first, if these beat what is found."""
        if _cheaper(self.equal, found) and self._fits(self.equal):
            yield self.equal
        if self.rule != "equal" and len(self.place.at_work) > 1:
            yield from self._proposed("linear")
            yield from self._proposed("exact") if self.rule != "linear" else ()

    def _made(self, decision: Decision, taken: Sequence[Taken] = ()) -> Branching:
        """Return a decision with its costs, and with its device groups planned; ``taken`` if single layers have other shares."""
        return self.planned(self.place.decided(taken or settled(self.every.split, decision), decision.shares))

    def _proposed(self, rule: str) -> Iterator[Branching]:
        """Yield the decisions of a rule that fit the memory: of shares that are exact, found again with what is known below."""
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
            yield from self._by_layer(decision) if self.rule == "layers" else ()
            if before is not None and decision.shares == before.shares:
                return
            now = [*zip(decision.shares, made.spread(made.moved, self.place.at_work), strict=True)]
            below = [*map(_line, now, ended or now)]
            before, ended = decision, now

    def _fitting(
        self, rule: str, below: Sequence[Line] | None, before: Decision | None
    ) -> tuple[Decision, Branching] | None:
        """Return a decision of a rule whose shares are found anew within the memory until they fit; None if there is none but that before."""
        most: list[float] | None = None
        chosen: Assignment | None = None
        for _ in range(MOST_TRIES):
            decisions = search(self.every, rule, most, below)
            if not decisions or _same(best(decisions), before):
                return None
            decision = best(decisions)
            made = self._made(decision)
            if self._fits(made):
                return decision, made
            room = made.spread(limits(made), self.place.at_work)
            most = room if most is None or decision.assignment != chosen else tightened(most, room)
            chosen = decision.assignment
        return None

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.adapts or fits(one)

    def _by_layer(self, decision: Decision) -> Iterator[Branching]:
        """Yield the decision with separate shares for each layer, if they fit the memory."""
        made = self._made(decision, by_layer(self.every, decision)) if all(decision.shares) else None
        # A group without any layer is idle, which is tried separately.
        if made is not None and made.at_work == self.place.at_work and self._fits(made):
            yield made


def _cheaper(one: Branching, found: Branching | None) -> bool:
    """Return whether a decision has a cheaper subtree than what is found, if anything is."""
    return found is None or one.cost < found.cost * (1 - LEAST_GAIN)


def _line(now: tuple[float, float], before: tuple[float, float]) -> Line:
    """Return the cost below a group as a line over its share, through two shares with their costs.

    With the same choices a group with a larger share does not move less: if it does, its choices changed between
    the two decisions, and the line is constant.
    """
    (share, moved), (other, then) = now, before
    slope = max(0.0, (then - moved) / (other - share)) if other != share else 0.0
    return moved - slope * share, slope


def _same(one: Decision, other: Decision | None) -> bool:
    """Return whether a decision has the options of another and, but for rounding, its shares."""
    if other is None:
        return False
    pairs = zip(one.shares, other.shares, strict=True)
    return one.assignment == other.assignment and all(abs(own - was) <= LEAST_GAIN for own, was in pairs)


def fits(branch: Branching, only: int | None = None) -> bool:
    """Return whether the shards of every device below, or in one group alone, fit its memory, with their shares at all splits."""
    return holds(branch.reached(only=only))


def limits(made: Branching) -> list[float]:
    """Return the largest share of each group that works that fits its devices' memory by bisection, given the choices made so far."""
    found = []
    for group, share in enumerate(made.shares):
        low, high = (1.0, 1.0) if fits(made, group) else (0.0, share)
        for _ in range(HALVINGS if low < high else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(made.with_share(group, middle), group) else (low, middle)
        found.append(low)
    return found


def tightened(most: Sequence[float], room: Sequence[float]) -> list[float]:
    """Return the limits of shares, lowered for groups whose shares within the limits so far do not fit."""
    pairs = zip(most, room, strict=True)
    return [before if own >= 1 else min(own, before * (1 - LEAST_STEP)) for before, own in pairs]
