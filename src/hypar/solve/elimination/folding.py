"""Elimination of nodes, whose costs are folded into their neighbours.

The edges and tables of a node are stored by neighbour and by scope until the node is eliminated; parallel edges are
added up then. Arrays are never changed, so two steps with identical input arrays have the same result: equal blocks
of a network, which share their arrays, are folded once.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.edge import Costs, Edge, Indices
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.elimination.order import Scope, Step


class Taken(NamedTuple):
    """The costs of a node at its elimination.

    Attributes:
        node: the node.
        scope: its neighbours at that time, in rising order.
        edges: its edges.
        tables: its own costs, and those shared with several other nodes.
    """

    node: int
    scope: Scope
    edges: list[Edge]
    tables: list[tuple[Scope, Costs]]

    def costs(self, at: Sequence[int] | Mapping[int, Indices]) -> Costs:
        """Return the costs of the node's choices, given choices of its scope.

        Args:
            at: the choice, or several choices, of each node of the scope.

        Returns:
            ``[choices]``; ``[choices given, choices]`` for several.
        """
        total: Costs = np.zeros(1)
        for edge in self.edges:
            if edge.source == self.node:
                total = total + edge.of_target(at[edge.target])
            else:
                total = total + edge.of_source(at[edge.source])
        for scope, table in self.tables:
            axis = scope.index(self.node)
            last = table.transpose(*range(axis), *range(axis + 1, table.ndim), axis)
            total = total + last[tuple([at[near] for near in scope if near != self.node])]
        return total


class Folding:
    """A cost graph whose nodes are eliminated one by one."""

    def __init__(self, problem: CostGraph) -> None:
        """Store the costs of all nodes and edges."""
        self._sizes = [costs.size for costs in problem.nodes]
        self._edges: list[dict[int, list[Edge]]] = [{} for _ in problem.nodes]
        self._tables: list[dict[Scope, list[Costs]]] = [
            {(node,): [costs]} for node, costs in enumerate(problem.nodes)
        ]
        self._done: dict[object, Costs] = {}
        self._beside: dict[object, Costs] = {}
        for edge in problem.edges:
            if self._sizes[edge.source] == 1:
                self._add((edge.target,), self._only(edge, 0))
            elif self._sizes[edge.target] == 1:
                self._add((edge.source,), self._only(edge, 1))
            else:
                self._join(edge)

    def fold(self, step: Step) -> Taken:
        """Eliminate a step's node and put the resulting table in its place."""
        checkpoint()
        taken = self._take(step.node, step.scope)
        if step.scope:
            key = _inputs(step, taken)
            if key not in self._done:
                table = _minimise(step, self._sizes, taken)
                self._done[key] = table[:, None, :] if len(step.scope) == 2 else table
            self._add(step.scope, self._done[key])
        return taken

    def _only(self, edge: Edge, end: int) -> Costs:
        """Return an edge's costs at the only choice of one end; equal edges share one array."""
        key = (end, *map(id, edge.terms))
        if key not in self._beside:
            self._beside[key] = edge.of_target(0) if end else edge.of_source(0)
        return self._beside[key]

    def _join(self, edge: Edge) -> None:
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            self._edges[here].setdefault(there, []).append(edge)

    def _add(self, scope: Scope, table: Costs) -> None:
        """Store a table, as the term of an edge if it spans two nodes."""
        if len(scope) == 2:
            self._join(Edge(source=scope[0], target=scope[1], terms=(table,)))
            return
        for node in scope:
            self._tables[node].setdefault(scope, []).append(table)

    def _take(self, node: int, scope: Scope) -> Taken:
        """Remove a node's edges and tables and return them."""
        edges, tables = self._edges[node], self._tables[node]
        for other in edges:
            del self._edges[other][node]
        for named in tables:
            for other in named:
                if other != node:
                    del self._tables[other][named]
        return Taken(
            node,
            scope,
            [edge for parallel in edges.values() for edge in parallel],
            [(named, table) for named, same in tables.items() for table in same],
        )


def identity(costs: Costs) -> object:
    """Return the memory and layout of an array: arrays that agree in both are equal while they exist."""
    return costs.__array_interface__["data"][0], costs.shape, costs.strides


def _inputs(step: Step, taken: Taken) -> object:
    """Return a key for a step's result: its arrays, and their positions relative to the node and its scope.

    Arrays are told apart by object, as all of them exist until the last node is eliminated.
    """
    place = {near: at for at, near in enumerate((step.node, *step.scope))}
    edges = [(place[edge.source], place[edge.target], *map(id, edge.terms)) for edge in taken.edges]
    tables = [(*[place[near] for near in scope], id(table)) for scope, table in taken.tables]
    return None if step.over is None else place[step.over], tuple(edges), tuple(tables)


def _minimise(step: Step, sizes: Sequence[int], taken: Taken) -> Costs:
    """Return the table over a step's scope, minimised over its node's choices."""
    over = [edge for edge in taken.edges if step.over in (edge.source, edge.target)]
    rest = tuple(near for near in step.scope if near != step.over)
    dims = (step.node, *rest)
    beside = [
        ((edge.source, edge.target), edge.costs)
        for edge in taken.edges
        if step.over not in (edge.source, edge.target)
    ]
    total = np.zeros([sizes[near] for near in dims])
    for scope, table in (*beside, *taken.tables):
        total += table if scope == dims else spread(scope, table, dims)
    if not over:
        return np.asarray(total.min(axis=0))
    first = reduce(Edge.plus, over)
    table = first.least_over_source(total) if first.source == step.node else first.least_over_target(total)
    axis = step.scope.index(step.over or 0)
    return np.moveaxis(table, 0, axis) if axis else table


def spread(scope: Scope, table: Costs, dims: Scope) -> Costs:
    """Return a table with one axis for each node of ``dims``, of length 1 for nodes outside its scope."""
    order = sorted(range(len(scope)), key=lambda at: dims.index(scope[at]))
    sizes = dict(zip(scope, table.shape, strict=True))
    return table.transpose(order).reshape([sizes.get(near, 1) for near in dims])
