"""Dynamic programming along a chain.

Idea: HyPar (HPCA 2019), Algorithm 1, for any number of choices and from the last node to the first.
Recurrence: ``best[i][x] = node[i][x] + min over y of (edge[i][x, y] + best[i + 1][y])``.
Cost: one minimisation over every edge, linear in the number of nodes.
Guarantee: exact on graphs whose every component is a path. Of equal optima it takes the one whose
choices come first, compared node by node from the path's first node on.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.edge import Costs, Edge, entries_computed
from hypar.errors import ProblemError
from hypar.problem import Solution
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Structure


class Chain:
    """Exact on paths, in time linear in their length."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """One vector a node; None where the graph has a branch or a cycle."""
        return None if _paths(structure) is None else _tables(structure)

    def solve(self, problem: CostGraph) -> Solution:
        """Walk every path back, then forth."""
        structure = problem.structure
        paths = _paths(structure)
        if paths is None:
            raise ProblemError("solver 'chain': the graph has a branch or a cycle; allowed: paths")
        require_tables("chain", _tables(structure))
        edges: dict[tuple[int, int], Edge] = {}
        for edge in problem.edges:
            ends = (min(edge.source, edge.target), max(edge.source, edge.target))
            edges[ends] = edges[ends].plus(edge) if ends in edges else edge
        assignment = [0] * len(problem.nodes)
        for path in paths:
            _solve_path(problem, edges, path, assignment)
        return Solution(assignment=tuple(assignment), cost=problem.cost(assignment))


def _tables(structure: Structure) -> Tables:
    """One vector a node, one minimisation an edge."""
    nodes = sum(structure.sizes)
    work = sum(entries_computed(link.source_digits, link.target_digits) for link in structure.links)
    return Tables(stored=nodes + structure.entries, work=work + nodes)


def _solve_path(
    problem: CostGraph, edges: dict[tuple[int, int], Edge], path: list[int], assignment: list[int]
) -> None:
    """Fill in the choices of one path's nodes."""
    joining = [edges[min(pair), max(pair)] for pair in itertools.pairwise(path)]
    best: list[Costs] = [problem.nodes[path[-1]]]
    for node, edge in zip(path[-2::-1], reversed(joining), strict=True):
        least = edge.least_over_target if edge.source == node else edge.least_over_source
        best.append(problem.nodes[node] + least(best[-1]))
    choice = int(best.pop().argmin())
    assignment[path[0]] = choice
    for before, node, edge in zip(path[:-1], path[1:], joining, strict=True):
        beside = edge.of_source if edge.source == before else edge.of_target
        choice = int((beside(choice) + best.pop()).argmin())
        assignment[node] = choice


@lru_cache(maxsize=16)
def _paths(structure: Structure) -> list[list[int]] | None:
    """Every component as a path from its end of lower index, or None if one is not a path."""
    neighbours = structure.neighbours()
    if any(len(near) > 2 for near in neighbours):
        return None
    seen: set[int] = set()
    paths = []
    for start, near in enumerate(neighbours):
        if start in seen or len(near) == 2:
            continue
        path = [start]
        while step := [node for node in neighbours[path[-1]] if node not in path[-2:]]:
            path += step
        seen.update(path)
        paths.append(path)
    return paths if len(seen) == len(neighbours) else None


plugin: Solver = Chain()
