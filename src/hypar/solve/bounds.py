"""Choices that no optimum takes, and lower bounds and assignments of graphs too large to be eliminated.

*Dominance:* dead-end elimination, as protein design has it (Goldstein, Biophysical Journal 66, 1994). At a node,
choice y always beats choice x where
``node[x] - node[y] + sum over edges of (min over z of (edge[x, z] - edge[y, z])) > 0``,
that is whatever the neighbours choose; which is so whenever the least that x could cost exceeds the most that y
could. Compared is with one y, which seems the best from a few z. What leaves a node tightens the bounds of its
neighbours, so rounds follow while they pay.
Cost: at most two looks at every entry a round; nodes and edges of the same arrays are looked at once.
Guarantee: strictly worse choices leave and nothing else, by more than rounding, so every optimum stays.

*Messages,* with vectors alone: no matrix of an edge is ever made whole. A message moves costs from an edge to one of its ends, so that no assignment's cost changes. Forth and back
through the nodes each node gathers its messages, gives equal fractions of its costs to the edges that lead on, and sends
the least that is then left beside each choice of the other end. The sum of all least entries is a lower bound.
Source: sequential tree-reweighted message passing (TRW-S), Kolmogorov, IEEE PAMI 28, 2006; its bound is at most that
of the linear relaxation over pairs, which is the optimum on trees.
Cost: a round minimises over every edge twice, digit by digit as edges of several levels do.

*Local search:* an assignment made better by exchanging the choices of one node or of two neighbours:
each node takes its best choice beside its neighbours' (iterated conditional modes), then each two nodes that
share an edge their best pair, until nothing is gained. What every choice of every node costs beside the others'
choices is kept and brought up to date with each exchange.
Source: Besag, On the statistical analysis of dirty pictures, Journal of the Royal Statistical Society B 48, 1986.
Cost: a sweep minimises over every edge once, digit by digit; sweeps end with the work that they may do.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Costs, Edge, entries_computed
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.solve.cost_graph import Link

Indices = NDArray[np.intp]

DROPPING_PAYS = 1 / 16
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
        if before - sum(keep.size for keep in left) <= DROPPING_PAYS * before:
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


OVERHEAD = 2**13
"""Entries that could be computed while one look at a term of an edge is set up."""

PAYS = 1e-5
"""The relative amount by which a round must raise the bound for another to follow."""


class _End(NamedTuple):
    """One end of an edge, as the node there sees it."""

    edge: Edge
    other: int
    into: list[Costs]
    at_source: bool

    def gathered(self) -> Costs:
        """Return the message to the node."""
        return self.into[0 if self.at_source else 1]

    def send(self, costs: Costs) -> float:
        """Send the least of some costs of the node to the other end; return the least of the message, taken off it."""
        least = self.edge.least_over_source if self.at_source else self.edge.least_over_target
        message = least(costs)
        lowest = float(message.min())
        self.into[1 if self.at_source else 0] = message - lowest
        return lowest

    def beside(self, choice: int) -> Costs:
        """Return the edge's costs over the node's choices, the other end's chosen."""
        return self.edge.of_target(choice) if self.at_source else self.edge.of_source(choice)


class Messages:
    """The messages of a cost graph."""

    def __init__(self, problem: CostGraph) -> None:
        """Start without any cost moved."""
        self._nodes = problem.nodes
        self._ends: list[list[_End]] = [[] for _ in problem.nodes]
        for edge in problem.joined():
            into = [np.zeros(problem.nodes[node].size) for node in (edge.source, edge.target)]
            self._ends[edge.source].append(_End(edge, edge.target, into, at_source=True))
            self._ends[edge.target].append(_End(edge, edge.source, into, at_source=False))

    def round(self) -> float:
        """Send messages forth and back; return the greater of the two lower bounds."""
        forth = range(len(self._nodes))
        return max(self._sweep(forth, 1), self._sweep(reversed(forth), -1))

    def choices(self) -> list[int]:
        """Return an assignment: each node's best choice beside those before it and the messages of those behind."""
        found: list[int] = []
        for node, ends in enumerate(self._ends):
            costs = self._nodes[node] + sum(
                end.beside(found[end.other]) if end.other < node else end.gathered() for end in ends
            )
            found.append(int(costs.argmin()))
        return found

    def _sweep(self, order: Iterable[int], onward: int) -> float:
        """Send messages in one direction; return the lower bound that they give."""
        bound = []
        for node in order:
            checkpoint()
            ends = self._ends[node]
            ahead = [end for end in ends if (end.other - node) * onward > 0]
            part = 1 / max(len(ahead), len(ends) - len(ahead), 1)
            gathered = self._nodes[node] + sum(end.gathered() for end in ends)
            shared = part * gathered
            bound += [end.send(shared - end.gathered()) for end in ahead]
            bound.append(float((gathered - len(ahead) * shared).min()))
        return math.fsum(bound)


def work_of_round(links: Sequence[Link]) -> int:
    """Return the table entries that a round computes, with what it takes to set each look up."""
    sides = [(link.source_digits, link.target_digits) for link in links]
    return sum(
        2 * OVERHEAD * len(side[0]) + entries_computed(*side) + entries_computed(*side[::-1])
        for side in sides
    )


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
