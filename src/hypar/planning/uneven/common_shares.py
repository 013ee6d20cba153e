"""One share for each side of a fork, found together with the choices.

Given shares, the choices of least weighted sum are found by an exact solver; given choices, the shares of which the
slowest side ends first follow exactly. Both are repeated in turn until nothing changes, from several starts: a fixed
point, not a proven optimum, and never worse than equal shares, which is one of the starts. A side weighs
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

    from hypar.planning.uneven.fork import Assignment
    from hypar.planning.uneven.quadratics import Array, Line, Quadratics

MOST_TURNS = 20
"""Times that choices and shares are found from each other."""


class Decision(NamedTuple):
    """What a fork does.

    Attributes:
        cost: what it costs, its slowest side or all of them.
        assignment: an option of each layer.
        shares: of each side that works.
    """

    cost: float
    assignment: Assignment
    shares: tuple[float, ...]


def best(decisions: Sequence[Decision]) -> Decision:
    """The cheapest; of equally cheap ones that of the first options."""
    return min(decisions, key=lambda one: (one.cost, one.assignment))


def search(
    every: Quadratics,
    rule: str,
    most: Sequence[float] | None = None,
    below: Sequence[Line] | None = None,
) -> tuple[Decision, ...]:
    """The decisions of all turns whose shares are allowed, in the order in which they were met.

    Args:
        every: all options of the fork.
        rule: one of ``RULES``: ``linear`` is AccPar's, ``exact`` gives the shares of which the slowest side ends first.
        most: the largest share of each side; no limit if not given. Shares past it are balanced within it.
        below: what each side costs besides, over its share; nothing if not given.
    """
    every = every if below is None else every.above(below)
    fork, count = every.fork, len(every.fork.sides)
    even = (1 / count,) * count
    fixed = rule == "equal" or count == 1 or not fork.slowest
    starts = list(_starts(every, even))
    if fixed:
        allowed = most is None or all(share <= limit for share, limit in zip(even, most, strict=True))
        return tuple(_decided(every, start, even) for start in starts) if allowed else ()
    speeds = np.array([1 / rates.work if rates.work else 1.0 for rates in fork.rates])
    proportional = tuple((speeds / speeds.sum()).tolist())
    starts += _starts(every, proportional)
    turns = (turn for start in dict.fromkeys(starts) for turn in _turns(every, start, rule, most))
    return tuple(dict.fromkeys(turns))


def _starts(every: Quadratics, shares: tuple[float, ...]) -> Iterator[Assignment]:
    """The best choices at some shares where all sides weigh alike, by their shares, and each alone."""
    count = len(shares)
    weights = [(1.0,) * count]
    if every.fork.slowest and count > 1:
        weights += [shares, *map(tuple, np.eye(count).tolist())]
    for own in dict.fromkeys(weights):
        yield every.least(shares, own)


def _turns(
    every: Quadratics, assignment: Assignment, rule: str, most: Sequence[float] | None
) -> Iterator[Decision]:
    """From one start to a fixed point."""
    seen: set[Assignment] = set()
    while assignment not in seen and len(seen) < MOST_TURNS:
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
    """A decision with its cost."""
    return Decision(every.fork.total(times_at(every.times(assignment), shares)), assignment, shares)


def _linear(every: Quadratics, times: Array) -> tuple[float, ...]:
    """AccPar's rule, repeated until the transfers are those of the shares that it gives."""
    flop = every.fork.flop
    computing = [flop * rates.work for rates in every.fork.rates]
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
    """How much each side's time counts: the less, the faster it grows with its share."""
    growth = [row[1] + 2 * row[2] * share for row, share in zip(times.tolist(), shares, strict=True)]
    least = 1e-6 * max(map(abs, growth)) or 1.0
    return [1 / max(slope, least) for slope in growth]
