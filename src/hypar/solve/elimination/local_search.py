"""Local search: improvement of an assignment by exchanging the choices of one node or of two neighbours.

Idea: each node takes its best choice given its neighbours' (iterated conditional modes), then each pair of adjacent
nodes takes its best pair of choices, until no exchange gains. The cost of every choice of every node, given the other
nodes' choices, is stored and updated with each exchange.
Source: Besag, On the statistical analysis of dirty pictures, Journal of the Royal Statistical Society B 48, 1986.
Cost: a sweep minimises over every edge once, digit by digit; sweeps end when the allowed work is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.edge import entries_computed
from hypar.solve.elimination.reparametrisation import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs, Edge


class LocalSearch:
    """Local search on a summable cost graph, from one or more assignments."""

    def __init__(self, problem: CostGraph, work: int) -> None:
        """Limit the work of all searches together, in table entries."""
        self._problem = problem
        self._edges = problem.joined()
        self._around: list[list[Edge]] = [[] for _ in problem.nodes]
        for edge in self._edges:
            self._around[edge.source].append(edge)
            self._around[edge.target].append(edge)
        self._work = work

    def improved(self, start: Sequence[int]) -> tuple[int, ...]:
        """Improve an assignment until no exchange gains or the work is used up."""
        found = list(start)
        beside = [self._beside(node, found) for node in range(len(found))]
        gained = True
        while gained and self._work > 0:
            ones = [self._exchange_one(found, beside, node) for node in range(len(found))]
            twos = [self._work > 0 and self._exchange_two(found, beside, edge) for edge in self._edges]
            gained = any(ones) or any(twos)
        return tuple(found)

    def _beside(self, node: int, found: Sequence[int]) -> Costs:
        """Return the cost of each choice of a node, given its neighbours' choices."""
        self._work -= OVERHEAD * len(self._around[node])
        total = self._problem.nodes[node].copy()
        for edge in self._around[node]:
            at_source = edge.source == node
            total += edge.of_target(found[edge.target]) if at_source else edge.of_source(found[edge.source])
        return total

    def _set(self, found: list[int], beside: list[Costs], node: int, choice: int) -> None:
        """Change a node's choice; sums are exact, so costs are updated in place without loss."""
        self._work -= OVERHEAD * len(self._around[node])
        before, found[node] = found[node], choice
        for edge in self._around[node]:
            if edge.source == node:
                beside[edge.target] += edge.of_source(choice) - edge.of_source(before)
            else:
                beside[edge.source] += edge.of_target(choice) - edge.of_target(before)

    def _exchange_one(self, found: list[int], beside: list[Costs], node: int) -> bool:
        """Give a node its best choice; return whether the cost falls."""
        costs = beside[node]
        best = int(costs.argmin())
        gains = bool(costs[best] < costs[found[node]])
        if gains:
            self._set(found, beside, node, best)
        return gains

    def _exchange_two(self, found: list[int], beside: list[Costs], edge: Edge) -> bool:
        """Give the ends of an edge their best pair of choices; return whether the cost falls."""
        a, b = edge.source, edge.target
        self._work -= OVERHEAD + entries_computed(
            tuple(len(term) for term in edge.terms), tuple(term.shape[2] for term in edge.terms)
        )
        of_a = beside[a] - edge.of_target(found[b])
        of_b = beside[b] - edge.of_source(found[a])
        costs = edge.least_over_source(of_a) + of_b
        best = int(costs.argmin())
        gains = bool(costs[best] < beside[a][found[a]] + of_b[found[b]])
        if gains:
            self._set(found, beside, b, best)
            self._set(found, beside, a, int((of_a + edge.of_target(best)).argmin()))
        return gains
