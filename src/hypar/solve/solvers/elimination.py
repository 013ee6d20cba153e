"""Elimination: nodes are eliminated one by one, their minimum folded into their neighbours.

Idea: DeePa (2018), node and edge elimination, generalised to variable elimination, the "min-sum" form of
bucket elimination (Dechter, Artificial Intelligence 113, 1999). Parallel edges are added up (edge
elimination). Eliminating a node removes all costs that involve it and leaves a table over its neighbours,
``rest[y...] = min over x of (sum of its costs at x, y...)``: a vector for one neighbour (leaf elimination), an edge
for two (node elimination), a larger table for more. Undoing the eliminations in reverse gives every node its
choice. If the work is large, dominated choices are removed first.

Order: min-fill, see ``hypar.solve.order``.
Cost: for each node the product of its neighbours' numbers of choices, times its own number of choices, or times its
digits if one of its edges is a sum of terms.
Guarantee: exact on any graph; the size of the tables is known beforehand, and tables past the limits are refused.
Ties go from the last node back to the first declared choice, as in every exact solver.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.solve.cost_graph import Solution
from hypar.solve.order import trace
from hypar.solve.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


DROPPING_PAYS = 128
"""Ratio of work to the graph's entries at which dominated choices are removed first."""


class Elimination:
    """An exact solver of any graph whose tables fit."""

    exact = True

    @staticmethod
    @lru_cache(maxsize=64)
    def tables(structure: Structure) -> Tables:
        """Return the size of the tables by tracing the order without costs."""
        found = trace(structure)
        # Every table is kept for the way back; beside it one sum is held before its minimum is taken.
        stored = sum(step.entries for step in found.steps)
        widest = max((step.summed for step in found.steps), default=0)
        return Tables(
            stored=stored + widest + structure.entries,
            work=sum(step.work for step in found.steps) + sum(structure.sizes),
            width=found.width,
            complete=found.complete,
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then assign choices in reverse."""
        from hypar.solve.bounds import undominated  # noqa: PLC0415 (its tables alone need neither)
        from hypar.solve.minsum import optimum  # noqa: PLC0415 (as above)

        structure = problem.structure
        tables = self.tables(structure)
        require_tables("elimination", tables)
        if tables.work < DROPPING_PAYS * structure.entries:
            assignment = optimum(problem, structure)
        else:
            left = undominated(problem.summable())
            assignment = left.original(optimum(left.problem, left.problem.structure))
        return Solution(assignment=assignment, cost=problem.cost(assignment))


plugin: Solver = Elimination()
