"""Divide a row of items into spans, so that the costliest span is as cheap as can be.

Idea: dynamic programming over the spans, from the last to the first, for the bottleneck; then over the partitions
that have it, for the tie-break.
Recurrence: ``best[r][b] = min over e > b of max(cost[r][b, e], best[r + 1][e])``, and the same with sums in place of
the maximum for the tie-break.
Cost: ``spans * items ** 2`` entries computed, ``items ** 2`` stored.
Guarantee: exact for any costs, additive or not, and unlike for each span. Of equal bottlenecks the partition whose
costs have the least sum of squares, so that the other spans are even too; of these the one whose seams cost least; of
these the one whose seams come first, compared from the first on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import ProblemError, TableLimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hypar.solve.edge import Costs

MOST_ENTRIES = 2**27
"""Entries computed: some seconds."""

LEAST_SPANS = 16
"""Fewer spans count as so many, for a table of all items is stored however few they are."""


class Partition(NamedTuple):
    """Runs of items.

    Attributes:
        bounds: where each span starts, and the number of items, ``[spans + 1]``.
        bottleneck: cost of the costliest span.
    """

    bounds: tuple[int, ...]
    bottleneck: float


def partition(costs: Callable[[int], Costs], spans: int, seams: Costs) -> Partition | None:
    """The cheapest partition of a row of items into spans, none of them empty.

    Args:
        costs: for each span, from 0, what it costs as the items from a start up to an end: ``[items, items + 1]``, from
            0 up, infinite where it cannot be. Entries that do not end after they start are not read.
        spans: how many.
        seams: what it costs to end a span before each item, ``[items + 1]``, for ties alone; its ends are not read.

    Returns:
        None where every partition has a span that cannot be.

    Raises:
        ProblemError: no such number of spans, or costs that are not of this shape or range.
        TableLimitError: too many items.
    """
    items = len(seams) - 1
    if not 1 <= spans <= items:
        raise ProblemError(f"partition: found {spans} spans of {items} items; allowed: 1 to {items}")
    require_entries(items, spans)
    bottleneck = _bottleneck(costs, spans, items)
    if bottleneck == np.inf:
        return None
    ends = _ends(costs, spans, seams, bottleneck)
    bounds = [0]
    for after in ends:
        bounds.append(int(after[bounds[-1]]))
    return Partition(tuple(bounds), bottleneck)


def require_entries(items: int, spans: int) -> None:
    """Refuse what would take too long, before any cost is computed for it.

    Raises:
        TableLimitError: it would.
    """
    entries = max(spans, LEAST_SPANS) * items**2
    if entries > MOST_ENTRIES:
        found = f"partition: {items:,} items in {spans:,} spans would take {entries:,} entries"
        raise TableLimitError(f"{found}; allowed: {MOST_ENTRIES:,}", entries, MOST_ENTRIES)


def _checked(found: Costs, items: int) -> Costs:
    """Costs of one span; infinite where it would be empty."""
    if found.shape != (items, items + 1):
        allowed = f"{items} x {items + 1}"
        raise ProblemError(f"partition: found costs of {found.shape}; allowed: {allowed}")
    held = np.where(np.arange(items + 1) > np.arange(items)[:, None], found, np.inf)
    if not (held >= 0).all():
        raise ProblemError("partition: found a cost that is negative or no number; allowed: from 0")
    return held


def _bottleneck(costs: Callable[[int], Costs], spans: int, items: int) -> float:
    """The least cost of the costliest span."""
    best = np.full(items + 1, np.inf)
    best[items] = 0
    for span in reversed(range(spans)):
        best[:items] = np.maximum(_checked(costs(span), items), best).min(axis=1)
        best[items] = np.inf
    return float(best[0])


def _ends(
    costs: Callable[[int], Costs], spans: int, seams: Costs, bottleneck: float
) -> list[NDArray[np.intp]]:
    """For each span where it ends, by where it starts: ``[spans][items]``."""
    items, size = len(seams) - 1, -math.frexp(bottleneck)[1]
    squares, at_seams = np.full((2, items + 1), np.inf)
    squares[items] = at_seams[items] = 0
    found = []
    for span in reversed(range(spans)):
        held = _checked(costs(span), items)
        # By a power of two, which rounds nothing: so no square is too large or too small for a number.
        total = np.ldexp(np.where(held <= bottleneck, held, np.inf), size) ** 2 + squares
        least = total.min(axis=1)
        tied = np.where(total == least[:, None], at_seams, np.inf)
        ends = tied.argmin(axis=1)
        found.append(ends)
        squares[:items], squares[items] = least, np.inf
        at_seams[:items] = tied[np.arange(items), ends] + seams[:items]
        at_seams[items] = np.inf
    return found[::-1]
