"""The first narrow waist: a graph of choices, as plain numbers.

A node has a vector (the cost of each of its choices), an edge a matrix (the cost of each pair of
choices of its ends). Every search of hypar minimises the sum of the entries that an assignment picks.
Nothing here knows of layers, bytes or machines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import accumulate
from operator import or_
from typing import NamedTuple

import numpy as np

from hypar.errors import ProblemError
from hypar.solve.edge import Costs, Edge, Indices

Digits = tuple[tuple[int, ...], tuple[int, ...]]

PRECISION = 52
"""Bits of a sum of costs: one fewer than those of a float, so that the difference of two sums is exact as well."""


class Link(NamedTuple):
    """An edge without its costs: its ends, and the choices of each at each level."""

    source: int
    target: int
    source_digits: tuple[int, ...]
    target_digits: tuple[int, ...]

    @property
    def entries(self) -> int:
        """Entries of its terms."""
        return sum(x * math.prod(self.target_digits[: at + 1]) for at, x in enumerate(self.source_digits))


@dataclass(frozen=True, eq=False, kw_only=True)
class Structure:
    """A cost graph without its costs: enough to say how large a solver's tables would be; ``structure_of`` returns one of some sizes and links.

    Attributes:
        sizes: how many choices each node has.
        links: the edges.
    """

    sizes: tuple[int, ...]
    links: tuple[Link, ...]

    @cached_property
    def entries(self) -> int:
        """The entries of the cost graph itself: of its vectors, and of the terms of its edges."""
        return sum(self.sizes) + sum([link.entries for link in self.links])

    @cached_property
    def starts(self) -> Indices:
        """The first entry of each node, then of each edge, in one vector of all costs."""
        numbers = [*self.sizes, *[link.entries for link in self.links]]
        return np.array([*accumulate(numbers, initial=0)][:-1], dtype=np.intp)

    def places(self, assignment: Sequence[int]) -> Indices:
        """Return the entry that an assignment, one choice index a node, picks of each node, then of each edge of one term."""
        links = [assignment[own[0]] * self.sizes[own[1]] + assignment[own[1]] for own in self.links]
        return np.asarray(self.starts + np.array([*assignment, *links], dtype=np.intp))


class CostGraph:
    """Choices and what they cost, alone and in pairs.

    Attributes:
        nodes: for each node the cost of each choice, ``[choices]``.
        edges: the cost of pairs; two nodes may be joined more than once.
    """

    def __init__(self, nodes: Iterable[Costs], edges: Iterable[Edge]) -> None:
        """Check numbers once, so that solvers need not.

        Raises:
            ProblemError: a cost is not finite.
        """
        self.nodes, self.edges = tuple(nodes), tuple(edges)
        self._require_finite()

    @cached_property
    def structure(self) -> Structure:
        """The graph without its costs."""
        return structure_of(
            tuple([costs.size for costs in self.nodes]),
            tuple([(edge.source, edge.target) for edge in self.edges]),
            tuple([edge.digits for edge in self.edges]),
        )

    def summable(self) -> CostGraph:
        """Return the graph with its costs rounded so little that all their sums are exact, in any order.

        Every cost becomes a multiple of one power of two, some 2^-52 of the largest sum that there can be, so that
        equal sums tie whichever solver adds them up. Arrays that several nodes or edges share stay shared; a graph
        whose costs are such multiples already, as whole numbers of bytes are, is returned as it is.
        """
        often, distinct = Counter(map(id, self.arrays)), self._distinct()
        largest = [float(np.abs(costs).max()) * often[key] for key, costs in distinct.items()]
        exact = {key: rounded(costs, places_of(math.fsum(largest))) for key, costs in distinct.items()}
        if all((exact[key] == costs).all() for key, costs in distinct.items()):
            return self
        edges = [edge._replace(terms=tuple([exact[id(term)] for term in edge.terms])) for edge in self.edges]
        return CostGraph([exact[id(costs)] for costs in self.nodes], edges)

    def grain(self) -> float:
        """Return the largest power of two that every cost of a summable graph is a multiple of; 0 if all are 0."""
        distinct = self._distinct().values()
        places = places_of(max((float(np.abs(costs).max()) for costs in distinct), default=0.0))
        each = [np.bitwise_or.reduce(np.ldexp(own, places).astype(np.int64), axis=None) for own in distinct]
        bits = reduce(or_, map(int, each), 0)
        return math.ldexp(bits & -bits, -places)

    def joined(self) -> tuple[Edge, ...]:
        """Return one edge for each two nodes that share one, those between the same two added up."""
        found: dict[tuple[int, int], Edge] = {}
        for edge in self.edges:
            ends = (min(edge.source, edge.target), max(edge.source, edge.target))
            found[ends] = found[ends].plus(edge) if ends in found else edge
        return tuple(found.values())

    def cost(self, assignment: Sequence[int]) -> float:
        """The sum that an assignment, one choice index a node, picks."""
        nodes, edges = self.picked(assignment)
        return sum(nodes) + sum(edges)

    def costs_by_node(self, assignment: Sequence[int]) -> tuple[float, ...]:
        """Return the cost that an assignment picks of every node, with the edges from earlier nodes."""
        nodes, edges = self.picked(assignment)
        for link, cost in zip(self.structure.links, edges, strict=True):
            nodes[max(link.source, link.target)] += cost
        return tuple(nodes)

    def picked(self, assignment: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the costs that an assignment picks, those of the nodes and those of the edges."""
        nodes = [float(costs[choice]) for costs, choice in zip(self.nodes, assignment, strict=True)]
        return nodes, [edge.at(assignment[edge.source], assignment[edge.target]) for edge in self.edges]

    @property
    def arrays(self) -> list[Costs]:
        """The costs of each node, and the terms of each edge."""
        return [*self.nodes, *(term for edge in self.edges for term in edge.terms)]

    def _distinct(self) -> dict[int, Costs]:
        """Return the arrays by their ``id``, those that several nodes or edges share once."""
        return {id(costs): costs for costs in self.arrays}

    def _require_finite(self) -> None:
        """Refuse the first node or edge with NaN or an infinity, which a sum never loses; a sum may overflow without."""
        if all(math.isfinite(costs.sum()) for costs in self._distinct().values()):
            return
        named = [(f"node {at}", (costs,)) for at, costs in enumerate(self.nodes)]
        for what, arrays in named + [(f"edge {at}", edge.terms) for at, edge in enumerate(self.edges)]:
            if not all(np.isfinite(costs).all() for costs in arrays):
                raise ProblemError(f"{what}: every cost must be a finite number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The result of a solver.

    Attributes:
        assignment: one choice index a node.
        cost: the sum that it picks.
        bound: a lower bound on the cost of every assignment; None if the solver states none.
    """

    assignment: tuple[int, ...]
    cost: float
    bound: float | None = None


def places_of(largest: float) -> int:
    """Return the number of binary places to which sums of some magnitude are exact."""
    return PRECISION - math.frexp(largest)[1]


def rounded(costs: Costs, places: int) -> Costs:
    """Return costs, each rounded to a multiple of ``2 ** -places``."""
    return np.ldexp(np.rint(np.ldexp(costs, places)), -places)


@lru_cache(maxsize=64)
def structure_of(
    sizes: tuple[int, ...], ends: tuple[tuple[int, int], ...], digits: tuple[Digits, ...] | None = None
) -> Structure:
    """Return the structure of nodes of some sizes, and of edges between two; ``digits`` are the choices of both at each level, if not all at one."""
    each = [((sizes[one],), (sizes[other],)) for one, other in ends] if digits is None else digits
    links = (Link(*pair, *own) for pair, own in zip(ends, each, strict=True))
    return Structure(sizes=sizes, links=tuple(links))
