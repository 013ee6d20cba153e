"""Local search: an assignment made better by exchanging the choices of one node or of two neighbours.

Idea: each node takes its best choice beside its neighbours' (iterated conditional modes), then each two nodes that
share an edge their best pair, until nothing is gained. What every choice of every node costs beside the others'
choices is kept and brought up to date with each exchange.
Source: Besag, On the statistical analysis of dirty pictures, Journal of the Royal Statistical Society B 48, 1986.
Cost: a sweep minimises over every edge once, digit by digit; sweeps end with the work that they may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.edge import entries_computed
from hypar.solve.elimination.reparametrisation import OVERHEAD
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs, Edge


class LocalSearch:
    """Assignments to a summable cost graph, made better one after another."""

    def __init__(self, problem: CostGraph, work: int) -> None:
        """Search with at most some work, in table entries, for all assignments together."""
        self._problem = problem
        self._edges = problem.joined()
        self._around: list[list[Edge]] = [[] for _ in problem.nodes]
        for edge in self._edges:
            self._around[edge.source].append(edge)
            self._around[edge.target].append(edge)
        self._work = work

    def improved(self, start: Sequence[int]) -> tuple[int, ...]:
        """Return an assignment that costs no more: no exchange makes it better, unless work ran out."""
        found = list(start)
        if self._work <= 0:
            return tuple(found)
        beside = [self._beside(node, found) for node in range(len(found))]
        gained = True
        while gained and self._work > 0:
            ones = [self._exchange_one(found, beside, node) for node in range(len(found))]
            twos = [self._work > 0 and self._exchange_two(found, beside, edge) for edge in self._edges]
            gained = any(ones) or any(twos)
        return tuple(found)

    def _beside(self, node: int, found: Sequence[int]) -> Costs:
        """Return the cost of each choice of a node beside its neighbours' choices."""
        self._work -= sum(OVERHEAD * len(edge.terms) for edge in self._around[node])
        total = self._problem.nodes[node].copy()
        for edge in self._around[node]:
            at_source = edge.source == node
            total += edge.of_target(found[edge.target]) if at_source else edge.of_source(found[edge.source])
        return total

    def _set(self, found: list[int], beside: list[Costs], node: int, choice: int) -> None:
        """Give a node another choice; sums are exact, so that nothing is lost by changing them in place."""
        self._work -= sum(2 * OVERHEAD * len(edge.terms) for edge in self._around[node])
        before, found[node] = found[node], choice
        for edge in self._around[node]:
            if edge.source == node:
                beside[edge.target] += edge.of_source(choice) - edge.of_source(before)
            else:
                beside[edge.source] += edge.of_target(choice) - edge.of_target(before)

    def _exchange_one(self, found: list[int], beside: list[Costs], node: int) -> bool:
        """Give a node its best choice; return whether that gains."""
        costs = beside[node]
        best = int(costs.argmin())
        gains = bool(costs[best] < costs[found[node]])
        if gains:
            self._set(found, beside, node, best)
        return gains

    def _exchange_two(self, found: list[int], beside: list[Costs], edge: Edge) -> bool:
        """Give the ends of an edge their best pair; return whether that gains."""
        a, b = edge.source, edge.target
        checkpoint()
        self._work -= 3 * OVERHEAD * len(edge.terms) + entries_computed(
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
