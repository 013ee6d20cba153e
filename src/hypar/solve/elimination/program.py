"""Eliminations compiled to a few array operations, for the many small cost graphs of one structure.

Adding up and minimising a table of a few entries takes no longer than looking it up. All tables of a graph are therefore
kept in one vector, and nodes that leave independently of each other, with equally large tables, leave at once: their
costs are gathered through indices, added up and minimised together. The indices depend on the structure alone and are
found once. Costs are added up in any order, so that all their sums must be exact, as those of a summable graph are.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.solve.elimination.folding import Taken, spread
from hypar.solve.elimination.order import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Costs, Indices
    from hypar.solve.elimination.order import Scope, Step

MOST_ENTRIES = 2**11
"""Most entries of a graph whose elimination is compiled: large tables cost more than their number does."""

MOST_WORK = 2**14
"""Most entries that such an elimination computes."""

SMALL = 2**6
"""Entries of a table that take less time than looking it up."""

MANY = 8
"""How many times as many entries a graph may have, and its elimination compute, if all its tables are small."""


class _Table(NamedTuple):
    """A table within the vector of all tables.

    Attributes:
        start: its first entry.
        scope: its nodes, one axis for each.
        depth: the number of eliminations that lead to it, one after another.
    """

    start: int
    scope: Scope
    depth: int

    def within(self, numbers: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
        """Return its entries of a vector, with an axis for each node."""
        shape = [sizes[node] for node in self.scope]
        return numbers[self.start : self.start + math.prod(shape)].reshape(shape)


class _Leaving(NamedTuple):
    """The elimination of one node.

    Attributes:
        step: the step.
        tables: the tables that the node takes along.
        result: the table that it leaves.
    """

    step: Step
    tables: tuple[_Table, ...]
    result: _Table


class _Group(NamedTuple):
    """Nodes that leave at once.

    Attributes:
        rows: each of them with the nodes of its scope, and the number of rows between two choices of each of these.
        entries: where the costs of each are, ``[tables, nodes, choices of the scope, choices]``.
        results: where the minima are written, ``[nodes, choices of the scope]``.
    """

    rows: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    entries: Indices
    results: Indices


class Program(NamedTuple):
    """The elimination of all nodes of a graph of some structure.

    Attributes:
        sizes: the number of choices of each node.
        order: the eliminations, one after another.
        groups: the same, independent ones at once.
        length: the number of entries of all tables, with a zero at the end.
    """

    sizes: tuple[int, ...]
    order: tuple[_Leaving, ...]
    groups: tuple[_Group, ...]
    length: int

    def run(self, given: Costs) -> tuple[list[int], Callable[[int], Taken], set[int]]:
        """Return an optimum, the costs with which each node left, by its number in the order, and the nodes that have an equal choice beside it.

        Args:
            given: the entries of a cost graph whose sums are exact, nodes first.
        """
        vector = np.zeros(self.length)
        vector[: given.size] = given
        costs = []
        for group in self.groups:
            costs.append(np.add.reduce(vector.take(group.entries), axis=0))
            vector[group.results] = np.minimum.reduce(costs[-1], axis=-1)
        assignment, tied = self._assigned(costs)
        return assignment, lambda at: self._taken(self.order[at], vector), tied

    def _assigned(self, costs: Sequence[Costs]) -> tuple[list[int], set[int]]:
        """Return the choice of each node, the last that left first, and the nodes another choice of which costs the same."""
        assignment, tied = [0] * len(self.sizes), set()
        for group, of_group in zip(reversed(self.groups), reversed(costs), strict=True):
            for (node, strides), rows in zip(group.rows, of_group.tolist(), strict=True):
                row = 0
                for near, stride in strides:
                    row += stride * assignment[near]
                choices = rows[row]
                least = min(choices)
                assignment[node] = choices.index(least)
                if choices.count(least) > 1:
                    tied.add(node)
        return assignment, tied

    def _taken(self, leaving: _Leaving, vector: Costs) -> Taken:
        step, tables, _ = leaving
        named = [(table.scope, table.within(vector, self.sizes)) for table in tables]
        return Taken(step.node, step.scope, [], named)


@lru_cache(maxsize=64)
def program_of(structure: Structure) -> Program | None:
    """Compile the elimination of a graph; None if its tables are large or an edge is a sum of terms."""
    most = max([link.entries for link in structure.links], default=1)
    times = MANY if most <= SMALL else 1
    if structure.entries > times * MOST_ENTRIES or any(
        len(link.source_digits) > 1 for link in structure.links
    ):
        return None
    traced = trace(structure)
    if not traced.complete or sum(step.work for step in traced.steps) > times * MOST_WORK:
        return None
    order = _order(structure, traced.steps)
    length = max((leaving.result.start for leaving in order), default=0)
    length += math.prod(structure.sizes[near] for near in order[-1].step.scope) if order else 0
    alike: dict[tuple[int, ...], list[_Leaving]] = {}
    for leaving in order:
        shape = (structure.sizes[near] for near in (*leaving.step.scope, leaving.step.node))
        alike.setdefault((leaving.result.depth, *shape), []).append(leaving)
    groups = tuple(_group(alike[key], structure.sizes, length) for key in sorted(alike))
    return Program(structure.sizes, order, groups, length + 1)


def _order(structure: Structure, steps: Sequence[Step]) -> tuple[_Leaving, ...]:
    """Return the eliminations with the tables that each takes along; those of nodes and edges come first."""
    sizes, around, start = structure.sizes, [dict[int, _Table]() for _ in structure.sizes], 0

    def put(scope: Scope, depth: int) -> _Table:
        """Place a table after all others."""
        nonlocal start
        table = _Table(start, scope, depth)
        for node in scope:
            around[node][start] = table
        start += math.prod(sizes[node] for node in scope)
        return table

    for node in range(len(sizes)):
        put((node,), 0)
    for link in structure.links:
        # An edge to a node of one choice is a table of its other end alone.
        put(tuple(end for end in link[:2] if sizes[end] > 1) or (link.target,), 0)
    found = []
    for step in steps:
        tables = tuple(around[step.node].values())
        for table in tables:
            for node in table.scope:
                del around[node][table.start]
        depth = 1 + max(table.depth for table in tables)
        found.append(_Leaving(step, tables, put(step.scope, depth)))
    return tuple(found)


def _group(every: Sequence[_Leaving], sizes: Sequence[int], zero: int) -> _Group:
    """Return nodes that leave at once; where one takes fewer tables along than others, a zero is added."""
    places: Indices = np.arange(zero, dtype=np.intp)
    most = max(len(leaving.tables) for leaving in every)
    entries, results = [], []
    for step, tables, result in every:
        dims = (*step.scope, step.node)
        rows, choices = math.prod(sizes[near] for near in step.scope), sizes[step.node]
        shape = [sizes[near] for near in dims]
        own = [spread(table.scope, table.within(places, sizes), dims) for table in tables]
        own += [np.array(zero)] * (most - len(tables))
        entries.append(np.stack([np.broadcast_to(each, shape).reshape(rows, choices) for each in own]))
        results.append(result.within(places, sizes).reshape(-1))
    strides = tuple((step.node, tuple(_strides(step.scope, sizes))) for step, _, _ in every)
    return _Group(strides, np.stack(entries, axis=1), np.stack(results))


def _strides(scope: Scope, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each node of a scope with the number of rows of a table between two of its choices."""
    for at, node in enumerate(scope):
        yield node, math.prod(sizes[near] for near in scope[at + 1 :])
