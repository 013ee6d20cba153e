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

Axes = tuple[tuple[int, ...], ...]
"""For each table the place of its nodes among those of a step, of which the node that leaves is first."""


class Elimination:
    """The elimination of a graph whose nodes have some numbers of choices.

    Attributes:
        sizes: the number of choices of each node.
        steps: the nodes in order, each with its neighbours when it leaves.
        complete: whether the tables have room.
        work: the entries of all tables.
    """

    def __init__(self, graph: CountGraph, sizes: Sequence[int]) -> None:
        """Find the order, which depends on the numbers of choices."""
        self.sizes = tuple(sizes)
        ends = [(link.source, link.target) for link in graph.links]
        links = tuple(Pair(*pair, (sizes[pair[0]],), (sizes[pair[1]],)) for pair in ends)
        traced = trace(Structure(sizes=self.sizes, links=links))
        self.steps: tuple[Step, ...] = traced.steps
        self.complete = traced.complete
        self.work = sum(step.work for step in traced.steps)
        self._recipes = self._with_tables(ends) if self.complete else []

    def _with_tables(self, ends: Sequence[tuple[int, int]]) -> list[_Recipe]:
        """Return which tables each step adds up; the nodes' tables are numbered first, then the links', then the steps'."""
        place = {step.node: at for at, step in enumerate(self.steps)}
        scopes: list[tuple[int, ...]] = [(node,) for node in range(len(self.sizes))]
        # A node of one choice is no neighbour.
        scopes += [tuple(end for end in pair if self.sizes[end] > 1) or pair[:1] for pair in ends]
        scopes += [step.scope for step in self.steps]
        around: list[list[int]] = [[] for _ in self.steps]
        for table, scope in enumerate(scopes):
            if scope:
                around[min([place[node] for node in scope])].append(table)
        shared: dict[tuple[int, Axes], _Form] = {}
        found = []
        for step, tables in zip(self.steps, around, strict=True):
            names = (step.node, *step.scope)
            each = sorted([(tuple(map(names.index, scopes[table])), table) for table in tables])
            own = (len(names), tuple([axes for axes, _ in each]))
            found.append(_Recipe(shared.setdefault(own, _Form(*own)), [table for _, table in each]))
        return found

    def least(self, nodes: Sequence[Costs], links: Sequence[Costs]) -> tuple[int, list[int], float]:
        """Return the problem of least cost, its choices and their cost.

        Args:
            nodes: the costs of each node, ``[problems, choices]``.
            links: the costs of each link, ``[problems, choices of the source, choices of the target]``.
        """
        tables = [*nodes, *links]
        lowest = np.zeros(len(nodes[0])) if nodes else np.zeros(1)
        shared = _Shared()
        kinds: list[_Kind] = []
        for form, places in self._recipes:
            kind = shared.kind(form, [tables[place] for place in places])
            kinds.append(kind)
            tables.append(kind.left)
            lowest = lowest + kind.lowest
        best = int(lowest.argmin())
        chosen = [0] * len(nodes)
        for step, kind in zip(reversed(self.steps), reversed(kinds), strict=True):
            chosen[step.node] = kind.choice(best, tuple([chosen[other] for other in step.scope]))
        return best, chosen, float(lowest[best])


class _Form(NamedTuple):
    """The form of a sum of tables.

    Attributes:
        nodes: the number of nodes of the sum.
        axes: the places of the nodes of each table among them.
    """

    nodes: int
    axes: Axes

    def total(self, tables: Sequence[Costs]) -> Costs:
        """Return the sum of tables, with an axis for each node, the problems first."""
        spread = [_spread(self.nodes, own, table) for own, table in zip(self.axes, tables, strict=True)]
        found = spread[0]
        for own in spread[1:]:
            found = found + own
        return found


class _Recipe(NamedTuple):
    """The tables that a step of elimination adds up, by their numbers, and their form."""

    form: _Form
    tables: list[int]


class _Kind:
    """A step of elimination, shared by all nodes with equal tables.

    Attributes:
        left: the least costs of the node for all choices of its neighbours, less the least of each problem.
        lowest: the least of each problem.
    """

    def __init__(self, form: _Form, tables: Sequence[Costs]) -> None:
        self._form, self._tables = form, tables
        self.left: Costs = form.total(tables).min(axis=1)
        self.lowest: Costs = self.left.reshape(len(self.left), -1).min(axis=1)
        self.left = self.left - self.lowest.reshape(-1, *[1] * (self.left.ndim - 1))
        self._chosen: dict[tuple[int, ...], int] = {}
        self._one: Costs | None = None

    def choice(self, problem: int, others: tuple[int, ...]) -> int:
        """Return the best choice of the node in one problem, which is the same each time, given those of its neighbours."""
        if others not in self._chosen:
            if self._one is None:
                self._one = self._form.total([table[problem : problem + 1] for table in self._tables])[0]
            self._chosen[others] = int(self._one[(slice(None), *others)].argmin())
        return self._chosen[others]


class _Shared:
    """The kinds of steps, and the tables that they leave: equal parts of a network leave equal ones."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Kind] = {}
        self._tables: dict[object, Costs] = {}

    def kind(self, form: _Form, tables: Sequence[Costs]) -> _Kind:
        """Return the step that adds up some tables; equal ones are one object."""
        key = (id(form), *map(id, tables))
        found = self._kinds.get(key)
        if found is None:
            found = _Kind(form, tables)
            found.left = self._tables.setdefault((found.left.shape, found.left.tobytes()), found.left)
            self._kinds[key] = found
        return found


def _spread(nodes: int, axes: tuple[int, ...], table: Costs) -> Costs:
    """Return a table with an axis for each of some nodes, the problems first."""
    sizes = table.shape[1:]
    if len(sizes) != len(axes):
        sizes = tuple([size for size in sizes if size > 1]) or (1,)
        table = table.reshape(-1, *sizes)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if len(order) > 1:
        table = table.transpose(0, *[axis + 1 for axis in order])
    shape = [1] * nodes
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    return table.reshape(-1, *shape)
