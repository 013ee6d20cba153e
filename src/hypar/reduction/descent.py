"""Assignments made better by exchanging choices.

Idea: each node takes its best choice beside its neighbours' (iterated conditional modes), then each two nodes that
share an edge their best pair, until nothing is gained.
Source: Besag, On the statistical analysis of dirty pictures, Journal of the Royal Statistical Society B 48, 1986.
Cost: one look at every entry a sweep.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.edge import Costs
    from hypar.problem import CostGraph, Edge

MOST_SWEEPS = 100
"""Through all nodes and edges, so that rounding cannot make an exchange and its reverse both gain forever."""


def descended(
    problem: CostGraph, starts: Iterable[Sequence[int]], enough: float = -math.inf
) -> tuple[int, ...]:
    """The best of some assignments, each made better first; none is tried after one that costs little enough.

    Raises:
        ValueError: there are no assignments.
    """
    around: list[list[Edge]] = [[] for _ in problem.nodes]
    for edge in problem.edges:
        around[edge.source].append(edge)
        around[edge.target].append(edge)
    found = []
    for start in starts:
        better = _descended(problem, around, start)
        found.append((problem.cost(better), better))
        if found[-1][0] <= enough:
            break
    return min(found)[1]


def _descended(problem: CostGraph, around: Sequence[Sequence[Edge]], start: Sequence[int]) -> tuple[int, ...]:
    """An assignment that no exchange at a node or an edge makes better, or nearly so; it costs no more."""
    found = list(start)
    for _ in range(MOST_SWEEPS):
        gains = sum(_exchange_one(problem, around, found, node) for node in range(len(found)))
        gains += sum(_exchange_two(problem, around, found, edge) for edge in problem.edges)
        if not gains:
            break
    return min(tuple(start), tuple(found), key=problem.cost)


def _exchange_one(problem: CostGraph, around: Sequence[Sequence[Edge]], found: list[int], node: int) -> bool:
    """Give a node its best choice; whether that gains."""
    costs = _beside(problem, around, found, node, node)
    best = int(costs.argmin())
    gained = bool(costs[best] < costs[found[node]])
    found[node] = best if gained else found[node]
    return gained


def _exchange_two(problem: CostGraph, around: Sequence[Sequence[Edge]], found: list[int], edge: Edge) -> bool:
    """Give the ends of an edge their best pair; whether that gains."""
    a, b = edge.source, edge.target
    costs = _beside(problem, around, found, a, b)[:, None] + _beside(problem, around, found, b, a)
    for joining in around[a]:
        if b in (joining.source, joining.target):
            costs = costs + (joining.costs if joining.source == a else joining.costs.T)
    best = np.unravel_index(int(costs.argmin()), costs.shape)
    gained = bool(costs[best] < costs[found[a], found[b]])
    if gained:
        found[a], found[b] = int(best[0]), int(best[1])
    return gained


def _beside(
    problem: CostGraph, around: Sequence[Sequence[Edge]], found: Sequence[int], node: int, but: int
) -> Costs:
    """What each choice of a node costs beside those of its neighbours, one of them left out."""
    total = problem.nodes[node].copy()
    for edge in around[node]:
        if edge.source == node and edge.target != but:
            total += edge.of_target(found[edge.target])
        elif edge.target == node and edge.source != but:
            total += edge.of_source(found[edge.source])
    return total
