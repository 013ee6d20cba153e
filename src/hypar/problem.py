"""The first narrow waist: a graph of choices, as plain numbers.

A node has a vector (the cost of each of its choices), an edge a matrix (the cost of each pair of
choices of its ends). Every search of hypar minimises the sum of the entries that an assignment picks.
Nothing here knows of layers, bytes or machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.errors import ProblemError

if TYPE_CHECKING:
    from collections.abc import Sequence

Costs = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The cost of each pair of choices of two nodes.

    Attributes:
        source: index of the one node.
        target: index of the other.
        costs: ``[choices of source, choices of target]``.
    """

    source: int
    target: int
    costs: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A cost graph without its costs: enough to say how large a solver's tables would be.

    Attributes:
        sizes: how many choices each node has.
        pairs: the two node indices of each edge.
    """

    sizes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def neighbours(self) -> list[set[int]]:
        """The nodes that share an edge with each node."""
        found: list[set[int]] = [set() for _ in self.sizes]
        for source, target in self.pairs:
            found[source].add(target)
            found[target].add(source)
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
        _require_finite(self.nodes, "node")
        _require_finite([edge.costs for edge in self.edges], "edge")
        for edge in self.edges:
            ends = (edge.source, edge.target)
            if edge.source == edge.target or not all(0 <= end < len(self.nodes) for end in ends):
                raise ProblemError(f"edge {ends}: its ends must be two of the {len(self.nodes)} nodes")
            shape = (self.nodes[edge.source].size, self.nodes[edge.target].size)
            if edge.costs.shape != shape:
                raise ProblemError(f"edge {ends}: found costs of shape {edge.costs.shape}; allowed: {shape}")

    @property
    def structure(self) -> Structure:
        """The graph without its costs."""
        return Structure(
            sizes=tuple(costs.size for costs in self.nodes),
            pairs=tuple((edge.source, edge.target) for edge in self.edges),
        )

    def cost(self, assignment: Sequence[int]) -> float:
        """The sum that an assignment, one choice index a node, picks."""
        nodes = sum(costs[choice] for costs, choice in zip(self.nodes, assignment, strict=True))
        edges = sum(edge.costs[assignment[edge.source], assignment[edge.target]] for edge in self.edges)
        return float(nodes + edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What a solver found.

    Attributes:
        assignment: one choice index a node.
        cost: the sum that it picks.
    """

    assignment: tuple[int, ...]
    cost: float


def _require_finite(arrays: Sequence[Costs], what: str) -> None:
    """Refuse NaN and infinities, which a sum never loses; arrays that several edges share are looked at once."""
    seen: set[int] = set()
    for index, costs in enumerate(arrays):
        if id(costs) not in seen and not math.isfinite(np.add.reduce(costs, axis=None)):
            raise ProblemError(f"{what} {index}: every cost must be a finite number")
        seen.add(id(costs))
