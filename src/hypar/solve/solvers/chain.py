"""Dynamic programming along a chain.

Idea: HyPar (HPCA 2019), Algorithm 1, for any number of choices: forward along the nodes, then back with the choices.
Recurrence: ``best[i][y] = node[i][y] + min over x of (best[i - 1][x] + edge[i - 1][x, y])``.
Cost: one minimisation over every edge, linear in the number of nodes.
Guarantee: exact on graphs whose every component is a path through nodes of rising number. Ties go from the last node
back to the first declared choice, as in every exact solver.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.errors import ProblemError
from hypar.solve.cost_graph import Solution
from hypar.solve.edge import entries_computed
from hypar.solve.minsum import optimum
from hypar.solve.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


class Chain:
    """An exact solver of paths, in time linear in their length."""

    exact = True

    @staticmethod
    @lru_cache(maxsize=64)
    def tables(structure: Structure) -> Tables | None:
        """Return the size of one vector for each node, with one minimisation for each edge; None if the graph has a branch or a cycle."""
        if not _is_paths(structure):
            return None
        nodes = sum(structure.sizes)
        work = sum(entries_computed(link.source_digits, link.target_digits) for link in structure.links)
        return Tables(stored=nodes + structure.entries, work=work + nodes)

    def solve(self, problem: CostGraph) -> Solution:
        """Minimise along every path, then pick choices backward: an elimination of one node of each path after the other."""
        tables = self.tables(problem.structure)
        if tables is None:
            raise ProblemError("solver 'chain': the graph has a branch or a cycle; allowed: paths")
        require_tables("chain", tables)
        assignment = optimum(problem, problem.structure)
        return Solution(assignment=assignment, cost=problem.cost(assignment))


def _is_paths(structure: Structure) -> bool:
    """Return whether every component is a path through nodes of rising number."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for low, high in {(min(link[:2]), max(link[:2])) for link in structure.links}:
        if after.setdefault(low, high) != high or before.setdefault(high, low) != low:
            return False
    return True


plugin: Solver = Chain()
