"""The cost graph: choices and their costs as plain numbers.

A node has a vector (the cost of each of its choices), an edge a matrix (the cost of each pair of
choices of its ends). Every search of hypar minimises the sum of the entries that an assignment picks.
The module knows no layers, bytes or machines.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import ProblemError
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PRECISION = 52
"""Bits of a sum of costs: one fewer than in a float, so that the difference of two sums is exact as well."""

BATCH = 2**16
"""Entries checked together."""

__all__ = ["CostGraph", "Costs", "Edge", "Link", "Solution", "Structure"]


class Link(NamedTuple):
    """An edge without its costs.

    Attributes:
        source: index of the first node.
        target: index of the second node.
        source_digits: number of choices of the source at each level.
        target_digits: number of choices of the target at each level.
    """

    source: int
    target: int
    source_digits: tuple[int, ...]
    target_digits: tuple[int, ...]

    @property
    def entries(self) -> int:
        """Number of entries in the edge's terms."""
        total, above = 0, 1
        for x, y in zip(self.source_digits, self.target_digits, strict=True):
            total += x * above * y
            above *= y
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A cost graph without its costs: sufficient for the sizes of a solver's tables.

    Attributes:
        sizes: number of choices of each node.
        links: the edges.
    """

    sizes: tuple[int, ...]
    links: tuple[Link, ...]

    @property
    def entries(self) -> int:
        """Number of entries in the cost graph itself: its vectors and the terms of its edges."""
        return sum(self.sizes) + sum(link.entries for link in self.links)

    def neighbours(self) -> list[set[int]]:
        """Return each node's neighbours, counting only nodes with more than one choice."""
        found: list[set[int]] = [set() for _ in self.sizes]
        for link in self.links:
            if self.sizes[link.source] > 1 < self.sizes[link.target]:
                found[link.source].add(link.target)
                found[link.target].add(link.source)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGraph:
    """The choices of each node, with their costs alone and in pairs.

    Attributes:
        nodes: vector of each node: the cost of each choice, ``[choices]``.
        edges: costs of pairs; several edges may join the same two nodes.

    Raises:
        ProblemError: a node without choices, an edge that does not fit its nodes, a cost that is not finite.
    """

    nodes: tuple[Costs, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        """Check shapes and numbers once, on behalf of all solvers."""
        for index, costs in enumerate(self.nodes):
            if costs.ndim != 1 or not costs.size:
                raise ProblemError(f"node {index}: found costs of shape {costs.shape}; allowed: one or more")
        _require_finite(((index, costs) for index, costs in enumerate(self.nodes)), "node")
        _require_finite(
            ((index, term) for index, edge in enumerate(self.edges) for term in edge.terms), "edge"
        )
        for edge in self.edges:
            ends = (edge.source, edge.target)
            if edge.source == edge.target or not all(0 <= end < len(self.nodes) for end in ends):
                raise ProblemError(f"edge {ends}: its ends must be two of the {len(self.nodes)} nodes")
            _require_fit(edge, (self.nodes[edge.source].size, self.nodes[edge.target].size))

    @property
    def structure(self) -> Structure:
        """The graph without its costs."""
        return Structure(
            sizes=tuple(costs.size for costs in self.nodes),
            links=tuple(
                Link(
                    edge.source,
                    edge.target,
                    tuple([len(term) for term in edge.terms]),
                    tuple([term.shape[2] for term in edge.terms]),
                )
                for edge in self.edges
            ),
        )

    def exponent(self) -> int:
        """Return the binary exponent of the graph's largest possible sum of costs."""
        arrays = self._arrays()
        distinct = {id(costs): costs for costs in arrays}
        largest = np.concatenate([np.zeros(0), *[batch.largest() for batch in _batches(distinct.values())]])
        often = Counter(map(id, arrays))
        return math.frexp(float(largest @ np.array([often[key] for key in distinct], dtype=np.float64)))[1]

    def summable(self, exponent: int | None = None) -> CostGraph:
        """Return the graph with costs rounded slightly, so that every sum of them is exact in any order.

        Every cost becomes a multiple of one power of two, about 2^-52 of the largest sum, so equal sums tie whichever
        solver adds them up. Arrays shared by several nodes or edges stay shared. A graph whose costs are already such
        multiples, for example whole numbers of bytes, is returned unchanged.

        Args:
            exponent: binary exponent of the largest sum. Default: the graph's own.
        """
        places = PRECISION - (self.exponent() if exponent is None else exponent)
        distinct = {id(costs): costs for costs in self._arrays()}
        if all(batch.is_rounded(places) for batch in _batches(distinct.values())):
            return self
        rounded = {
            key: np.ldexp(np.rint(np.ldexp(costs, places)), -places) for key, costs in distinct.items()
        }
        return CostGraph(
            nodes=tuple(rounded[id(costs)] for costs in self.nodes),
            edges=tuple(
                replace(edge, terms=tuple(rounded[id(term)] for term in edge.terms)) for edge in self.edges
            ),
        )

    def grain(self) -> float:
        """Return the largest power of two that divides every cost of a summable graph; 0 if all are 0."""
        distinct = {id(costs): costs for costs in self._arrays()}
        batches = list(_batches(distinct.values()))
        _, exponent = math.frexp(max((float(batch.largest().max()) for batch in batches), default=0.0))
        places = PRECISION - exponent
        bits = 0
        for batch in batches:
            bits |= int(np.bitwise_or.reduce(np.ldexp(batch.entries, places).astype(np.int64)))
        return math.ldexp(bits & -bits, -places)

    def joined(self) -> tuple[Edge, ...]:
        """Return one edge for each joined pair of nodes, with parallel edges added up."""
        found: dict[tuple[int, int], Edge] = {}
        for edge in self.edges:
            ends = (min(edge.source, edge.target), max(edge.source, edge.target))
            found[ends] = found[ends].plus(edge) if ends in found else edge
        return tuple(found.values())

    def _arrays(self) -> list[Costs]:
        """Return every vector and every term, repeated for each node or edge that uses it."""
        return [*self.nodes, *(term for edge in self.edges for term in edge.terms)]

    def cost(self, assignment: Sequence[int]) -> float:
        """Return the cost of an assignment: the sum of the entries at its choices."""
        nodes = sum(float(costs[choice]) for costs, choice in zip(self.nodes, assignment, strict=True))
        return nodes + sum(edge.at(assignment[edge.source], assignment[edge.target]) for edge in self.edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A solver's result.

    Attributes:
        assignment: one choice index for each node.
        cost: the assignment's cost.
        bound: lower bound on the cost of every assignment; None if the solver states none.
    """

    assignment: tuple[int, ...]
    cost: float
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    """Several arrays concatenated, so that many small ones cost one pass.

    Attributes:
        entries: the entries of all arrays.
        starts: the first index of each array.
    """

    entries: Costs
    starts: list[int]

    def largest(self) -> Costs:
        """Return the largest magnitude in each array."""
        return np.asarray(np.maximum.reduceat(np.abs(self.entries), self.starts))

    def is_rounded(self, places: int) -> bool:
        """Return whether every entry is a multiple of ``2 ** -places``."""
        scaled = np.ldexp(self.entries, places)
        return bool((np.rint(scaled) == scaled).all())


def _batches(arrays: Iterable[Costs]) -> Iterator[_Batch]:
    """Group arrays into batches; a large array forms its own."""
    waiting: list[Costs] = []
    size = 0
    for costs in arrays:
        if waiting and size + costs.size > BATCH:
            yield _batch(waiting)
            waiting, size = [], 0
        waiting.append(costs.reshape(-1))
        size += costs.size
    if waiting:
        yield _batch(waiting)


def _batch(arrays: list[Costs]) -> _Batch:
    starts = [0, *itertools.accumulate(costs.size for costs in arrays[:-1])]
    return _Batch(arrays[0] if len(arrays) == 1 else np.concatenate(arrays), starts)


def _require_finite(arrays: Iterable[tuple[int, Costs]], what: str) -> None:
    """Raise if a cost is NaN or infinite; shared arrays are checked once."""
    distinct = {id(costs): (index, costs) for index, costs in arrays}
    if all(math.isfinite(batch.entries.sum()) for batch in _batches(costs for _, costs in distinct.values())):
        return
    for index, costs in distinct.values():
        if not np.isfinite(costs).all():
            raise ProblemError(f"{what} {index}: every cost must be a finite number")


def _require_fit(edge: Edge, sizes: tuple[int, int]) -> None:
    """Raise unless the terms form a matrix over the choices of both ends."""
    rows, columns = 1, 1
    for term in edge.terms:
        if term.ndim != 3 or term.shape[1] != columns:
            raise ProblemError(f"edge {(edge.source, edge.target)}: found a term of shape {term.shape}")
        rows, columns = rows * term.shape[0], columns * term.shape[2]
    if (rows, columns) != sizes:
        raise ProblemError(
            f"edge {(edge.source, edge.target)}: found costs of shape {(rows, columns)}; allowed: {sizes}"
        )
