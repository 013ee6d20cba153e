"""Costs moved between edges and nodes, so that the sum of the least entries rises while no assignment's cost changes.

Idea: a node gathers from each of its edges what each of its choices costs there at least, and gives equal parts of
it to the edges that lead on; forth through the nodes, then back. The sum of the least entries of all vectors and
matrices is a lower bound, and never falls.
Source: sequential reweighted message passing for pairs, Kolmogorov, IEEE PAMI 37, 2015, which is TRW-S there.
Cost: a few looks at every entry a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.problem import CostGraph, Costs

PAYS = 1e-3
"""The part by which a round must raise the bound for another to follow."""


def diffused(problem: CostGraph, rounds: int) -> tuple[list[Costs], list[Costs]]:
    """Vectors of the nodes and whole matrices of the edges, of the same sum for every assignment."""
    nodes = [costs.copy() for costs in problem.nodes]
    edges = [np.array(edge.costs) for edge in problem.edges]
    sides: list[list[tuple[int, Costs]]] = [[] for _ in nodes]
    for edge, costs in zip(problem.edges, edges, strict=True):
        sides[edge.source].append((edge.target, costs))
        sides[edge.target].append((edge.source, costs.T))
    bound = least_sum(nodes, edges)
    for _ in range(rounds):
        for node in range(len(nodes)):
            _pass_on(nodes[node], sides[node], [other > node for other, _ in sides[node]])
        for node in reversed(range(len(nodes))):
            _pass_on(nodes[node], sides[node], [other < node for other, _ in sides[node]])
        before, bound = bound, least_sum(nodes, edges)
        if bound - before <= PAYS * abs(bound):
            break
    return nodes, edges


def least_sum(nodes: Iterable[Costs], edges: Iterable[Costs]) -> float:
    """The sum of the least entries."""
    return float(sum(costs.min() for costs in (*nodes, *edges)))


def _pass_on(costs: Costs, sides: Sequence[tuple[int, Costs]], onward: Sequence[bool]) -> None:
    """Gather what the edges of a node cost at least, and give it to those that lead on; all in place."""
    for _, side in sides:
        least = side.min(axis=1)
        np.subtract(side, least[:, None], out=side)
        costs += least
    ahead = sum(onward)
    if ahead:
        share = costs / max(ahead, len(onward) - ahead)
        for (_, side), leads in zip(sides, onward, strict=True):
            if leads:
                np.add(side, share[:, None], out=side)
        costs -= share * ahead
