"""Lower bounds by reparametrisation (TRW-S): messages between nodes, stored as vectors; no edge's matrix is built.

Idea: a message moves costs from an edge to one of its ends without changing any assignment's cost. In a pass forward
and one back, each node adds up its messages, divides the sum equally among the edges ahead, and sends to each choice
of the other end the least remaining cost. The sum of all minima is a lower bound.
Source: sequential tree-reweighted message passing (TRW-S), Kolmogorov, IEEE PAMI 28, 2006; its bound is at most the
value of the linear relaxation over pairs, which is the optimum on trees.
Cost: a round minimises over every edge twice, digit by digit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.edge import entries_computed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.solve.cost_graph import CostGraph, Link
    from hypar.solve.edge import Costs, Edge

OVERHEAD = 2**12
"""Overhead of one pass over an edge, in table entries."""

PAYS = 1e-4
"""Fraction by which a round must raise the bound to start another."""


class _End(NamedTuple):
    """One end of an edge, seen from the node there."""

    edge: Edge
    other: int
    into: list[Costs]
    at_source: bool

    def gathered(self) -> Costs:
        """Return the message to the node."""
        return self.into[0 if self.at_source else 1]

    def send(self, costs: Costs) -> float:
        """Send the minimum over the node's choices to the other end; return the least entry, subtracted from the message."""
        least = self.edge.least_over_source if self.at_source else self.edge.least_over_target
        message = least(costs)
        lowest = float(message.min())
        self.into[1 if self.at_source else 0] = message - lowest
        return lowest

    def beside(self, choice: int) -> Costs:
        """Return the edge's costs over the node's choices, given the other end's."""
        return self.edge.of_target(choice) if self.at_source else self.edge.of_source(choice)


class Messages:
    """The messages of a cost graph."""

    def __init__(self, problem: CostGraph) -> None:
        """Start with all messages zero."""
        self._nodes = problem.nodes
        self._ends: list[list[_End]] = [[] for _ in problem.nodes]
        for edge in problem.joined():
            into = [np.zeros(problem.nodes[node].size) for node in (edge.source, edge.target)]
            self._ends[edge.source].append(_End(edge, edge.target, into, at_source=True))
            self._ends[edge.target].append(_End(edge, edge.source, into, at_source=False))

    def round(self) -> float:
        """Send messages forward and back; return the greater of the two lower bounds."""
        forth = range(len(self._nodes))
        return max(self._sweep(forth, 1), self._sweep(reversed(forth), -1))

    def choices(self) -> list[int]:
        """Return an assignment: each node's best choice given earlier nodes' choices and later nodes' messages."""
        found: list[int] = []
        for node, ends in enumerate(self._ends):
            costs = self._nodes[node] + sum(
                end.beside(found[end.other]) if end.other < node else end.gathered() for end in ends
            )
            found.append(int(costs.argmin()))
        return found

    def _sweep(self, order: Iterable[int], onward: int) -> float:
        """Send messages in one direction; return the resulting lower bound."""
        bound = []
        for node in order:
            ends = self._ends[node]
            ahead = [end for end in ends if (end.other - node) * onward > 0]
            fraction = 1 / max(len(ahead), len(ends) - len(ahead), 1)
            gathered = self._nodes[node] + sum(end.gathered() for end in ends)
            shared = fraction * gathered
            bound += [end.send(shared - end.gathered()) for end in ahead]
            bound.append(float((gathered - len(ahead) * shared).min()))
        return math.fsum(bound)


def work_of_round(links: Sequence[Link]) -> int:
    """Return the work of a round in table entries, including the overhead of each pass."""
    digits = [(link.source_digits, link.target_digits) for link in links]
    return sum(2 * OVERHEAD + entries_computed(*pair) + entries_computed(*pair[::-1]) for pair in digits)
