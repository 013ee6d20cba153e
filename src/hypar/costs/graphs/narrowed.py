"""Tuples that no optimum takes, left out before the matrices of their pairs are built.

Idea: the cost of a tuple and the least costs of everything else exceed the cost of a plan that is known. Edges cost
nothing or more, so they count as nothing at first; then each end is charged with half of the least cost of a pair, of
matrices that are computed a block of rows at a time and not kept. Guarantee: every optimum stays, by more than rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import TableLimitError
from hypar.solve.limits import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.graphs.tables import Tables
    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs, Indices
    from hypar.solve.limits import Budget

MOST_PAIRS = 2**28
"""Most pairs of tuples of all distinct tensors whose costs are computed."""

ROUNDING = 1e-9
"""Largest rounding error of a sum of costs, relative to it."""


class Narrowed(NamedTuple):
    """A cost graph of some tuples.

    Attributes:
        problem: the cost graph.
        kept: for each node the index of each tuple among all.
    """

    problem: CostGraph
    kept: tuple[Indices, ...]

    def original(self, assignment: Sequence[int]) -> tuple[int, ...]:
        """Return an assignment with the indices among all tuples."""
        return tuple(int(kept[choice]) for kept, choice in zip(self.kept, assignment, strict=True))


def narrowed(tables: Tables, known: float, budget: Budget) -> Narrowed:
    """Return the cost graph of the tuples that may be part of a plan of no more than a known cost.

    Raises:
        TableLimitError: the pairs of tuples are too many, or the costs of those that are left exceed the memory.
    """
    kept = _shared(tables.nodes, _promising(tables.nodes, known))
    pairs = tables.pairs(kept)
    if pairs > MOST_PAIRS:
        message = f"search 'joint': found {pairs:,} pairs of choices over all levels; allowed: {MOST_PAIRS:,}"
        raise TableLimitError(message, pairs, MOST_PAIRS)
    left = _promising(tables.least(kept), known)
    found = _shared(tables.nodes, [own[keep] for own, keep in zip(kept, left, strict=True)])
    # While a matrix is built, its pairs take as much again for each of up to three products.
    stored = 4 * tables.pairs(found)
    if not budget.allows(stored=stored):
        most = int(budget.limits.bytes / ENTRY_BYTES)
        message = f"search 'joint': would hold tables of {stored:,} entries; allowed: {most:,}"
        raise TableLimitError(message, stored, most)
    return Narrowed(tables.built(found), tuple(found))


def _promising(least: Sequence[Costs], known: float) -> list[Indices]:
    """Return the choices of each node whose least cost, with the least of all others, is no more than a known cost."""
    lowest = [float(costs.min()) for costs in least]
    slack = known * (1 + ROUNDING) - sum(lowest)
    return [np.flatnonzero(costs - low <= slack) for costs, low in zip(least, lowest, strict=True)]


def _shared(nodes: Sequence[Costs], kept: Sequence[Indices]) -> list[Indices]:
    """Return selections, equal ones of equal nodes as one object."""
    found: dict[object, Indices] = {}
    return [found.setdefault((id(costs), own.tobytes()), own) for costs, own in zip(nodes, kept, strict=True)]
