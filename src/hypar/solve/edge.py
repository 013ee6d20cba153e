"""An edge of a cost graph, and the minimisation over one of its ends.

A choice that combines one choice at each of several levels is a tuple of digits, outermost first, and the cost of
a pair is a sum over levels: the term of level h depends on the source's digit h and on the target's digits up to
h. An edge stores these *terms*; the whole matrix, quadratic in the number of tuples, is built only on request.
Minimisation over an end takes one digit at a time,
``rest[y0] = min over x0 of (table[x0, x1...] + term0[x0, y0])`` and so on, so its cost is the number of choices of
a tuple times the number of its digits instead of the matrix's size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Costs = NDArray[np.float64]
Indices = NDArray[np.intp]
BLOCK = 2**16
"""Entries of a sum computed at once: together with the running minimum they fit a core's cache."""


class Edge(NamedTuple):
    """The costs of each pair of choices of two nodes.

    Attributes:
        source: index of the first node.
        target: index of the second node.
        terms: for each level ``[source digit, target digits above (one index), target digit]``.
    """

    source: int
    target: int
    terms: tuple[Costs, ...]

    @classmethod
    def dense(cls, source: int, target: int, costs: Costs) -> Edge:
        """Build an edge from its matrix, ``[choices of source, choices of target]``."""
        return cls(source=source, target=target, terms=(costs[:, None, :],))

    @property
    def digits(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The choices of the source and those of the target at each level."""
        return tuple([len(term) for term in self.terms]), tuple([term.shape[2] for term in self.terms])

    @property
    def costs(self) -> Costs:
        """The whole matrix, ``[choices of source, choices of target]``."""
        return self._part(None, None)

    def of_source(self, choice: int) -> Costs:
        """Return the row of costs for one choice of the source, ``[choices of target]``."""
        return self._part(choice, None).reshape(-1)

    def of_target(self, choice: int) -> Costs:
        """Return the column of costs for one choice of the target, ``[choices of source]``."""
        return self._part(None, choice).reshape(-1)

    def at(self, source: int, target: int) -> float:
        """Return the cost of one pair of choices."""
        if len(self.terms) == 1:
            return float(self.terms[0][source, 0, target])
        return float(self._part(source, target)[0, 0])

    def _part(self, source: int | None, target: int | None) -> Costs:
        """Return the matrix, of one choice of an end where it is given."""
        total: Costs = np.zeros((1, 1))
        above = 0
        chosen = map(_digits, (source, target), self.digits)
        for term, x, y in zip(self.terms, *chosen, strict=True):
            own = term if x is None else term[x : x + 1]
            if y is not None:
                own, above = own[:, above : above + 1, y : y + 1], above * term.shape[2] + y
            total = (total[:, None, :, None] + own).reshape(len(total) * len(own), -1)
        return total

    def least_over_source(self, table: Costs) -> Costs:
        """Minimise a table ``[choices of source, ...]`` over the source: ``min over x of (table[x, ...] + costs[x, y])``, ``[choices of target, ...]``."""
        if len(self.terms) == 1:
            return _over_dense(self.terms[0][:, 0], table)
        others, left = table.size // len(table), table
        for term in self.terms:
            digit, above, _ = term.shape
            left = left.reshape(digit, -1, above, 1, others)
            left = _least((left[x], term[x][None, :, :, None]) for x in range(digit))
        return left.reshape(-1, *table.shape[1:])

    def least_over_target(self, table: Costs) -> Costs:
        """Minimise a table ``[choices of target, ...]`` over the target: ``min over y of (table[y, ...] + costs[x, y])``, ``[choices of source, ...]``."""
        if len(self.terms) == 1:
            return _over_dense(self.terms[0][:, 0].T, table)
        others, left, below = table.size // len(table), table, 1
        for term in reversed(self.terms):
            digit, above, width = term.shape
            left = left.reshape(above, width, 1, below, others)
            left = _least((left[:, y], term[:, :, y].T[:, :, None, None]) for y in range(width))
            below *= digit
        return left.reshape(-1, *table.shape[1:])

    def plus(self, other: Edge) -> Edge:
        """Return the sum of two edges between the same nodes."""
        turned = other.source != self.source
        if not turned and [term.shape for term in self.terms] == [term.shape for term in other.terms]:
            both = zip(self.terms, other.terms, strict=True)
            return Edge(source=self.source, target=self.target, terms=tuple(a + b for a, b in both))
        return Edge.dense(self.source, self.target, self.costs + (other.costs.T if turned else other.costs))


def entries_computed(source: tuple[int, ...], target: tuple[int, ...]) -> int:
    """Return the number of table entries computed by a minimisation over one end of an edge."""
    total, above = 0, 1
    below = math.prod(source)
    for x, y in zip(source, target, strict=True):
        total += below * above * y
        below, above = below // x, above * y
    return total


def min_plus(left: Costs, right: Costs) -> Costs:
    """Return ``min over k of (left[k, i] + right[k, j])``, ``[i, j]``, some rows at once to save memory.

    A large sum over pairs is the product ``[left 1] [1 right]'``: each entry is one addition, rounded once, at the
    speed of writing the result.
    """
    height, width = left.shape[1], right.shape[1]
    if len(left) * height * width <= BLOCK:
        return np.asarray(np.minimum.reduce(left[:, :, None] + right[:, None, :], axis=0))
    found, step = np.full((height, width), np.inf), max(1, BLOCK // width)
    for row in range(0, height, step):
        least = found[row : row + step]
        first, second, total = np.ones((len(least), 2)), np.ones((2, width)), np.empty(least.shape)
        for one, other in zip(left[:, row : row + step], right, strict=True):
            first[:, 0], second[1] = one, other
            np.minimum(least, np.matmul(first, second, out=total), out=least)
    return found


def _over_dense(costs: Costs, table: Costs) -> Costs:
    """Return ``min over x of (table[x, ...] + costs[x, y])``, ``[y, ...]``."""
    if table.ndim == 1:
        return np.asarray(np.minimum.reduce(costs + table[:, None], axis=0))
    return min_plus(costs, table.reshape(len(table), -1)).reshape(-1, *table.shape[1:])


def _least(terms: Iterable[tuple[Costs, Costs]]) -> Costs:
    """Return the elementwise minimum of sums, with one table of extra memory."""
    found: Costs | None = None
    total: Costs | None = None
    for one, other in terms:
        if found is None:
            found = one + other
        else:
            total = np.add(one, other, out=total)
            np.minimum(found, total, out=found)
    assert found is not None  # noqa: S101 (a node has a choice at every level)
    return found


def _digits(choice: int | None, widths: Sequence[int]) -> list[int | None]:
    """Return the digits of a tuple's index, outermost first; those of none are none."""
    digits: list[int | None] = []
    for width in reversed(widths):
        choice, digit = (None, None) if choice is None else divmod(choice, width)
        digits.append(digit)
    return digits[::-1]
