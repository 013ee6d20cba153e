"""Search the decision of an uneven split: the choice of each layer, the shares of the device groups, and their subtrees.

An uneven split is decided by the communication between its device groups and by their computation, as AccPar does. Of the
candidate decisions, which include equal shares and idle groups, the one whose whole subtree is cheapest is kept. Exact shares
are found again with the communication found below, which differs between groups. Shares that exceed a device's memory are
not offered.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.planning.uneven.shares import best, by_layer, search, settled
from hypar.schedule.memory import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.planning.uneven.shares import Decision
    from hypar.planning.uneven.split import Assignment, Line, Quadratics
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import Ends
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


class SplitSearch(NamedTuple):
    """The search of the decision of one uneven split.

    Attributes:
        place: the split, with nothing decided.
        rule: the rule for shares.
        in_stage: whether the layers are those of a stage: all groups then work, and the memory is of no concern here.
        quadratics: returns the costs of all options over the groups that work.
        planned: returns a decision with its costs, and with its device groups planned.
    """

    place: Branching
    rule: str
    in_stage: bool
    quadratics: Callable[[tuple[int, ...]], Quadratics]
    planned: Callable[[Branching], Branching]

    def best(self) -> Branching:
        """Return the cheapest decision found for an uneven split; equal shares if no shares fit the memory."""
        groups = self.place.machine.groups
        at_work = tuple(range(len(groups)))
        found = self._cheapest(self._tried(at_work, None))
        while self.rule != "equal" and not self.in_stage and len(at_work) > 1:
            fewer = [tuple(group for group in at_work if group != out) for out in at_work]
            tried = {one: groups for groups in fewer for one in self._tried(groups, found)}
            without = self._cheapest(iter(tried), found)
            if without is None:
                least = min(at_work, key=lambda group: groups[group].memory_bytes)
                at_work = tuple(group for group in at_work if group != least)
            elif without is found:
                break
            else:
                found, at_work = without, tried[without]
        return self._equally() if found is None else found

    def _cheapest(self, tried: Iterator[Branching], found: Branching | None = None) -> Branching | None:
        """Return the decision with the cheapest subtree; ties go to the first."""
        for one in tried:
            if cheaper(one, found) and not (self.in_stage and len(one.below) < len(one.machine.groups)):
                found = one
        return found

    def _tried(self, at_work: tuple[int, ...], found: Branching | None) -> Iterator[Branching]:
        """Yield the candidate decisions for the working groups, equal shares first, if these beat what is found."""
        every = self.quadratics(at_work)
        yield from self._within_memory(at_work, every, "equal", found=found)
        if self.rule != "equal" and len(at_work) > 1:
            yield from self._within_memory(at_work, every, "linear")
            if self.rule != "linear":
                yield from self._exactly(at_work, every)

    def _equally(self) -> Branching:
        """Return the decision with equal shares, whether they fit the memory or not."""
        at_work = tuple(range(len(self.place.machine.groups)))
        every = self.quadratics(at_work)
        decision = best(search(every, "equal"))
        return self._made(at_work, settled(every.split, decision), decision)

    def _made(self, at_work: tuple[int, ...], taken: Sequence[Taken], decision: Decision) -> Branching:
        return self.planned(self.place.decided(at_work, taken, decision.shares))

    def _exactly(self, at_work: tuple[int, ...], every: Quadratics) -> Iterator[Branching]:
        """Yield the decisions with exact shares, found again with the communication below."""
        below: tuple[Line, ...] | None = None
        before: Branching | None = None
        for _ in range(MOST_TURNS):
            found = list(self._within_memory(at_work, every, "exact", below, before))
            yield from found
            if not found or (before is not None and _shares(found[0]) == _shares(before)):
                return
            below = tuple(_line_below(found[0], group, before) for group in at_work)
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
            taken = settled(every.split, decision)
            if before is not None and _same(taken, decision.shares, before, at_work):
                return
            made = self._made(at_work, taken, decision)
            if rule == "equal" and not cheaper(made, found):
                return
            if self._fits(made):
                yield made
                yield from self._by_layer(at_work, every, decision, rule)
                return
            if rule == "equal":
                return
            room = dict(zip(made.at_work, limits(made), strict=True))
            own = tuple(room.get(group, 0.0) for group in at_work)
            again = most is not None and decision.assignment == chosen
            most, chosen = _tightened(most, own) if most is not None and again else own, decision.assignment

    def _fits(self, one: Branching) -> bool:
        """Return whether shares that adapt fit the memory; all others are as they are."""
        return self.rule == "equal" or self.in_stage or fits(one)

    def _by_layer(
        self, at_work: tuple[int, ...], every: Quadratics, decision: Decision, rule: str
    ) -> Iterator[Branching]:
        """Yield the decision with separate shares for each layer, if requested and if they fit the memory."""
        if self.rule != "layers" or rule != "exact" or not all(decision.shares):
            return
        taken = by_layer(every, decision)
        # A group without any layer is idle, which is tried separately.
        if all(any(shares) for shares in zip(*(shares for _, shares in taken), strict=True)):
            made = self._made(at_work, taken, decision)
            if self._fits(made):
                yield made


def cheaper(one: Branching, found: Branching | None) -> bool:
    """Return whether a decision has a cheaper subtree than what is found, if anything is."""
    return found is None or one.cost < found.cost * (1 - LEAST_GAIN)


def _line_below(one: Branching, group: int, other: Branching | None) -> Line:
    """Return the cost below a group as a line over its share, through one decision and another.

    With the same choices a group with a larger share does not move less: if it does, its choices changed between
    the two decisions, and the line is constant.
    """
    (share, moved), slope = _moved_below(one, group), 0.0
    if other is not None:
        before, then = _moved_below(other, group)
        slope = max(0.0, (then - moved) / (before - share)) if before != share else 0.0
    return moved - slope * share, slope


def _moved_below(one: Branching, group: int) -> tuple[float, float]:
    """Return the share of a group and the cost of its subtree without its computation."""
    if group not in one.at_work:
        return 0.0, 0.0
    at = one.at_work.index(group)
    return one.shares[at], one.ends[at] - math.fsum(one.received[at]) - math.fsum(one.computed[at])


def _shares(one: Branching) -> dict[int, float]:
    """Return the share of each group that works."""
    return dict(zip(one.at_work, one.shares, strict=True))


def _tightened(most: Sequence[float], room: Sequence[float]) -> tuple[float, ...]:
    """Return the limits of shares, lowered for groups whose shares within the limits so far do not fit."""
    pairs = zip(most, room, strict=True)
    return tuple(before if own >= 1 else min(own, before * (1 - LEAST_STEP)) for before, own in pairs)


def _same(taken: Sequence[Taken], shares: Sequence[float], made: Branching, at_work: Sequence[int]) -> bool:
    """Return whether a decision has the choices of another and, but for rounding, its common shares."""
    alike, own = [choice for choice, _ in taken] == [choice for choice, _ in made.taken], _shares(made)
    pairs = zip(shares, at_work, strict=True)
    return alike and all(abs(share - own.get(group, 0.0)) <= LEAST_GAIN for share, group in pairs)


@lru_cache(maxsize=4)
def fits(branch: Branch) -> bool:
    """Return whether the shards of every device below fit its memory."""
    return _fits(branch, ())


def _fits(branch: Branch, above: Ends) -> bool:
    """Return whether devices with their shares at the splits above fit."""
    return holds(lane for lane, _ in branch.in_whole_elements().reached(above))


def limits(made: Branching) -> tuple[float, ...]:
    """Return the largest share of each group that works that fits its devices' memory, given the choices made so far."""
    every = range(len(made.at_work))
    return tuple(1.0 if _share_fits(made, group) else _limit(made, group) for group in every)


def _share_fits(made: Branching, group: int) -> bool:
    """Return whether the share of one group fits, in whole elements as its devices hold them."""
    whole = made.in_whole_elements()
    return _fits(whole.below[group], [*whole.left(())][group])


def _limit(made: Branching, group: int) -> float:
    """Return the largest share of one group that fits, by bisection; 0 if none fits."""
    low, high = 0.0, made.shares[group]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_fits(made.with_share(group, middle), group) else (low, middle)
    return low
