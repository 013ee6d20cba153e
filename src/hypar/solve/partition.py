"""Partition a row of items into spans so that the costliest span is as cheap as possible.

Idea: dynamic programming over the spans, from the last to the first, for the bottleneck; then over the partitions
with that bottleneck, for the tie-break.
Recurrence: ``best[r][b] = min over e > b of max(cost[r][b, e], best[r + 1][e])``, and the same with sums in place of
the maximum for the tie-break.
Cost: ``spans * items ** 2`` entries computed, ``items ** 2`` stored.
Guarantee: exact for any costs, additive or not, which may differ from span to span. Ties between equal bottlenecks
go to the partition with the least sum of squared costs, which evens out the other spans; then to the one with the
cheapest seams; then to the one with the earliest seams, compared from the first on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.errors import TableLimitError
from hypar.solve.edge import Costs

MOST_ENTRIES = 2**27
"""Limit of the entries computed: some seconds."""

LEAST_SPANS = 16
"""Least number of spans to count: one table of all items is stored in any case."""


class Partition(NamedTuple):
    """Consecutive items divided into spans.

    Attributes:
        bounds: the first item of each span, then the number of items, ``[spans + 1]``.
        bottleneck: cost of the costliest span.
    """

    bounds: tuple[int, ...]
    bottleneck: float


def partition(
    costs: Callable[[int], Costs], spans: int, seams: Costs, limit: float = math.inf
) -> Partition | None:
    """Return the cheapest partition of a row of items into nonempty spans.

    Args:
        costs: function from a span's number to its costs by first item and end: ``[items, items + 1]``, nonnegative,
            infinite if impossible. Entries whose end does not follow their start are not read.
        spans: number of spans, from 1 to that of items.
        seams: cost of ending a span before each item, ``[items + 1]``, for ties only; both ends are not read.
        limit: largest allowed cost of a span.

    Returns:
        None if every partition has an impossible span, or one above the limit.

    Raises:
        TableLimitError: too many items.
    """
    items = len(seams) - 1
    bottleneck = least_bottleneck(costs, spans, items)
    if bottleneck == np.inf or bottleneck > limit:
        return None
    bounds = [0]
    for after in _ends(_nonempty(costs, spans, items), spans, seams, bottleneck):
        bounds.append(int(after[bounds[-1]]))
    return Partition(tuple(bounds), bottleneck)


def least_bottleneck(costs: Callable[[int], Costs], spans: int, items: int) -> float:
    """Return the cost of the costliest span of the cheapest partition, infinite if there is none; arguments as in ``partition``."""
    held, best = _nonempty(costs, spans, items), np.full(items + 1, np.inf)
    best[items] = 0
    for span in reversed(range(spans)):
        best[:items] = np.maximum(held(span), best).min(axis=1)
        best[items] = np.inf
    return float(best[0])


def _nonempty(costs: Callable[[int], Costs], spans: int, items: int) -> Callable[[int], Costs]:
    """Return the same costs with empty spans made infinite, once where spans one after another have one array."""
    if (entries := max(spans, LEAST_SPANS) * items**2) > MOST_ENTRIES:
        found = f"partition: {items:,} items in {spans:,} spans would take {entries:,} entries"
        raise TableLimitError(f"{found}; allowed: {MOST_ENTRIES:,}", entries, MOST_ENTRIES)
    nonempty = np.arange(items + 1) > np.arange(items)[:, None]
    last: list[Costs] = []

    def held(span: int) -> Costs:
        found = costs(span)
        if not last or found is not last[0]:
            last[:] = found, np.where(nonempty, found, np.inf)
        return last[1]

    return held


def _ends(
    held: Callable[[int], Costs], spans: int, seams: Costs, bottleneck: float
) -> list[NDArray[np.intp]]:
    """Return the end of each span by its first item, ``[spans][items]``."""
    items, size = len(seams) - 1, -math.frexp(bottleneck)[1]
    squares, at_seams = np.full((2, items + 1), np.inf)
    squares[items] = at_seams[items] = 0
    found, last, own = [], None, np.zeros(0)
    for span in reversed(range(spans)):
        costs = held(span)
        if costs is not last:
            # Scaling by a power of two rounds nothing and keeps every square in range.
            last, own = costs, np.ldexp(np.where(costs <= bottleneck, costs, np.inf), size) ** 2
        total = own + squares
        least = total.min(axis=1)
        tied = np.where(total == least[:, None], at_seams, np.inf)
        ends = tied.argmin(axis=1)
        found.append(ends)
        squares[:items], squares[items] = least, np.inf
        at_seams[:items] = tied[np.arange(items), ends] + seams[:items]
        at_seams[items] = np.inf
    return found[::-1]
