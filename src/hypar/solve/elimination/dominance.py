"""Dominated choices: choices that no optimum takes, removed before elimination.

Idea: dead-end elimination, known from protein design (Goldstein, Biophysical Journal 66, 1994). At a node,
choice y always beats choice x if
``node[x] - node[y] + sum over edges of (min over z of (edge[x, z] - edge[y, z])) > 0``,
whatever the neighbours choose. Each choice is compared with one y, which seems the best judging by a few z. Removing
choices of a node tightens the bounds of its neighbours, so rounds repeat as long as they pay.
Cost: at most two passes over every entry in a round; nodes and edges with the same arrays are examined once.
Guarantee: only choices that are worse by more than rounding are removed, so every optimum stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Costs, Edge
from hypar.solve.elimination.folding import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

Indices = NDArray[np.intp]

PAYS = 1 / 16
"""Fraction of all choices that a round must remove to start another."""

ROUNDING = 2.0**-40
"""Rounding error of a sum of costs, as a fraction of the largest of them."""

SEEN = 8
"""Approximate number of a neighbour's choices examined first; they suffice to keep most choices that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undominated:
    """A cost graph without its dominated choices.

    Attributes:
        problem: the reduced graph.
        kept: original indices of the remaining choices of each node.
    """

    problem: CostGraph
    kept: tuple[Indices, ...]

    def original(self, assignment: Sequence[int]) -> tuple[int, ...]:
        """Translate an assignment of the reduced graph to the original indices."""
        return tuple(int(kept[choice]) for kept, choice in zip(self.kept, assignment, strict=True))


def undominated(problem: CostGraph) -> Undominated:
    """Remove dominated choices of nodes whose edges are all dense; other nodes stay unchanged."""
    shared = _Shared()
    found = Undominated(
        problem=problem, kept=tuple(np.arange(costs.size, dtype=np.intp) for costs in problem.nodes)
    )
    while True:
        left = shared.survivors(found.problem)
        before = sum(costs.size for costs in found.problem.nodes)
        dropped = before - sum(keep.size for keep in left)
        if dropped <= PAYS * before:
            return found
        kept = tuple(old[keep] for old, keep in zip(found.kept, left, strict=True))
        found = Undominated(problem=shared.without(found.problem, left), kept=kept)


class _Shared:
    """Results cached by their input arrays, which stay referenced meanwhile."""

    def __init__(self) -> None:
        self._kept: dict[object, Indices] = {}
        self._cut: dict[object, Costs] = {}
        self._held: list[CostGraph] = []

    def survivors(self, problem: CostGraph) -> list[Indices]:
        """Return the choices of each node that are not dominated."""
        self._held.append(problem)
        matrices: list[list[Costs]] = [[] for _ in problem.nodes]
        fixed = set()
        for edge in problem.edges:
            if len(edge.terms) > 1:
                fixed |= {edge.source, edge.target}
            else:
                matrices[edge.source].append(edge.costs)
                matrices[edge.target].append(edge.costs.T)
        found = []
        for node, (costs, around) in enumerate(zip(problem.nodes, matrices, strict=True)):
            key = (node in fixed, identity(costs), *[identity(matrix) for matrix in around])
            if key not in self._kept:
                left = np.full(costs.size, True) if node in fixed else _undominated(costs, around)
                self._kept[key] = np.flatnonzero(left)
            found.append(self._kept[key])
        return found

    def without(self, problem: CostGraph, left: Sequence[Indices]) -> CostGraph:
        """Return the cost graph restricted to some choices; equal selections of a shared array share one array."""
        nodes = [self._selected(costs, [keep]) for costs, keep in zip(problem.nodes, left, strict=True)]
        edges = [
            edge
            if len(edge.terms) > 1
            else Edge.dense(
                edge.source, edge.target, self._selected(edge.costs, [left[edge.source], left[edge.target]])
            )
            for edge in problem.edges
        ]
        return CostGraph(nodes=tuple(nodes), edges=tuple(edges))

    def _selected(self, costs: Costs, keep: Sequence[Indices]) -> Costs:
        if costs.shape == tuple(indices.size for indices in keep):
            return costs
        key = (identity(costs), *[indices.tobytes() for indices in keep])
        if key not in self._cut:
            rows, *columns = keep
            selected = costs[rows]
            self._cut[key] = selected.take(columns[0], axis=1) if columns else selected
        return self._cut[key]


def _undominated(costs: Costs, matrices: Sequence[Costs]) -> NDArray[np.bool_]:
    """Return a mask of the choices not always beaten by one choice, seemingly the best."""
    seen = [matrix[:, :: max(1, matrix.shape[1] // SEEN)] for matrix in matrices]
    best = int(np.argmin(costs + sum(matrix.max(axis=1) for matrix in seen)))
    scale = sum((np.abs(matrix).max() for matrix in seen), np.abs(costs).max())
    kept: NDArray[np.bool_] = _lead(costs, seen, best, slice(None)) <= ROUNDING * scale
    losing = np.flatnonzero(~kept)
    if losing.size:
        kept[losing] = _lead(costs, matrices, best, losing) <= ROUNDING * scale
    return kept


def _lead(costs: Costs, matrices: Sequence[Costs], best: int, losing: Indices | slice) -> Costs:
    """Return the least advantage of one choice over each of some others."""
    least = [(matrix[losing] - matrix[best]).min(axis=1) for matrix in matrices]
    return np.asarray(costs[losing] - costs[best] + sum(least))
