"""The search of an uneven split: its candidate decisions, within the memory of the devices, each with its whole subtree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.planning.uneven.split import best, by_layer, quadratics_of, search, settled
from hypar.schedule.memory import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

    def best(self) -> Branching:
        """Return the cheapest decision found, also without groups that only add cost; equal shares if none fit the memory."""
        own, groups, adapts = self, self.place.machine.groups, self.adapts
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
            whole = len(one.below) == len(one.machine.groups)
            found = one if _cheaper(one, found) and (whole or not self.in_stage) else found
        return found

    def tried(self, found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions, equal shares first, if these beat what is found."""
        yield from self._proposed("equal", found)
        if self.rule != "equal" and len(self.place.at_work) > 1:
            yield from self._proposed("linear")
            yield from self._proposed("exact") if self.rule != "linear" else ()

    def _made(self, taken: Sequence[Taken], decision: Decision) -> Branching:
        """Return a decision with its costs, and with its device groups planned."""
        return self.planned(self.place.decided(taken, decision.shares))

    def _proposed(self, rule: str, found: Branching | None = None) -> Iterator[Branching]:
        """Yield the decisions of a rule that fit the memory: of shares that are exact, found again with what is known below.

        Shares that do not fit are found anew within what does; equal shares stay, and are none if no cheaper than what is found.
        """
        at_work, before = self.place.at_work, None
        below: list[Line] | None = None
        most: list[float] | None = None
        ended: list[tuple[float, float]] | None = None
        chosen: Assignment | None = None
        turns = tries = 0
        while turns < MOST_TURNS and tries < MOST_TRIES:
            decisions = search(self.every, rule, most, below)
            if not decisions:
                return
            decision = best(decisions)
            if before is not None and _same(decision, before):
                return
            made = self._made(settled(self.every.split, decision), decision)
            fitting = (rule != "equal" or _cheaper(made, found)) and self._fits(made)
            if rule == "equal" and not fitting:
                return
            if fitting:
                yield made
                if rule != "exact":
                    return
                yield from self._by_layer(decision) if self.rule == "layers" else ()
                if before is not None and decision.shares == before.shares:
                    return
                now = [*zip(decision.shares, made.spread(made.moved, at_work), strict=True)]
                below = [*map(_line, now, ended or now)]
                before, ended, turns, tries, most, chosen = decision, now, turns + 1, 0, None, None
            else:
                room = made.spread(limits(made), at_work)
                most = room if most is None or decision.assignment != chosen else tightened(most, room)
                tries, chosen = tries + 1, decision.assignment

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return not self.adapts or fits(one)

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


def _line(now: tuple[float, float], before: tuple[float, float]) -> Line:
    """Return the cost below a group as a line over its share, through two shares with their costs.

    With the same choices a group with a larger share does not move less: if it does, its choices changed between
    the two decisions, and the line is constant.
    """
    (share, moved), (other, then) = now, before
    slope = max(0.0, (then - moved) / (other - share)) if other != share else 0.0
    return moved - slope * share, slope


def _same(one: Decision, other: Decision) -> bool:
    """Return whether a decision has the options of another and, but for rounding, its shares."""
    pairs = zip(one.shares, other.shares, strict=True)
    return one.assignment == other.assignment and all(abs(own - was) <= LEAST_GAIN for own, was in pairs)


def fits(branch: Branching, only: int | None = None) -> bool:
    """Return whether the shards of every device below, or in one group alone, fit its memory, with their shares at all splits."""
    return holds(lane for lane, _ in branch.reached(only=only))


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
