"""Find one share for each device group of an uneven split, together with the choices.

Given shares, an exact solver finds the choices of least weighted sum; given choices, the shares that minimise the time
of the slowest group follow exactly. Both steps alternate until nothing changes, from several starts. The result is a
fixed point, not a proven optimum, and never worse than equal shares, which are one of the starts. A group weighs
``1 / T_i'``, from the conditions for a minimum of ``max T_i`` over shares that sum to 1: the slower its time grows
with its share, the more work a shorter time lets it take over. Source: AccPar (HPCA 2020), whose types depend on the
ratio, and the ratio on the types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.balance import balance, linear, times_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.uneven.quadratics import Array, Line, Quadratics
    from hypar.planning.uneven.split import Assignment

MOST_TURNS = 20
"""Largest number of rounds in which choices and shares are found from each other."""


class Decision(NamedTuple):
    """The choices and shares of an uneven split.

    Attributes:
        cost: the cost of its slowest device group, or the sum over all of them.
        assignment: one option for each layer.
        shares: the share of each working group.
    """

    cost: float
    assignment: Assignment
    shares: tuple[float, ...]


def best(decisions: Sequence[Decision]) -> Decision:
    """Return the cheapest decision; ties go to the first options."""
    return min(decisions, key=lambda one: (one.cost, one.assignment))


def search(
    every: Quadratics,
    rule: str,
    most: Sequence[float] | None = None,
    below: Sequence[Line] | None = None,
) -> tuple[Decision, ...]:
    """Return the decisions of all rounds whose shares are allowed, in the order in which they were found.

    Args:
        every: all options of the uneven split.
        rule: one of ``SHARES``: ``linear`` is AccPar's, ``exact`` minimises the slowest group's time.
        most: the largest share of each group; no limit if not given. Shares beyond it are balanced within it.
        below: the further cost of each group as a line over its share; nothing if not given.
    """
    every = every if below is None else every.above(below)
    split, count = every.split, len(every.split.groups)
    even = (1 / count,) * count
    fixed = rule == "equal" or count == 1 or not split.slowest
    starts = list(_starts(every, even))
    if fixed:
        allowed = most is None or all(share <= limit for share, limit in zip(even, most, strict=True))
        return tuple(_decided(every, start, even) for start in starts) if allowed else ()
    speeds = np.array([1 / rates.work if rates.work else 1.0 for rates in split.rates])
    proportional = tuple((speeds / speeds.sum()).tolist())
    starts += _starts(every, proportional)
    seen: set[Assignment] = set()
    return tuple(turn for start in starts for turn in _turns(every, start, rule, most, seen))


def _starts(every: Quadratics, shares: tuple[float, ...]) -> Iterator[Assignment]:
    """Yield the best choices at given shares for equal weights, for weights as the shares, and for each group alone."""
    count = len(shares)
    weights = [(1.0,) * count]
    if every.split.slowest and count > 1:
        weights += [shares, *map(tuple, np.eye(count).tolist())]
    for own in dict.fromkeys(weights):
        yield every.least(shares, own)


def _turns(
    every: Quadratics, assignment: Assignment, rule: str, most: Sequence[float] | None, seen: set[Assignment]
) -> Iterator[Decision]:
    """Alternate between shares and choices from one start to a fixed point, or to choices that were seen before."""
    for _ in range(MOST_TURNS):
        if assignment in seen:
            return
        seen.add(assignment)
        times = every.times(assignment)
        found = balance(times, most) if rule == "exact" else _linear(every, times)
        if found is not None and most is not None and any(map(float.__gt__, found, most)):
            found = balance(times, most)
        if found is None:
            return
        yield _decided(every, assignment, found)
        assignment = every.least(found, _weights(times, found))


def _decided(every: Quadratics, assignment: Assignment, shares: tuple[float, ...]) -> Decision:
    return Decision(every.split.total(times_at(every.times(assignment), shares)), assignment, shares)


def _linear(every: Quadratics, times: Array) -> tuple[float, ...]:
    """Apply AccPar's rule until the transfers match the shares that it gives."""
    flop = every.split.flop
    computing = [flop * rates.work for rates in every.split.rates]
    shares: tuple[float, ...] = (1 / len(times),) * len(times)
    for _ in range(MOST_TURNS):
        both = times_at(times, shares)
        moved = [total - own * share for total, own, share in zip(both, computing, shares, strict=True)]
        found = linear(computing, moved)
        if found == shares:
            break
        shares = found
    return shares


def _weights(times: Array, shares: Sequence[float]) -> list[float]:
    """Return the weight of each group's time: the faster it grows with its share, the smaller the weight."""
    growth = [row[1] + 2 * row[2] * share for row, share in zip(times.tolist(), shares, strict=True)]
    least = 1e-6 * max(map(abs, growth)) or 1.0
    return [1 / max(slope, least) for slope in growth]
