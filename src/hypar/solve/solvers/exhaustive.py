"""Enumeration of every assignment: the reference for the other exact solvers.

Idea: the sum of all node vectors and edge matrices, broadcast to one table with an axis for each node.
Cost: the product of all numbers of choices, for each node and edge.
Guarantee: exact on any graph. Ties go from the last node back to the first declared choice, as in every exact solver.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import ProblemError
from hypar.solve.cost_graph import Solution
from hypar.solve.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure

MOST_NODES = 32
"""Largest number of axes of an array in numpy 1."""


class Exhaustive:
    """An exact solver of any small graph."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of a table with one entry for each assignment; None if numpy has too few axes."""
        if len(structure.sizes) > MOST_NODES:
            return None
        entries = math.prod(structure.sizes)
        return Tables(
            stored=entries + structure.entries, work=entries * (len(structure.sizes) + len(structure.links))
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Add all costs up and take the first least entry."""
        sizes = problem.structure.sizes
        tables = self.tables(problem.structure)
        if tables is None:
            raise ProblemError(f"solver 'exhaustive': found {len(sizes)} nodes; allowed: up to {MOST_NODES}")
        require_tables("exhaustive", tables)
        exact = problem.summable()
        # The last node has the first axis, so that the first least entry is the one that the tie-break picks.
        kept = [node for node in reversed(range(len(sizes))) if sizes[node] > 1]
        total = np.zeros([sizes[node] for node in kept])
        for node, costs in enumerate(exact.nodes):
            total += costs.reshape([size if here == node else 1 for here, size in _dims(kept, sizes)])
        for edge in exact.edges:
            low, high = sorted((edge.source, edge.target))
            costs = edge.costs if edge.source == high else edge.costs.T
            total += costs.reshape([size if here in (low, high) else 1 for here, size in _dims(kept, sizes)])
        found = dict(zip(kept, np.unravel_index(int(total.argmin()), total.shape), strict=True))
        assignment = tuple(int(found.get(node, 0)) for node in range(len(sizes)))
        return Solution(assignment=assignment, cost=problem.cost(assignment))


def _dims(kept: list[int], sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the axes of the table: each node with its number of choices."""
    return [(node, sizes[node]) for node in kept]


plugin: Solver = Exhaustive()
