"""Uniform assignments: the same choice at every node.

Idea: the best of the assignments that take choice ``i`` at every node (the last choice of nodes with fewer).
Cost: one lookup for every node and edge for each ``i``.
Guarantee: none beyond that; it is the baseline, all-dp or all-mp, for every search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.cost_graph import Solution
from hypar.solve.solvers.base import Solver, Tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


class Uniform:
    """An inexact solver: one index for all nodes."""

    exact = False

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the candidates' sums; there is no table."""
        candidates = max(structure.sizes, default=0)
        return Tables(
            stored=structure.entries, work=candidates * (len(structure.sizes) + len(structure.links))
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Try each index; the first best one wins."""
        sizes = problem.structure.sizes
        candidates = [
            tuple(min(index, size - 1) for size in sizes) for index in range(max(sizes, default=0))
        ] or [()]
        best = min(candidates, key=problem.cost)
        return Solution(assignment=best, cost=problem.cost(best))


plugin: Solver = Uniform()
