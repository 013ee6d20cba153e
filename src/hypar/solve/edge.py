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
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        return self.terms[0][:, 0] if len(self.terms) == 1 else self._part((None, None))

    def beside(self, end: int, choice: int) -> Costs:
        """Return the costs beside one choice of an end, 0 for the source and 1 for the target, ``[choices of the other]``."""
        return self._part((None, choice) if end else (choice, None)).reshape(-1)

    def at(self, source: int, target: int) -> float:
        """Return the cost of one pair of choices."""
        if len(self.terms) == 1:
            return float(self.terms[0][source, 0, target])
        return float(self._part((source, target))[0, 0])

    def _part(self, chosen: tuple[int | None, int | None]) -> Costs:
        """Return the matrix, of one choice of an end where it is given."""
        total, above = np.zeros((1, 1)), 0
        pairs = zip(chosen, self.digits, strict=True)
        digits = [repeat(None) if own is None else np.unravel_index(own, of) for own, of in pairs]
        for term, x, y in zip(self.terms, *digits, strict=False):
            own = term if x is None else term[x : x + 1]
            if y is not None:
                own, above = own[:, above : above + 1, y : y + 1], above * term.shape[2] + y
            total = (total[:, None, :, None] + own).reshape(len(total) * len(own), -1)
        return total

    def least_over(self, end: int, table: Costs) -> Costs:
        """Minimise a table ``[choices, ...]`` over an end, 0 for the source: ``min over x of (table[x, ...] + costs[x, y])``, ``[choices of the other, ...]``."""
        if len(self.terms) == 1:
            return min_plus(self.terms[0][:, 0].T if end else self.terms[0][:, 0], table)
        others, left, below = table.size // len(table), table, 1
        for term in self.terms[::-1] if end else self.terms:
            digit, above, width = term.shape
            if end:
                each = left.reshape(above, width, 1, below, others).swapaxes(0, 1)
                left = _least(each, term.T[..., None, None])
                below *= digit
            else:
                left = _least(left.reshape(digit, -1, above, 1, others), term[:, None, :, :, None])
        return left.reshape(-1, *table.shape[1:])

    def plus(self, other: Edge) -> Edge:
        """Return the sum of two edges between the same nodes."""
        turned = other.source != self.source
        if not turned and self.digits == other.digits:
            return self._replace(terms=tuple(map(np.add, self.terms, other.terms)))
        return Edge.dense(self.source, self.target, self.costs + (other.costs.T if turned else other.costs))


def entries_computed(source: tuple[int, ...], target: tuple[int, ...]) -> int:
    """Return the number of table entries computed by a minimisation over one end of an edge."""
    return sum(math.prod(source[at:] + target[: at + 1]) for at in range(len(source)))


def min_plus(left: Costs, right: Costs) -> Costs:
    """Return ``min over k of (left[k, i] + right[k, ...])``, ``[i, ...]``, some rows at once to save memory.

    A large sum over pairs is the product ``[left 1] [1 right]'``: each entry is one addition, rounded once, at the
    speed of writing the result.
    """
    if right.ndim == 1:
        return np.asarray(np.minimum.reduce(left + right[:, None], axis=0))
    rest = right.reshape(len(right), -1)
    height, width = left.shape[1], rest.shape[1]
    if left.size * width <= BLOCK:
        found = np.minimum.reduce(left[:, :, None] + rest[:, None, :], axis=0)
        return np.asarray(found).reshape(-1, *right.shape[1:])
    found, step = np.full((height, width), np.inf), max(1, BLOCK // width)
    for row in range(0, height, step):
        least = found[row : row + step]
        first, second, total = np.ones((len(least), 2)), np.ones((2, width)), np.empty(least.shape)
        for one, other in zip(left[:, row : row + step], rest, strict=True):
            first[:, 0], second[1] = one, other
            np.minimum(least, np.matmul(first, second, out=total), out=least)
    return found.reshape(-1, *right.shape[1:])


def _least(left: Costs, right: Costs) -> Costs:
    """Return the least of the sums of two arrays along their first axes, with one table of extra memory."""
    found: Costs = left[0] + right[0]
    total = np.empty_like(found)
    for one, other in zip(left[1:], right[1:], strict=True):
        np.minimum(found, np.add(one, other, out=total), out=found)
    return found
