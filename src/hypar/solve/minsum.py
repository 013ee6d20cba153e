"""Least sums of costs of nodes and of pairs, by elimination with tables, forth and back, of one problem or of many of one structure.

Idea: a node leaves with the least of its costs for all choices of its neighbours, which is a table over these. The tables
of an order are a tree of cliques: messages up the tree have the least of all, and with the messages back down each node the
least of all assignments with any of its choices, at about twice the work (Dechter, Artificial Intelligence 113, 1999).
A table is stored less its least entry. Those of equal parts of a network, as of the blocks of a transformer, are then the same
after a few parts, and each is computed once. An edge of several terms is minimised digit by digit and never made whole.

*Ties* go from the last node back to the first declared choice. The costs of a node when it left, beside choices of its neighbours
that some optimum takes, say which of its choices optima take. Each entry that an optimum takes of a table gets the best completion
below it: a whole number whose digits are the choices of the nodes, the first node's the lowest.
Source: the order of comparison is that of the released partitioner of HyPar (HPCA 2019) and AccPar (HPCA 2020),
whose dynamic programme goes forth along the layers and picks from the last one back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from hypar.solve.cost_graph import CostGraph, Structure
from hypar.solve.edge import Costs, Edge
from hypar.solve.limits import checkpoint
from hypar.solve.order import ordered

Pair = Costs | Edge
"""The costs of a pair: an array, or an edge of several terms."""

Row = tuple[int, ...]
"""The choices of a step's neighbours."""

Pick = tuple[int, list[tuple[int, Row]]]
"""A choice of a step's node, and the steps whose tables it adds up, each with its neighbours' choices."""

SHARED = 2**16
"""Most entries of a table that is looked for among others."""


def optimum(problem: CostGraph) -> tuple[int, ...]:
    """Return the first best assignment, compared from the last node back, of a cost graph whose tables fit.

    Its costs are rounded so that all sums are exact.
    """
    return solved(problem.summable()).first()


def solved(problem: CostGraph, last: tuple[int, ...] = ()) -> Solved:
    """Return the least sums of a cost graph whose tables fit, of which some nodes leave ``last``; equal steps of arrays that nodes or edges share are computed once."""
    search, known, pairs = min_sum(problem.structure, last), dict[object, Any](), []
    nodes = [known.setdefault(id(costs), costs[None]) for costs in problem.nodes]
    for edge in problem.edges:
        whole = len(edge.terms) == 1 or 1 in (search.sizes[edge.source], search.sizes[edge.target])
        key = (whole, *map(id, edge.terms))
        if key not in known:
            known[key] = edge.costs[None] if whole else edge
        pairs.append(known[key])
    return Solved(search, nodes, pairs)


class MinSum:
    """The elimination of the nodes of a structure, of which some leave last, in their order, before any cost is known.

    Attributes:
        structure: the structure.
        sizes: the number of choices of each node.
        steps: the nodes in order, each with its neighbours when it leaves.
        work: the entries that are computed, up to the first table that has no room.
        complete: whether all tables have room.
    """

    def __init__(self, structure: Structure, last: tuple[int, ...] = ()) -> None:
        self.structure, self.sizes, self.steps = structure, structure.sizes, ordered(structure, last)
        self.work = sum(step.work for step in self.steps)
        self.complete = len(self.steps) == len(self.sizes)

    @cached_property
    def forms(self) -> list[Form]:
        """The form of the sum of each step."""
        sizes = [tuple([self.sizes[name] for name in (step.node, *step.scope)]) for step in self.steps]
        return [Form(own, step.axes, step.over) for own, step in zip(sizes, self.steps, strict=True)]


min_sum = lru_cache(maxsize=64)(MinSum)
"""Returns one elimination for each structure."""


class Form(NamedTuple):
    """The form of a sum of tables: the number of choices of each of its nodes, the one that leaves first, and the places of each table's among them.

    ``over`` is the place of the neighbour that is minimised digit by digit; None for none.
    """

    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    over: int | None

    def total(self, tables: Sequence[Pair], but: int | None = None) -> Costs:
        """Return the sum of tables, with an axis for each node, the problems first; of those without one of the nodes."""
        sizes = [1 if axis == but else size for axis, size in enumerate(self.sizes)]
        problems = max([1 if isinstance(table, Edge) else len(table) for table in tables])
        found: Costs = np.zeros((problems, *sizes))
        for axes, table in zip(self.axes, tables, strict=True):
            if but not in axes:
                found += self.spread(axes, _whole(table))
        return found

    def spread(self, axes: Sequence[int], table: Any) -> Any:
        """Return a table with an axis for each node."""
        own = table.reshape(len(table), *[self.sizes[axis] for axis in axes])
        order = sorted(range(len(axes)), key=axes.__getitem__)
        shape = [self.sizes[axis] if axis in axes else 1 for axis in range(len(self.sizes))]
        return own.transpose(0, *[axis + 1 for axis in order]).reshape(-1, *shape)

    def least(self, tables: Sequence[Pair]) -> Costs:
        """Return the least of a sum over the node that leaves, the problems first."""
        if self.over is None or any(len(table) > 1 for table in tables if not isinstance(table, Edge)):
            return np.asarray(self.total(tables).min(axis=1))
        beside = [
            (axes, table.terms if isinstance(table, Edge) else (table[0][:, None],))
            for axes, table in zip(self.axes, tables, strict=True)
            if self.over in axes
        ]
        edge = reduce(Edge.plus, [Edge(source, target, terms) for (source, target), terms in beside])
        rest = self.total(tables, self.over)[0].squeeze(self.over)
        return np.moveaxis(edge.least_over(int(edge.target == 0), rest), 0, self.over - 1)[None]


def _whole(table: Pair) -> Costs:
    return table.costs[None] if isinstance(table, Edge) else table


class _Kind:
    """A step of elimination, shared by all nodes with equal tables: what it leaves for all choices of its neighbours, less the least of each problem."""

    def __init__(self, form: Form, tables: Sequence[Pair]) -> None:
        self.form, self.tables = form, tables
        self.left: Costs = form.least(tables)
        self.lowest: Costs = np.zeros((1,) * self.left.ndim)
        if self.left.size <= SHARED or self.left.ndim == 1:
            self.lowest = self.left.min(axis=tuple(range(1, self.left.ndim)), keepdims=True)
            self.left = self.left - self.lowest
        self._best: dict[tuple[int, tuple[int, ...]], list[int]] = {}

    def best(self, problem: int, others: tuple[int, ...]) -> list[int]:
        """Return the best choices of the node in one problem, given those of its neighbours."""
        if (problem, others) not in self._best:
            chosen: tuple[Any, ...] = (slice(None), *others)
            costs: Costs = np.zeros(1)
            for axes, table in zip(self.form.axes, self.tables, strict=True):
                if isinstance(table, Edge):
                    (other,) = [chosen[axis] for axis in axes if axis]
                    costs = costs + table.beside(int(axes[0] == 0), other)
                else:
                    own = table[problem % len(table)].reshape([self.form.sizes[at] for at in axes])
                    costs = costs + own[tuple([chosen[axis] for axis in axes])]
            self._best[problem, others] = np.flatnonzero(costs == costs.min()).tolist()
        return self._best[problem, others]

    def back(self, above: Costs | None, lower: Sequence[int]) -> tuple[Costs, list[Costs]]:
        """Return by how much the least of all rises with each choice of the node, and what tables that other steps left lack of it.

        ``above`` is what the table that this step leaves lacks of it; None if that is a number.
        """
        full, rest = (
            self.form.total(self.tables) + ((0.0 if above is None else above) - self.lowest)[:, None],
            [],
        )
        for at in lower:
            axes, table = self.form.axes[at], _whole(self.tables[at])
            least = full.min(axis=tuple(axis + 1 for axis in range(full.ndim - 1) if axis not in axes))
            rest.append(least.transpose(0, *[sorted(axes).index(axis) + 1 for axis in axes]) - table)
        return full.min(axis=tuple(range(2, full.ndim))), rest


class Solved:
    """The least sums of some problems of one structure.

    Attributes:
        lowest: the least of each problem, ``[problems]``.
    """

    def __init__(self, search: MinSum, nodes: Sequence[Costs], pairs: Sequence[Pair]) -> None:
        """Eliminate the nodes.

        Args:
            search: the elimination.
            nodes: the costs of each node, ``[problems, choices]``.
            pairs: the costs of each pair, ``[problems, choices of the first node, choices of the second]``, or an edge of
                several terms; those of one problem hold for all.
        """
        self._search = search
        self._tables: dict[object, Costs] = {}
        self.lowest: Costs = np.zeros(max([len(costs) for costs in nodes], default=1))
        tables, known = [*nodes, *pairs], dict[object, _Kind]()
        self._kinds: list[_Kind] = []
        for form, step in zip(search.forms, search.steps, strict=True):
            own = [tables[place] for place in step.tables]
            key = (form, *map(id, own))
            if key not in known:
                if math.prod(form.sizes) > SHARED or any(isinstance(table, Edge) for table in own):
                    checkpoint()
                known[key] = _Kind(form, own)
                known[key].left = self._shared(known[key].left)
            self._kinds.append(known[key])
            tables.append(known[key].left)
            self.lowest = self.lowest + known[key].lowest.reshape(-1)

    def _shared(self, table: Costs) -> Costs:
        # Large tables are seldom equal.
        known = self._tables
        return table if table.size > SHARED else known.setdefault((table.shape, table.tobytes()), table)

    def first(self) -> tuple[int, ...]:
        """Return the first optimum of the first problem, compared from the last node back; sums must be exact."""
        bits = max(self._search.sizes, default=1).bit_length()
        least: list[dict[Row, int]] = []
        for step, rows in zip(self._search.steps, self._taken(), strict=True):
            place, own = bits * step.node, {}
            for others, found in rows.items():
                whole = [(pick << place) + sum([least[low][row] for low, row in of]) for pick, of in found]
                own[others] = min(whole)
            least.append(own)
        digits = sum(own.get((), 0) for own in least)
        return tuple([digits >> bits * node & (1 << bits) - 1 for node in range(len(self._search.sizes))])

    def _taken(self) -> list[dict[Row, list[Pick]]]:
        """Return what optima take of each step: by its neighbours' choices its best ones, each with the rows of lower steps beside it."""
        rows: list[dict[Row, list[Pick]]] = [{} if step.scope else {(): []} for step in self._search.steps]
        for at in reversed(range(len(rows))):
            axes, lower = self._search.steps[at].axes, self._search.steps[at].lower
            for others, found in rows[at].items():
                for pick in self._kinds[at].best(0, others):
                    chosen = (pick, *others)
                    below = [(low, tuple([chosen[axis] for axis in axes[place]])) for place, low in lower]
                    found.append((pick, below))
                    for low, row in below:
                        rows[low].setdefault(row, [])
        return rows

    def choices(self, problem: int = 0) -> list[int]:
        """Return an optimum of a problem: the choice of each node."""
        chosen = [0] * len(self._search.sizes)
        for step, kind in zip(reversed(self._search.steps), reversed(self._kinds), strict=True):
            others = tuple([chosen[other] for other in step.scope])
            chosen[step.node] = kind.best(problem, others)[0]
        return chosen

    def of_last_two(self) -> Costs:
        """Return the least of the first problem with each choice of the two nodes that leave last, ``[last one, the one before]``."""
        before, last = self._kinds[-2:]
        lowest = self.lowest[0] - last.lowest.item() - before.lowest.item()
        rest = last.form.total(last.tables)[0] - before.left[0] + lowest
        each = before.form.total(before.tables)[0]
        return np.asarray(each.reshape(len(each), -1) + rest).T

    def marginals(self) -> list[Costs]:
        """Return for each node the least of the first problem with each of its choices, ``[choices]``."""
        search = self._search
        known: dict[object, tuple[Costs, list[Costs]]] = {}
        found: list[Costs] = [np.zeros(0)] * len(search.sizes)
        above: dict[int, Costs] = {}
        for at in reversed(range(len(search.steps))):
            kind, rest, lower = self._kinds[at], above.pop(at, None), search.steps[at].lower
            key = (id(kind), id(rest))
            if key not in known:
                checkpoint()
                own, left = kind.back(rest, [place for place, _ in lower])
                known[key] = (own[0] + self.lowest[0], [self._shared(table) for table in left])
            found[search.steps[at].node], left = known[key]
            above.update(zip([low for _, low in lower], left, strict=True))
        return found
