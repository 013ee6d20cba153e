"""Nodes folded into their neighbours, with the costs.

What touches a node is kept as it is, edges by neighbour and tables by scope, until the node leaves; parallel
edges are added up then. Arrays are never changed, so a step whose inputs are the very same arrays as those of
an earlier one has the same result: equal blocks of a network, which share their arrays, are folded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.problem import CostGraph
    from hypar.reduction.order import Scope, Step


@dataclass(frozen=True, slots=True)
class Taken:
    """What touched a node when it left.

    Attributes:
        node: the node.
        edges: its edges.
        tables: its costs, alone and together with several other nodes.
    """

    node: int
    edges: list[Edge]
    tables: list[tuple[Scope, Costs]]

    def best(self, assignment: Sequence[int]) -> int:
        """The node's first best choice, its neighbours as assigned."""
        beside = [_beside(edge, self.node, assignment) for edge in self.edges]
        sliced = [_slice(scope, table, self.node, assignment) for scope, table in self.tables]
        return int(np.argmin(sum([*beside, *sliced])))


class Folding:
    """A cost graph whose nodes leave one by one."""

    def __init__(self, problem: CostGraph) -> None:
        """Bring all costs in."""
        self._sizes = [costs.size for costs in problem.nodes]
        self._edges: list[dict[int, list[Edge]]] = [{} for _ in problem.nodes]
        self._tables: list[dict[Scope, list[Costs]]] = [
            {(node,): [costs]} for node, costs in enumerate(problem.nodes)
        ]
        self._done: dict[object, Costs] = {}
        for edge in problem.edges:
            self._join(edge)

    def fold(self, step: Step) -> Taken:
        """Let a step's node leave; the table that it leaves takes its place."""
        taken = self._take(step.node)
        if step.scope:
            key = _inputs(step, taken)
            if key not in self._done:
                self._done[key] = _minimise(step, self._sizes, taken)
            self._add(step.scope, self._done[key])
        return taken

    def _join(self, edge: Edge) -> None:
        """Bring an edge in."""
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            self._edges[here].setdefault(there, []).append(edge)

    def _add(self, scope: Scope, table: Costs) -> None:
        """Bring a table in: an edge where it is over two nodes."""
        if len(scope) == 2:
            self._join(Edge.dense(scope[0], scope[1], table))
            return
        for node in scope:
            self._tables[node].setdefault(scope, []).append(table)

    def _take(self, node: int) -> Taken:
        """Everything that touches a node, taken out."""
        edges, tables = self._edges[node], self._tables[node]
        for other in edges:
            del self._edges[other][node]
        for scope in tables:
            for other in scope:
                if other != node:
                    del self._tables[other][scope]
        return Taken(
            node,
            [edge for parallel in edges.values() for edge in parallel],
            [(scope, table) for scope, like in tables.items() for table in like],
        )


def eliminated(problem: CostGraph, steps: Iterable[Step]) -> tuple[int, ...]:
    """The best assignment: all nodes leave, then each takes its best choice, the last first."""
    folding = Folding(problem)
    taken = [folding.fold(step) for step in steps]
    assignment = [0] * len(problem.nodes)
    for each in reversed(taken):
        assignment[each.node] = each.best(assignment)
    return tuple(assignment)


def identity(costs: Costs) -> object:
    """The memory that an array shows, and how: arrays that agree in it are equal as long as it is held."""
    return costs.__array_interface__["data"][0], costs.shape, costs.strides


def _inputs(step: Step, taken: Taken) -> object:
    """What a step's result follows from: arrays, and how they lie to the node and its scope."""
    place = {near: at for at, near in enumerate((step.node, *step.scope))}
    edges = [
        (place[edge.source], place[edge.target], *[identity(term) for term in edge.terms])
        for edge in taken.edges
    ]
    tables = [(*[place[near] for near in scope], identity(table)) for scope, table in taken.tables]
    return None if step.over is None else place[step.over], tuple(edges), tuple(tables)


def _minimise(step: Step, sizes: Sequence[int], taken: Taken) -> Costs:
    """The table over a step's scope that is left when its node takes its best choice."""
    over = [edge for edge in taken.edges if step.over in (edge.source, edge.target)]
    rest = tuple(near for near in step.scope if near != step.over)
    dims = (step.node, *rest)
    total = np.zeros([sizes[near] for near in dims])
    for edge in taken.edges:
        if step.over not in (edge.source, edge.target):
            total += spread((edge.source, edge.target), edge.costs, dims)
    for scope, table in taken.tables:
        total += spread(scope, table, dims)
    if not over:
        return np.asarray(total.min(axis=0))
    first = reduce(Edge.plus, over)
    table = first.least_over_source(total) if first.source == step.node else first.least_over_target(total)
    return np.moveaxis(table, 0, step.scope.index(step.over or 0))


def spread(scope: Scope, table: Costs, dims: Scope) -> Costs:
    """A table over some nodes, its axes those of ``dims``, one entry long where it does not name the node."""
    order = sorted(range(len(scope)), key=lambda at: dims.index(scope[at]))
    sizes = dict(zip(scope, table.shape, strict=True))
    return table.transpose(order).reshape([sizes.get(near, 1) for near in dims])


def _beside(edge: Edge, node: int, assignment: Sequence[int]) -> Costs:
    """An edge's costs over one end, the other as assigned."""
    if edge.source == node:
        return edge.of_target(assignment[edge.target])
    return edge.of_source(assignment[edge.source])


def _slice(scope: Scope, table: Costs, node: int, assignment: Sequence[int]) -> Costs:
    """A table's costs over one node, the others as assigned."""
    return table[tuple(slice(None) if near == node else assignment[near] for near in scope)]
