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
        shared = _Shared()
        kinds: list[_Kind] = []
        for at, step in enumerate(self.steps):
            every = [_Table((step.node,), nodes[step.node], id(nodes[step.node])), *around[at]]
            kinds.append(shared.kind(every, (step.node, *step.scope)))
            lowest = lowest + kinds[-1].lowest
            if step.scope:
                first = min(self._place[other] for other in step.scope)
                around[first].append(_Table(step.scope, kinds[-1].left, id(kinds[-1].left)))
        best = int(lowest.argmin())
        chosen = [0] * len(nodes)
        for step, kind in zip(reversed(self.steps), reversed(kinds), strict=True):
            chosen[step.node] = kind.choice(best, tuple(chosen[other] for other in step.scope))
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


class _Kind:
    """A step of elimination, shared by all nodes with equal tables.

    Attributes:
        left: the least costs of the node for all choices of its neighbours, less the least of each problem.
        lowest: the least of each problem.
    """

    def __init__(self, every: Sequence[_Table], names: tuple[int, ...]) -> None:
        self._every, self._names = every, names
        self.left: Costs = _total(every, names).min(axis=1)
        self.lowest: Costs = self.left.reshape(len(self.left), -1).min(axis=1)
        self.left = self.left - self.lowest.reshape(-1, *[1] * (self.left.ndim - 1))
        self._chosen: dict[tuple[int, ...], int] = {}

    def choice(self, problem: int, others: tuple[int, ...]) -> int:
        """Return the best choice of the node in one problem, given those of its neighbours."""
        if others not in self._chosen:
            one = [own._replace(costs=own.costs[problem : problem + 1]) for own in self._every]
            total = _total(one, self._names)[0]
            self._chosen[others] = int(total[(slice(None), *others)].argmin())
        return self._chosen[others]


class _Shared:
    """The kinds of steps, and the tables that they leave: equal parts of a network leave equal ones."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Kind] = {}
        self._tables: dict[object, Costs] = {}

    def kind(self, every: Sequence[_Table], names: tuple[int, ...]) -> _Kind:
        """Return the step of a node, which comes first among some names, with its tables."""
        # Equal tables are one object.
        key = (len(names), *sorted((own.number, *map(names.index, own.scope)) for own in every))
        if key not in self._kinds:
            found = _Kind(every, names)
            found.left = self._tables.setdefault((found.left.shape, found.left.tobytes()), found.left)
            self._kinds[key] = found
        return self._kinds[key]


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
