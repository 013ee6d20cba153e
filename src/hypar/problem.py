"""The first narrow waist: a graph of choices, as plain numbers.

A node has a vector (the cost of each of its choices), an edge a matrix (the cost of each pair of
choices of its ends). Every search of hypar minimises the sum of the entries that an assignment picks.
Nothing here knows of layers, bytes or machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.edge import Costs, Edge
from hypar.errors import ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CostGraph", "Costs", "Edge", "Link", "Solution", "Structure"]


class Link(NamedTuple):
    """An edge without its costs.

    Attributes:
        source: index of the one node.
        target: index of the other.
        source_digits: choices of the source at each level.
        target_digits: choices of the target at each level.
    """

    source: int
    target: int
    source_digits: tuple[int, ...]
    target_digits: tuple[int, ...]

    @property
    def entries(self) -> int:
        """Entries of its terms."""
        total, above = 0, 1
        for x, y in zip(self.source_digits, self.target_digits, strict=True):
            total += x * above * y
            above *= y
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A cost graph without its costs: enough to say how large a solver's tables would be.

    Attributes:
        sizes: how many choices each node has.
        links: the edges.
    """

    sizes: tuple[int, ...]
    links: tuple[Link, ...]

    @property
    def entries(self) -> int:
        """Entries of the cost graph itself: its vectors and the terms of its edges."""
        return sum(self.sizes) + sum(link.entries for link in self.links)

    def neighbours(self) -> list[set[int]]:
        """The nodes that share an edge with each node."""
        found: list[set[int]] = [set() for _ in self.sizes]
        for link in self.links:
            found[link.source].add(link.target)
            found[link.target].add(link.source)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CostGraph:
    """Choices and what they cost, alone and in pairs.

    Attributes:
        nodes: for each node the cost of each choice, ``[choices]``.
        edges: the cost of pairs; two nodes may be joined more than once.

    Raises:
        ProblemError: a node without choices, an edge that does not fit its nodes, a cost that is not finite.
    """

    nodes: tuple[Costs, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        """Check shapes and numbers once, so that solvers need not."""
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

    def cost(self, assignment: Sequence[int]) -> float:
        """The sum that an assignment, one choice index a node, picks."""
        nodes = sum(float(costs[choice]) for costs, choice in zip(self.nodes, assignment, strict=True))
        return nodes + sum(edge.at(assignment[edge.source], assignment[edge.target]) for edge in self.edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What a solver found.

    Attributes:
        assignment: one choice index a node.
        cost: the sum that it picks.
        bound: what no assignment can cost less than; None where the solver states none.
    """

    assignment: tuple[int, ...]
    cost: float
    bound: float | None = None


def _require_finite(arrays: Iterable[tuple[int, Costs]], what: str) -> None:
    """Refuse NaN and infinities, which a sum never loses; arrays that several edges share are looked at once."""
    seen: set[int] = set()
    for index, costs in arrays:
        if id(costs) not in seen and not math.isfinite(np.add.reduce(costs, axis=None)):
            raise ProblemError(f"{what} {index}: every cost must be a finite number")
        seen.add(id(costs))


def _require_fit(edge: Edge, sizes: tuple[int, int]) -> None:
    """Refuse terms that do not make up a matrix over the choices of both ends."""
    rows, columns = 1, 1
    for term in edge.terms:
        if term.ndim != 3 or term.shape[1] != columns:
            raise ProblemError(f"edge {(edge.source, edge.target)}: found a term of shape {term.shape}")
        rows, columns = rows * term.shape[0], columns * term.shape[2]
    if (rows, columns) != sizes:
        raise ProblemError(
            f"edge {(edge.source, edge.target)}: found costs of shape {(rows, columns)}; allowed: {sizes}"
        )
