"""Dynamic programming along a chain.

Idea: HyPar (HPCA 2019), Algorithm 1, for any number of choices and from the last node to the first.
Recurrence: ``best[i][x] = node[i][x] + min over y of (edge[i][x, y] + best[i + 1][y])``.
Cost: one pass over every edge matrix, linear in the number of nodes.
Guarantee: exact on graphs whose every component is a path. Of equal optima it takes the one whose
choices come first, compared node by node from the path's first node on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.errors import ProblemError
from hypar.problem import Costs, Solution
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Structure


class Chain:
    """Exact on paths, in time linear in their length."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """One matrix an edge; None where the graph has a branch or a cycle."""
        if _paths(structure) is None:
            return None
        entries = [structure.sizes[a] * structure.sizes[b] for a, b in structure.pairs]
        return Tables(largest=max(entries, default=0), total=sum(entries) + sum(structure.sizes))

    def solve(self, problem: CostGraph) -> Solution:
        """Walk every path back, then forth."""
        tables, paths = self.tables(problem.structure), _paths(problem.structure)
        if tables is None or paths is None:
            raise ProblemError("solver 'chain': the graph has a branch or a cycle; allowed: paths")
        require_tables("chain", tables)
        matrices = _matrices(problem)
        assignment = [0] * len(problem.nodes)
        for path in paths:
            _solve_path(problem, matrices, path, assignment)
        return Solution(assignment=tuple(assignment), cost=problem.cost(assignment))


def _solve_path(
    problem: CostGraph, matrices: dict[tuple[int, int], Costs], path: list[int], assignment: list[int]
) -> None:
    """Fill in the choices of one path's nodes."""
    best = problem.nodes[path[-1]]
    following: list[Costs] = []
    for here, after in zip(path[-2::-1], path[:0:-1], strict=True):
        ahead = matrices[here, after] + best
        following.append(ahead.argmin(axis=1))
        best = problem.nodes[here] + ahead.min(axis=1)
    choice = int(best.argmin())
    assignment[path[0]] = choice
    for node, chosen in zip(path[1:], reversed(following), strict=True):
        choice = int(chosen[choice])
        assignment[node] = choice


def _matrices(problem: CostGraph) -> dict[tuple[int, int], Costs]:
    """The edge matrices in both directions, parallel edges added up."""
    found: dict[tuple[int, int], Costs] = {}
    for edge in problem.edges:
        ends = (edge.source, edge.target)
        found[ends] = found[ends] + edge.costs if ends in found else edge.costs
        found[ends[::-1]] = found[ends].T
    return found


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
