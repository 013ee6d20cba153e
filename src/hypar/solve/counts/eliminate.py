"""Elimination of many small problems of one structure at once: the same tables with one more axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.cost_graph import Link as Pair
from hypar.solve.cost_graph import Structure
from hypar.solve.elimination.order import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.counts.forms import CountGraph
    from hypar.solve.edge import Costs
    from hypar.solve.elimination.order import Step


class Elimination:
    """The elimination of a graph whose nodes have some numbers of choices.

    Attributes:
        sizes: the number of choices of each node.
        ends: the nodes of each link.
        steps: the nodes in order, each with its neighbours when it leaves.
        complete: whether the tables have room.
        work: the entries of all tables.
    """

    def __init__(self, graph: CountGraph, sizes: Sequence[int]) -> None:
        """Find the order, which depends on the numbers of choices."""
        self.sizes = tuple(sizes)
        self.ends = [(link.source, link.target) for link in graph.links]
        links = tuple(Pair(*ends, (sizes[ends[0]],), (sizes[ends[1]],)) for ends in self.ends)
        traced = trace(Structure(sizes=self.sizes, links=links))
        self.steps: tuple[Step, ...] = traced.steps
        self.complete = traced.complete
        self.work = sum(step.work for step in traced.steps)
        self._place = {step.node: at for at, step in enumerate(self.steps)}

    def least(self, nodes: Sequence[Costs], links: Sequence[Costs]) -> tuple[int, list[int], float]:
        """Return the problem of least cost, its choices and their cost.

        Args:
            nodes: the costs of each node, ``[problems, choices]``.
            links: the costs of each link, ``[problems, choices of the source, choices of the target]``.
        """
        around: list[list[_Table]] = [[] for _ in self.steps]
        for ends, costs in zip(self.ends, links, strict=True):
            # A node of one choice is no neighbour.
            scope = tuple(end for end in ends if self.sizes[end] > 1) or ends[:1]
            table = costs.reshape(len(costs), *[self.sizes[end] for end in scope])
            around[min(self._place[end] for end in scope)].append(_Table(scope, table, id(costs)))
        lowest = np.zeros(len(nodes[0])) if nodes else np.zeros(1)
        known: dict[object, Costs] = {}
        for at, step in enumerate(self.steps):
            names = (step.node, *step.scope)
            every = [_Table((step.node,), nodes[step.node], id(nodes[step.node])), *around[at]]
            # Equal tables are one object, so that equal parts of a network are computed once.
            key = (len(names), *sorted((own.number, *map(names.index, own.scope)) for own in every))
            if key not in known:
                known[key] = _total(every, names).min(axis=1)
            left = known[key]
            if step.scope:
                first = min(self._place[other] for other in step.scope)
                around[first].append(_Table(step.scope, left, id(left)))
            else:
                lowest = lowest + left
        best = int(lowest.argmin())
        chosen = [0] * len(nodes)
        for at, step in reversed([*enumerate(self.steps)]):
            names = (step.node, *step.scope)
            every = [_Table((step.node,), nodes[step.node], 0), *around[at]]
            one = [own._replace(costs=own.costs[best : best + 1]) for own in every]
            total = np.moveaxis(_total(one, names)[0], 0, -1)
            chosen[step.node] = int(total[tuple(chosen[other] for other in step.scope)].argmin())
        return best, chosen, float(lowest[best])


class _Table(NamedTuple):
    """A table of some nodes, of many problems.

    Attributes:
        scope: the nodes.
        costs: ``[problems, choices of each node]``.
        number: the same for equal tables.
    """

    scope: tuple[int, ...]
    costs: Costs
    number: int


def _total(every: Sequence[_Table], names: tuple[int, ...]) -> Costs:
    """Return the sum of tables, with an axis for each of some nodes, the problems first."""
    total = _spread(every[0].scope, every[0].costs, names)
    for own in every[1:]:
        total = total + _spread(own.scope, own.costs, names)
    return total


def _spread(scope: tuple[int, ...], table: Costs, names: tuple[int, ...]) -> Costs:
    """Return a table with an axis for each of some nodes, the problems first."""
    order = sorted(range(len(scope)), key=lambda axis: names.index(scope[axis]))
    turned = table.transpose(0, *[axis + 1 for axis in order])
    sizes = iter(turned.shape[1:])
    return turned.reshape(len(table), *[next(sizes) if name in scope else 1 for name in names])
