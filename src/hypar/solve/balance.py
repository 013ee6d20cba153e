"""Shares that let the slowest device group end as early as possible.

A group's time is a quadratic in its own share: its work and the transfers of its shard grow with the share, the
elements of other shards that it lacks shrink, those of its own shard that it lacks are ``s - s**2``, and sums have a
constant size. The module knows no layers or machines. Bisection finds the least time T; the shares with which a group
needs at most T are intervals between the roots of its quadratic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise, product

import numpy as np
from numpy.typing import NDArray

Quadratics = NDArray[np.float64]

Interval = tuple[float, float]


def times_at(times: Quadratics, shares: Sequence[float]) -> list[float]:
    """Return the time of each group at its share.

    Args:
        times: ``[groups, 3]``, the constant, linear and quadratic coefficient of each.
        shares: one for each group.
    """
    return [_at(row, share) for row, share in zip(times.tolist(), shares, strict=True)]


def balance(times: Quadratics, most: Sequence[float] | None = None) -> tuple[float, ...] | None:
    """Return the shares, summing to 1, with the least time of the slowest group.

    Source: AccPar (HPCA 2020): both groups of a split end together. Among equally good shares the result takes the same
    fraction of every group's allowed interval.

    Args:
        times: coefficients of each group's time, ``[groups, 3]``.
        most: the largest share that each may have; 1 if not given.

    Returns:
        None if the largest shares sum to less than 1.

    Examples:
        >>> import numpy as np
        >>> balance(np.array([[0, 1 / 180, 0], [0, 1 / 420, 0]]))
        (0.3, 0.7)
    """
    rows = times.tolist()
    ends = [1.0] * len(rows) if most is None else [min(1.0, end) for end in most]
    if math.fsum(ends) < 1:
        return None
    reached = [_extremes(row, end) for row, end in zip(rows, ends, strict=True)]
    low, high = max(map(min, reached)), max(map(max, reached))
    least, found = (_shares_within(rows, ends, limit) for limit in (low, high))
    while least is None and low < (middle := low + (high - low) / 2) < high:
        tried = _shares_within(rows, ends, middle)
        if tried is None:
            low = middle
        else:
            high, found = middle, tried
    return found if least is None else least


def linear(work: Sequence[float], moved: Sequence[float]) -> tuple[float, ...]:
    """Return AccPar's shares, in inverse proportion to each group's time for all of the work and its transfers.

    Source: AccPar (HPCA 2020): ``a (E_cp,i + E_cm,i) = b (E_cp,j + E_cm,j)``.

    Args:
        work: each group's time to compute the whole.
        moved: each group's time for its transfers.
    """
    both = [one + other for one, other in zip(work, moved, strict=True)]
    free = [index for index, total in enumerate(both) if total == 0]
    if free:
        return tuple((index in free) / len(free) for index in range(len(both)))
    speeds = [min(both) / total for total in both]
    return tuple(speed / math.fsum(speeds) for speed in speeds)


def _at(row: Sequence[float], share: float) -> float:
    return row[0] + share * (row[1] + share * row[2])


def _extremes(row: Sequence[float], end: float) -> list[float]:
    """Return the values of a quadratic at both ends of its shares and at its turning point."""
    turn = -row[1] / (2 * row[2]) if row[2] else 0.0
    return [_at(row, share) for share in (0.0, end, *([turn] if 0 < turn < end else []))]


def _shares_within(rows: list[list[float]], ends: list[float], limit: float) -> tuple[float, ...] | None:
    """Return shares that sum to 1 and keep every group within the limit; None if there are none."""
    allowed = [_allowed(row, end, limit) for row, end in zip(rows, ends, strict=True)]
    for picked in product(*allowed):
        least, largest = math.fsum(low for low, _ in picked), math.fsum(high for _, high in picked)
        if least <= 1 <= largest:
            fraction = (1 - least) / (largest - least) if largest > least else 0.0
            return tuple(low + (high - low) * fraction for low, high in picked)
    return None


def _allowed(row: list[float], end: float, limit: float) -> list[Interval]:
    """Return the intervals of shares that keep one group within the limit: one, two, or a single point."""
    cuts = [0.0, *sorted(root for root in _roots(row, limit) if 0 < root < end), end]
    runs = groupby(pairwise(cuts), lambda own: _at(row, own[0] + (own[1] - own[0]) / 2) <= limit)
    found = [(own[0][0], own[-1][1]) for own in [[*run] for inside, run in runs if inside]]
    points = [cut for cut in cuts if not any(low <= cut <= high for low, high in found)]
    return sorted([*found, *[(cut, cut) for cut in points if _at(row, cut) <= limit]])


def _roots(row: list[float], limit: float) -> list[float]:
    """Return the shares at which a quadratic equals the limit, without cancellation."""
    c, b, a = row[0] - limit, row[1], row[2]
    if a == 0:
        return [-c / b] if b else []
    inner = b * b - 4 * a * c
    if inner < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inner), b)) / 2
    return [q / a, *([c / q] if q else [])]
