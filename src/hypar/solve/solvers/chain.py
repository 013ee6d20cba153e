"""Dynamic programming along a chain.

Idea: HyPar (HPCA 2019), Algorithm 1, for any number of choices: forward along the nodes, then back with the choices.
Recurrence: ``best[i][y] = node[i][y] + min over x of (best[i - 1][x] + edge[i - 1][x, y])``.
Cost: one minimisation over every edge, linear in the number of nodes.
Guarantee: exact on graphs whose every component is a path through nodes of rising number. Ties go from the last node
back to the first declared choice, as in every exact solver.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.errors import ProblemError
from hypar.solve.cost_graph import Solution
from hypar.solve.edge import Costs, Edge, entries_computed
from hypar.solve.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


class Chain:
    """An exact solver of paths, in time linear in their length."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of one vector for each node; None if the graph has a branch or a cycle."""
        return None if _paths(structure) is None else _tables(structure)

    def solve(self, problem: CostGraph) -> Solution:
        """Minimise along every path, then pick choices backward."""
        structure = problem.structure
        paths = _paths(structure)
        if paths is None:
            raise ProblemError("solver 'chain': the graph has a branch or a cycle; allowed: paths")
        require_tables("chain", _tables(structure))
        exact = problem.summable()
        edges = {
            (min(edge.source, edge.target), max(edge.source, edge.target)): edge for edge in exact.joined()
        }
        assignment = [0] * len(problem.nodes)
        for path in paths:
            _solve_path(exact, edges, path, assignment)
        return Solution(assignment=tuple(assignment), cost=problem.cost(assignment))


@lru_cache(maxsize=64)
def _tables(structure: Structure) -> Tables:
    """Return the size of one vector for each node, with one minimisation for each edge."""
    nodes = sum(structure.sizes)
    work = sum(entries_computed(link.source_digits, link.target_digits) for link in structure.links)
    return Tables(stored=nodes + structure.entries, work=work + nodes)


def _solve_path(
    problem: CostGraph, edges: dict[tuple[int, int], Edge], path: list[int], assignment: list[int]
) -> None:
    """Assign the choices of one path's nodes."""
    joining = [edges[pair] for pair in itertools.pairwise(path)]
    best: list[Costs] = [problem.nodes[path[0]]]
    for node, edge in zip(path[1:], joining, strict=True):
        least = edge.least_over_source if edge.target == node else edge.least_over_target
        best.append(problem.nodes[node] + least(best[-1]))
    choice = int(best.pop().argmin())
    assignment[path[-1]] = choice
    for node, edge in zip(reversed(path[:-1]), reversed(joining), strict=True):
        beside = edge.of_target if edge.source == node else edge.of_source
        choice = int((beside(choice) + best.pop()).argmin())
        assignment[node] = choice


@lru_cache(maxsize=64)
def _paths(structure: Structure) -> list[list[int]] | None:
    """Return every component as a path through nodes of rising number; None if one is not such a path."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for low, high in {(min(link[:2]), max(link[:2])) for link in structure.links}:
        if after.setdefault(low, high) != high or before.setdefault(high, low) != low:
            return None
    paths = []
    for start in range(len(structure.sizes)):
        if start not in before:
            path = [start]
            while path[-1] in after:
                path.append(after[path[-1]])
            paths.append(path)
    return paths


plugin: Solver = Chain()
