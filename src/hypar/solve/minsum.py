"""Least sums of costs of nodes and of pairs, by elimination with tables, forth and back, of one problem or of many of one structure.

Idea: a node leaves with the least of its costs for all choices of its neighbours, which is a table over these. The tables
of an order are a tree of cliques: messages up the tree have the least of all, and with the messages back down each node the
least of all assignments with any of its choices, at about twice the work (Dechter, Artificial Intelligence 113, 1999).
A table is stored less its least entry. Those of equal parts of a network, as of the blocks of a transformer, are then the same
after a few parts, and each is computed once.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.solve.cost_graph import Link, Structure
from hypar.solve.elimination.order import trace
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs
    from hypar.solve.elimination.order import Step

SHARED = 2**16
"""Most entries of a table that is looked for among others."""

Ends = tuple[int, int]
"""The two nodes of a pair."""

Axes = tuple[tuple[int, ...], ...]
"""For each table the place of its nodes among those of a step, of which the node that leaves is first."""


def min_marginals(problem: CostGraph) -> list[Costs]:
    """Return for each choice of each node the least cost of all assignments with it: the rest is planned anew.

    Args:
        problem: a cost graph whose tables an exact solver holds.

    Returns:
        ``[choices]`` for each node.
    """
    edges = problem.joined()
    ends = [(edge.source, edge.target) for edge in edges]
    return single(problem.nodes, ends, [edge.costs for edge in edges]).marginals()


def single(nodes: Sequence[Costs], ends: Sequence[Ends], pairs: Sequence[Costs]) -> Solved:
    """Return the least sums of one problem.

    Args:
        nodes: the costs of each node, ``[choices]``.
        ends: the nodes of each pair.
        pairs: the costs of each pair, ``[choices of the first node, choices of the second]``.
    """
    alone = {id(costs): costs[None] for costs in (*nodes, *pairs)}
    search = MinSum([len(costs) for costs in nodes], ends)
    return search.solve([alone[id(costs)] for costs in nodes], [alone[id(costs)] for costs in pairs])


class MinSum:
    """The elimination of nodes of some numbers of choices, before any cost is known.

    Attributes:
        sizes: the number of choices of each node.
        steps: the nodes in order, each with its neighbours when it leaves.
        complete: whether the tables have room.
        work: the entries that are computed.
    """

    def __init__(self, sizes: Sequence[int], ends: Sequence[Ends], last: int | None = None) -> None:
        """Find the order, which depends on the numbers of choices.

        Args:
            sizes: the number of choices of each node.
            ends: the nodes of each pair.
            last: the node that leaves last; None for any.
        """
        self.sizes = tuple(sizes)
        links = tuple(Link(*pair, (sizes[pair[0]],), (sizes[pair[1]],)) for pair in ends)
        traced = trace(Structure(sizes=self.sizes, links=links), last)
        self.steps: tuple[Step, ...] = traced.steps
        self.complete = traced.complete
        self.work = sum(step.work for step in traced.steps)
        self._ends = ends

    @property
    def entries(self) -> float:
        """The entries of all tables over a node and its neighbours; infinite if there are too many to count."""
        if not self.complete:
            return math.inf
        return sum(math.prod(self.sizes[name] for name in (step.node, *step.scope)) for step in self.steps)

    @cached_property
    def recipes(self) -> list[Recipe]:
        """The tables that each step adds up; the nodes' tables are numbered first, then the pairs', then the steps'."""
        place = {step.node: at for at, step in enumerate(self.steps)}
        scopes: list[tuple[int, ...]] = [(node,) for node in range(len(self.sizes))]
        # A node of one choice is no neighbour.
        scopes += [tuple(end for end in pair if self.sizes[end] > 1) or pair[:1] for pair in self._ends]
        scopes += [step.scope for step in self.steps]
        around: list[list[int]] = [[] for _ in self.steps]
        for table, scope in enumerate(scopes):
            if scope:
                around[min([place[node] for node in scope])].append(table)
        shared: dict[Form, Form] = {}
        found = []
        for step, tables in zip(self.steps, around, strict=True):
            names = (step.node, *step.scope)
            each = sorted([(tuple(map(names.index, scopes[table])), table) for table in tables])
            own = Form(tuple([self.sizes[name] for name in names]), tuple([axes for axes, _ in each]))
            found.append(Recipe(shared.setdefault(own, own), [table for _, table in each]))
        return found

    def solve(self, nodes: Sequence[Costs], pairs: Sequence[Costs]) -> Solved:
        """Return the least sums of some problems.

        Args:
            nodes: the costs of each node, ``[problems, choices]``.
            pairs: the costs of each pair, ``[problems, choices of the first node, choices of the second]``; arrays of one
                problem hold for all.
        """
        return Solved(self, nodes, pairs)


class Form(NamedTuple):
    """The form of a sum of tables.

    Attributes:
        sizes: the number of choices of each node of the sum.
        axes: the places of the nodes of each table among them.
    """

    sizes: tuple[int, ...]
    axes: Axes

    def total(self, tables: Sequence[Costs]) -> Costs:
        """Return the sum of tables, with an axis for each node, the problems first."""
        found: Costs | None = None
        for axes, table in zip(self.axes, tables, strict=True):
            own = table.reshape(len(table), *[self.sizes[axis] for axis in axes])
            order = sorted(range(len(axes)), key=axes.__getitem__)
            shape = [self.sizes[axis] if axis in axes else 1 for axis in range(len(self.sizes))]
            own = own.transpose(0, *[axis + 1 for axis in order]).reshape(-1, *shape)
            found = own if found is None else found + own
        assert found is not None  # noqa: S101 (a node has costs)
        return found


class Recipe(NamedTuple):
    """The tables that a step of elimination adds up, by their numbers, and their form."""

    form: Form
    tables: list[int]


class _Kind:
    """A step of elimination, shared by all nodes with equal tables.

    Attributes:
        left: the least costs of the node for all choices of its neighbours, less the least of each problem.
        lowest: the least of each problem.
    """

    def __init__(self, form: Form, tables: Sequence[Costs]) -> None:
        self.form, self.tables = form, tables
        self.left: Costs = self.total.min(axis=1)
        self.lowest: Costs = self.left.reshape(len(self.left), -1).min(axis=1)
        self.left = self.left - self._spread(self.lowest, self.left.ndim)
        self._chosen: dict[tuple[int, ...], int] = {}
        self._one: Costs | None = None

    @property
    def total(self) -> Costs:
        """The sum of the tables, with an axis for each node, the problems first."""
        return self.form.total(self.tables)

    def choice(self, problem: int, others: tuple[int, ...]) -> int:
        """Return the best choice of the node in one problem, which is the same each time, given those of its neighbours."""
        if others not in self._chosen:
            if self._one is None:
                self._one = self.form.total([self._of(table, problem) for table in self.tables])[0]
            place: Any = (slice(None), *others)
            self._chosen[others] = int(self._one[place].argmin())
        return self._chosen[others]

    def back(self, above: Costs | None, lower: Sequence[int]) -> tuple[Costs, list[Costs]]:
        """Return by how much the least of all rises with each choice of the node, and what some tables lack of it.

        Args:
            above: what the least of all lacks in the table that the step leaves; None if that is a number.
            lower: the places of tables that other steps have left.
        """
        lowest = self._spread(self.lowest, self.left.ndim)
        full, rest = self.total + ((0.0 if above is None else above) - lowest)[:, None], []
        for at in lower:
            axes, table = self.form.axes[at], self.tables[at]
            least = full.min(axis=tuple(axis + 1 for axis in range(full.ndim - 1) if axis not in axes))
            rest.append(least.transpose(0, *[sorted(axes).index(axis) + 1 for axis in axes]) - table)
        return full.min(axis=tuple(range(2, full.ndim))), rest

    @staticmethod
    def _of(table: Costs, problem: int) -> Costs:
        return table[problem : problem + 1] if len(table) > 1 else table

    @staticmethod
    def _spread(lowest: Costs, axes: int) -> Costs:
        return lowest.reshape(-1, *[1] * (axes - 1))


class Solved:
    """The least sums of some problems of one structure.

    Attributes:
        lowest: the least of each problem, ``[problems]``.
    """

    def __init__(self, search: MinSum, nodes: Sequence[Costs], pairs: Sequence[Costs]) -> None:
        self._search, self._first = search, len(nodes) + len(pairs)
        self._tables: dict[object, Costs] = {}
        self.lowest: Costs = np.zeros(max([len(costs) for costs in nodes], default=1))
        tables, known = [*nodes, *pairs], dict[object, _Kind]()
        self._kinds: list[_Kind] = []
        for form, places in search.recipes:
            key = (id(form), *[id(tables[place]) for place in places])
            if key not in known:
                known[key] = _Kind(form, [tables[place] for place in places])
                known[key].left = self._shared(known[key].left)
            self._kinds.append(known[key])
            tables.append(known[key].left)
            self.lowest = self.lowest + known[key].lowest

    def _shared(self, table: Costs) -> Costs:
        """Return the first of equal tables; large ones are seldom equal."""
        return (
            table if table.size > SHARED else self._tables.setdefault((table.shape, table.tobytes()), table)
        )

    @property
    def best(self) -> int:
        """The problem of least cost."""
        return int(self.lowest.argmin())

    def choices(self, problem: int = 0) -> list[int]:
        """Return an optimum of a problem: the choice of each node."""
        chosen = [0] * len(self._search.sizes)
        for step, kind in zip(reversed(self._search.steps), reversed(self._kinds), strict=True):
            chosen[step.node] = kind.choice(problem, tuple([chosen[other] for other in step.scope]))
        return chosen

    def of_last(self) -> Costs:
        """Return the least of each problem with each choice of the node that leaves last, ``[problems, choices]``."""
        kind = self._kinds[-1]
        return np.asarray(kind.total + (self.lowest - kind.lowest)[:, None])

    def marginals(self) -> list[Costs]:
        """Return for each node the least of the first problem with each of its choices, ``[choices]``."""
        search = self._search
        known: dict[object, tuple[Costs, list[Costs]]] = {}
        found: list[Costs] = [np.zeros(0)] * len(search.sizes)
        above: dict[int, Costs] = {}
        for at in reversed(range(len(search.steps))):
            kind, rest = self._kinds[at], above.pop(at, None)
            below = [(place, table - self._first) for place, table in enumerate(search.recipes[at].tables)]
            lower = [(place, step) for place, step in below if step >= 0]
            key = (id(kind), id(rest))
            if key not in known:
                checkpoint()
                own, tables = kind.back(rest, [place for place, _ in lower])
                known[key] = (own, [self._shared(table) for table in tables])
            own, tables = known[key]
            above.update({step: table for (_, step), table in zip(lower, tables, strict=True)})
            found[search.steps[at].node] = own[0] + self.lowest[0]
        return found
