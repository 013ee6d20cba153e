"""Node and edge elimination, the two rules of DeePa.

Source: Jia et al., Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks, ICML 2018.
Edges are directed, like tensors. Cost: linear in edges, times the logarithm of the number of nodes.
Guarantee: neither rule changes the optimum.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.solve.cost_graph import Structure

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RuleStep:
    """One application of a rule.

    Attributes:
        kind: ``node`` replaces a node between two edges by one edge; ``edge`` merges two parallel edges.
        nodes: source, node and target of an eliminated node; source and target of merged edges.
    """

    kind: Literal["node", "edge"]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The result of the two rules on a graph.

    Attributes:
        steps: the applications, in order.
        nodes: the remaining nodes.
        edges: source and target of the remaining edges.
    """

    steps: tuple[RuleStep, ...]
    nodes: tuple[int, ...]
    edges: tuple[Pair, ...]


def reduced(structure: Structure) -> Reduction:
    """Apply the two rules until neither applies: parallel edges first, then the node of the lowest index.

    Examples:
        >>> from hypar.solve.cost_graph import Link, Structure
        >>> pairs = [(0, 1), (0, 2), (1, 3), (2, 3)]
        >>> diamond = Structure(sizes=(2,) * 4, links=tuple(Link(a, b, (2,), (2,)) for a, b in pairs))
        >>> found = reduced(diamond)
        >>> [(step.kind, step.nodes) for step in found.steps]
        [('node', (0, 1, 3)), ('node', (0, 2, 3)), ('edge', (0, 3))]
        >>> found.nodes
        (0, 3)
    """
    edges = _Edges(structure)
    steps = [RuleStep("edge", pair) for pair in edges.doubled]
    gone = set()
    waiting = [node for node in range(len(structure.sizes)) if edges.between_two(node)]
    while waiting:
        node = heapq.heappop(waiting)
        if not edges.between_two(node):
            continue
        gone.add(node)
        source, target = edges.remove(node)
        steps.append(RuleStep("node", (source, node, target)))
        if edges.add(source, target):
            steps.append(RuleStep("edge", (source, target)))
            for end in (source, target):
                heapq.heappush(waiting, end)
    nodes = tuple(node for node in range(len(structure.sizes)) if node not in gone)
    return Reduction(steps=tuple(steps), nodes=nodes, edges=tuple(sorted(edges)))


class _Edges:
    """Directed edges, at most one for each ordered pair of nodes; ``doubled`` lists the merged ones."""

    def __init__(self, structure: Structure) -> None:
        self.into: list[set[int]] = [set() for _ in structure.sizes]
        self.out_of: list[set[int]] = [set() for _ in structure.sizes]
        self.doubled = [
            (link.source, link.target) for link in structure.links if self.add(link.source, link.target)
        ]

    def __iter__(self) -> Iterator[Pair]:
        return ((source, target) for source, targets in enumerate(self.out_of) for target in targets)

    def add(self, source: int, target: int) -> bool:
        """Add an edge; return whether it was there already."""
        same = target in self.out_of[source]
        self.out_of[source].add(target)
        self.into[target].add(source)
        return same

    def between_two(self, node: int) -> bool:
        """Return whether a node has exactly one edge in and one out, at different nodes."""
        into, out_of = self.into[node], self.out_of[node]
        return len(into) == len(out_of) == 1 and into != out_of

    def remove(self, node: int) -> Pair:
        """Remove a node between two edges; return its neighbours."""
        source, target = self.into[node].pop(), self.out_of[node].pop()
        self.out_of[source].discard(node)
        self.into[target].discard(node)
        return source, target
