"""Choices that no optimum takes, found before elimination.

Idea: dead-end elimination, as protein design has it (Goldstein, Biophysical Journal 66, 1994). At a node,
choice y always beats choice x where
``node[x] - node[y] + sum over edges of (min over z of (edge[x, z] - edge[y, z])) > 0``,
that is whatever the neighbours choose; which is so whenever the least that x could cost exceeds the most that y
could. Compared is with one y, which seems the best from a few z. What leaves a node tightens the bounds of its
neighbours, so rounds follow while they pay.
Cost: at most two looks at every entry a round; nodes and edges of the same arrays are looked at once.
Guarantee: strictly worse choices leave and nothing else, by more than rounding, so every optimum stays.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

Indices = NDArray[np.intp]

PAYS = 1 / 16
"""The fraction of all choices that a round must drop for another to follow."""

ROUNDING = 2.0**-40
"""Largest rounding error of a sum of costs, relative to the largest of them."""

SEEN = 8
"""Choices of a neighbour that are looked at first, about; most choices that stay are told by them."""


class Undominated(NamedTuple):
    """A cost graph without the choices that no optimum takes.

    Attributes:
        problem: the remaining cost graph.
        kept: for each node the choices that are left, as it numbered them.
    """

    problem: CostGraph
    kept: tuple[Indices, ...]

    def original(self, assignment: Sequence[int]) -> tuple[int, ...]:
        """An assignment to what is left, in the numbers from before."""
        return tuple(int(kept[choice]) for kept, choice in zip(self.kept, assignment, strict=True))


def undominated(problem: CostGraph) -> Undominated:
    """Drop dominated choices of nodes whose edges are whole matrices; the others are left alone."""
    kept: tuple[Indices, ...] = tuple(np.arange(costs.size, dtype=np.intp) for costs in problem.nodes)
    while True:
        left = _survivors(problem)
        before = sum(costs.size for costs in problem.nodes)
        if before - sum(keep.size for keep in left) <= PAYS * before:
            return Undominated(problem, kept)
        kept = tuple(old[keep] for old, keep in zip(kept, left, strict=True))
        problem = _without(problem, left)


def _survivors(problem: CostGraph) -> list[Indices]:
    """Return the choices of each node that are not dominated."""
    around: list[list[tuple[Edge, bool]]] = [[] for _ in problem.nodes]
    for edge in problem.edges:
        around[edge.source].append((edge, True))
        around[edge.target].append((edge, False))
    known: dict[object, Indices] = {}
    found = []
    for costs, ends in zip(problem.nodes, around, strict=True):
        key = (id(costs), *[(id(edge.terms[0]), at_source) for edge, at_source in ends])
        if key not in known:
            sides = [
                edge.costs if at_source else edge.costs.T for edge, at_source in ends if len(edge.terms) == 1
            ]
            whole = len(sides) == len(ends)
            known[key] = np.flatnonzero(_undominated(costs, sides) if whole else np.full(costs.size, True))
        found.append(known[key])
    return found


def _without(problem: CostGraph, left: Sequence[Indices]) -> CostGraph:
    """Return a cost graph of some choices only; equal selections of shared arrays are one array."""
    known: dict[object, Costs] = {}

    def part(costs: Costs, *keep: Indices) -> Costs:
        if costs.size == math.prod(indices.size for indices in keep):
            return costs
        key = (id(costs), *[indices.tobytes() for indices in keep])
        if key not in known:
            known[key] = costs[keep[0]] if len(keep) == 1 else costs[keep[0]].take(keep[1], axis=-1)
        return known[key]

    nodes = [part(costs, keep) for costs, keep in zip(problem.nodes, left, strict=True)]
    edges = [
        Edge(edge.source, edge.target, (part(edge.terms[0], left[edge.source], left[edge.target]),))
        if len(edge.terms) == 1
        else edge
        for edge in problem.edges
    ]
    return CostGraph(nodes=tuple(nodes), edges=tuple(edges))


def _undominated(costs: Costs, sides: Sequence[Costs]) -> NDArray[np.bool_]:
    """Return the choices that one choice of a node, seemingly the best, does not always beat."""
    looks = [costs[:, None], *[side[:, :: max(1, side.shape[1] // SEEN)] for side in sides]]
    starts = list(accumulate([look.shape[1] for look in looks[:-1]], initial=0))
    # Looks at many neighbours are one array, as many small ones take longer.
    seen = np.concatenate(looks, axis=1)
    best = int(np.maximum.reduceat(seen, starts, axis=1).sum(axis=1).argmin())
    scale = np.maximum.reduceat(np.abs(seen).max(axis=0), starts).sum()
    lead = np.minimum.reduceat(seen - seen[best], starts, axis=1).sum(axis=1)
    kept: NDArray[np.bool_] = lead <= ROUNDING * scale
    losing = np.flatnonzero(~kept)
    if losing.size:
        kept[losing] = _lead(costs, sides, best, losing) <= ROUNDING * scale
    return kept


def _lead(costs: Costs, sides: Sequence[Costs], best: int, losing: Indices) -> Costs:
    """By how much one choice is cheaper than some others, at the least."""
    least = [(side[losing] - side[best]).min(axis=1) for side in sides]
    return np.asarray(costs[losing] - costs[best] + sum(least))
