"""Lower bounds of all assignments with some choice of a node, by a spanning tree: an edge that it leaves out costs its least.

Messages are computed less their least entry. Those of equal parts of a network, as of the blocks of a transformer, are then the
same after a few parts, and are computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hypar.solve.edge import Costs

    Kept = slice | NDArray[np.bool_]

Ends = tuple[int, int]
"""The two nodes of an edge."""


def marginals(
    nodes: Sequence[Costs], ends: Sequence[Ends], pairs: Sequence[Costs], *, far: bool
) -> list[Costs]:
    """Return for each choice of each node a lower bound of every assignment with it.

    Args:
        nodes: the costs of each node, ``[choices]``.
        ends: the nodes of each edge.
        pairs: the costs of each edge, ``[choices of the first node, choices of the second]``.
        far: whether edges between nodes that are far apart come into the tree first.
    """
    return _Spanned(nodes, ends, pairs, far=far).marginals()


def bound(nodes: Sequence[Costs], ends: Sequence[Ends], pairs: Sequence[Costs]) -> float:
    """Return the least of all marginals, without those of single nodes."""
    return _Spanned(nodes, ends, pairs, far=False).whole


class _Spanned:
    """The least costs of the branches of a spanning tree.

    Attributes:
        whole: the lower bound of all assignments.
    """

    def __init__(
        self, nodes: Sequence[Costs], ends: Sequence[Ends], pairs: Sequence[Costs], *, far: bool
    ) -> None:
        self.pairs, self.ends = pairs, ends
        self.order, self.above, floor = _spanning(len(nodes), ends, pairs, far=far)
        self.known: dict[object, Costs] = {}
        self.least = [costs.copy() for costs in nodes]
        self.sent: dict[int, Costs] = {}
        self.whole = floor
        for node in reversed(self.order):
            lowest = float(self.least[node].min())
            self.least[node] -= lowest
            self.whole += lowest
            if node in self.above:
                other, edge = self.above[node]
                self.sent[node] = self._through(edge, other, self.least[node])
                self.least[other] += self.sent[node]

    def marginals(self) -> list[Costs]:
        """Return the marginals of each node."""
        found = self.least
        for node in self.order:
            if node in self.above:
                other, edge = self.above[node]
                found[node] = found[node] + self._through(edge, node, found[other] - self.sent[node])
        return [costs + self.whole for costs in found]

    def _through(self, edge: int, first: int, costs: Costs) -> Costs:
        """Return the least costs of one end of an edge, with those of the other end."""
        turned = self.ends[edge][0] != first
        key = (id(self.pairs[edge]), turned, costs.tobytes())
        if key not in self.known:
            pairs = self.pairs[edge].T if turned else self.pairs[edge]
            self.known[key] = (pairs + costs).min(axis=1)
        return self.known[key]


def _spanning(
    nodes: int, ends: Sequence[Ends], pairs: Sequence[Costs], *, far: bool
) -> tuple[list[int], dict[int, tuple[int, int]], float]:
    """Return the nodes of a spanning forest from its roots on, the neighbour and edge of each, and the cost of the others."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    around: list[list[tuple[int, int]]] = [[] for _ in parent]
    floor = 0.0
    span = {at: abs(source - target) for at, (source, target) in enumerate(ends)}
    least: dict[int, float] = {}
    for at in sorted(span, key=lambda at: -span[at] if far else span[at]):
        source, target = ends[at]
        tops = root(source), root(target)
        if tops[0] != tops[1]:
            parent[tops[0]] = tops[1]
            around[source].append((target, at))
            around[target].append((source, at))
        else:
            if id(pairs[at]) not in least:
                least[id(pairs[at])] = float(pairs[at].min())
            floor += least[id(pairs[at])]
    order: list[int] = []
    above: dict[int, tuple[int, int]] = {}
    seen: set[int] = set()
    for first in range(nodes):
        todo = [] if first in seen else [first]
        seen.add(first)
        while todo:
            node = todo.pop()
            order.append(node)
            for other, at in around[node]:
                if other not in seen:
                    seen.add(other)
                    above[other] = (node, at)
                    todo.append(other)
    return order, above, floor
