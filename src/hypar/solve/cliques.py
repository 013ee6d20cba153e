"""Least costs of all assignments with some choice of a node: the tables of an elimination, forth and back.

No table over a node and its neighbours is ever whole: it is computed some choices of the node at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.cost_graph import Link, Structure
from hypar.solve.elimination.order import trace
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs
    from hypar.solve.elimination.order import Trace

    Factor = tuple[tuple[int, ...], Costs]

AT_ONCE = 2**20
"""Entries of a table that are computed at once, about."""


def entries_of(sizes: Sequence[int], ends: Sequence[tuple[int, int]]) -> float:
    """Return the entries of the tables of an elimination, over each node and its neighbours; infinite if there are too many to count.

    Args:
        sizes: the number of choices of each node.
        ends: the nodes of each edge.
    """
    found = _traced(sizes, ends)
    if not found.complete:
        return math.inf
    return sum(math.prod((sizes[step.node], *[sizes[near] for near in step.scope])) for step in found.steps)


def _traced(sizes: Sequence[int], ends: Sequence[tuple[int, int]]) -> Trace:
    links = tuple(Link(a, b, (sizes[a],), (sizes[b],)) for a, b in ends)
    return trace(Structure(sizes=tuple(sizes), links=links))


def min_marginals(problem: CostGraph) -> list[Costs]:
    """Return for each choice of each node the least cost of all assignments with it: the rest is planned anew.

    The eliminations of a graph are a tree of cliques; messages up this tree and back down give all at once, at about twice the
    work of one solution (Dechter, Artificial Intelligence 113, 1999).

    Args:
        problem: a cost graph whose tables an exact solver holds.

    Returns:
        ``[choices]`` for each node.
    """
    edges = problem.joined()
    ends = [(edge.source, edge.target) for edge in edges]
    return Cliques(problem.nodes, ends, [edge.costs for edge in edges]).marginals


class Cliques:
    """The tables of an elimination.

    Attributes:
        least: the least cost of all assignments.
        marginals: for each node the least cost with each of its choices.
    """

    def __init__(
        self, nodes: Sequence[Costs], ends: Sequence[tuple[int, int]], pairs: Sequence[Costs]
    ) -> None:
        """Send the least costs to the last node and back."""
        self._sizes = [len(costs) for costs in nodes]
        self._scopes = [(step.node, *step.scope) for step in _traced(self._sizes, ends).steps]
        place = {scope[0]: at for at, scope in enumerate(self._scopes)}
        self._factors: list[list[Factor]] = [[((scope[0],), nodes[scope[0]])] for scope in self._scopes]
        for pair, costs in zip(ends, pairs, strict=True):
            # A node of one choice is no neighbour.
            free = tuple(end for end in pair if self._sizes[end] > 1) or pair[:1]
            table = costs.reshape([self._sizes[end] for end in free])
            self._factors[min(place[end] for end in free)].append((free, table))
        self._kids: list[list[int]] = [[] for _ in self._scopes]
        self._up: list[Costs] = []
        self.least = 0.0
        for at, scope in enumerate(self._scopes):
            self._up.append(self._forth(at))
            if len(scope) > 1:
                self._kids[min(place[other] for other in scope[1:])].append(at)
            else:
                self.least += float(self._up[at])
        self.marginals = self._back()

    def _forth(self, at: int) -> Costs:
        """Return the least cost over a node for each choice of its neighbours."""
        least: Costs | None = None
        for _, table in self._slices(at, ()):
            found = table.min(axis=0)
            least = found if least is None else np.minimum(least, found, out=least)
        assert least is not None  # noqa: S101 (a node has a choice)
        return least

    def _back(self) -> list[Costs]:
        """Return the marginals of all nodes, the last one that left first."""
        found: list[Costs] = [np.zeros(size) for size in self._sizes]
        down: dict[int, Costs] = {}
        for at in reversed(range(len(self._scopes))):
            scope = self._scopes[at]
            # The rest of a node without neighbours is other components; that of others is handed down.
            rest = 0.0 if len(scope) > 1 else self.least - float(self._up[at])
            kids = {kid: self._scopes[kid][1:] for kid in self._kids[at]}
            least = {kid: np.full([self._sizes[name] for name in own], np.inf) for kid, own in kids.items()}
            for rows, table in self._slices(at, [(scope[1:], down.pop(at))] if at in down else []):
                found[scope[0]][rows] = table.reshape(len(table), -1).min(axis=1) + rest
                for kid, own in kids.items():
                    _lower(least[kid], own, table, scope, rows)
            for kid in kids:
                down[kid] = least[kid] - self._up[kid] + rest
        return found

    def _slices(self, at: int, extra: Iterable[Factor]) -> Iterator[tuple[slice, Costs]]:
        """Yield the sum of what has the node of a step, some choices of the node at a time, with an axis for each neighbour."""
        scope = self._scopes[at]
        sizes = [self._sizes[name] for name in scope]
        below = [(self._scopes[kid][1:], self._up[kid]) for kid in self._kids[at]]
        factors = [_spread(own, costs, scope) for own, costs in (*self._factors[at], *below, *extra)]
        step = max(1, AT_ONCE // math.prod(sizes[1:]))
        for first in range(0, sizes[0], step):
            checkpoint()
            rows = slice(first, min(first + step, sizes[0]))
            total: Costs = np.zeros((rows.stop - first, *sizes[1:]))
            for costs in factors:
                total += costs[rows] if len(costs) > 1 else costs
            yield rows, total


def _spread(own: tuple[int, ...], costs: Costs, scope: tuple[int, ...]) -> Costs:
    """Return a table with an axis for each node of a scope."""
    order = sorted(range(len(own)), key=lambda axis: scope.index(own[axis]))
    turned = costs.transpose(order)
    sizes = iter(turned.shape)
    return turned.reshape([next(sizes) if name in own else 1 for name in scope])


def _lower(least: Costs, own: tuple[int, ...], table: Costs, scope: tuple[int, ...], rows: slice) -> None:
    """Lower a table over some nodes of a scope to the least costs in some rows of the scope's."""
    found = table.min(axis=tuple(axis for axis, name in enumerate(scope) if name not in own))
    kept = [name for name in scope if name in own]
    place = tuple(rows if name == scope[0] else slice(None) for name in own)
    part = least[place]
    np.minimum(part, found.transpose([kept.index(name) for name in own]), out=part)
