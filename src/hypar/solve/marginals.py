"""Lower bounds of all assignments with some choice of a node, by a spanning tree: an edge that it leaves out costs its least."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.edge import Costs

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
    order, above, floor = _spanning(len(nodes), ends, pairs, far=far)

    def between(edge: int, first: int) -> Costs:
        return pairs[edge] if ends[edge][0] == first else pairs[edge].T

    least = [costs.copy() for costs in nodes]
    sent: dict[int, Costs] = {}
    for node in reversed(order):
        if node in above:
            other, edge = above[node]
            sent[node] = (between(edge, other) + least[node]).min(axis=1)
            least[other] += sent[node]
    roots = {node: float(least[node].min()) for node in order if node not in above}
    whole = sum(roots.values()) + floor
    own: dict[int, float] = {}
    for node in order:
        if node in above:
            other, edge = above[node]
            rest = least[other] - sent[node]
            least[node] = least[node] + (between(edge, node) + rest).min(axis=1)
            own[node] = own[other]
        else:
            own[node] = whole - roots[node]
    return [costs + own[node] for node, costs in enumerate(least)]


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
            floor += least.setdefault(id(pairs[at]), float(pairs[at].min()))
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
