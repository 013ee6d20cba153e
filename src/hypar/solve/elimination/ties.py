"""The choice among equal optima: from the last node back, the first declared choice.

Idea: what a node's costs were when it left, beside choices of its scope that some optimum takes, says which of its
choices optima take. From the last node that left back to the first this finds every optimal choice of every node,
table entry by table entry. Then each of these entries gets the best completion below it, in the order in which the
nodes left: a whole number whose digits are the choices of the nodes in which optima differ, the first node's the
lowest, so that the least number is the optimum whose last node has the first choice, and so on back.
Source: the order of comparison is that of the released partitioner of HyPar (HPCA 2019) and AccPar (HPCA 2020),
whose dynamic programme goes forth along the layers and picks from the last one back.
Cost: one look at the costs of a node for every entry that an optimum takes of its table.

*Programs:* eliminations compiled to a few array operations, for the many small cost graphs of one structure.

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

from hypar.solve.elimination.folding import Folding, Taken, spread
from hypar.solve.elimination.order import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.solve.cost_graph import CostGraph, Structure
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


class _Optimal(NamedTuple):
    """The optimal choices of a node beside optimal choices of its scope.

    Attributes:
        rows: for each of them the row of its scope's choices, rising.
        picks: the node's choice.
        below: for each table of several rows that the node took along, by the node that left it, the row that each leads to.
        alone: whether there is a single row, so that the nodes above do not depend on the choice.
    """

    rows: Indices
    picks: Indices
    below: dict[int, Indices]
    alone: bool


class _Completions(NamedTuple):
    """The best completion below each row of a table.

    Attributes:
        low: the lowest bit that any of them has, below which nothing is kept.
        keys: for each row the number, from that bit on.
    """

    low: int
    keys: list[int]


def first_optimum(
    structure: Structure, taken: Callable[[int], Taken], known: Sequence[int], tied: set[int]
) -> tuple[int, ...]:
    """Return the first optimum, compared from the last node back.

    Args:
        structure: the structure of the cost graph.
        taken: returns what touched a node when it left, by its number in the order in which the nodes left.
        known: an optimum.
        tied: the nodes another choice of which costs the same, beside the choices that it takes of the others.
    """
    found = _every_optimum(structure, taken, known, tied)
    first = list(known)
    bits = max(structure.sizes).bit_length()
    differ = [node for node in sorted(found) if (found[node].picks != known[node]).any()]
    shifts = {node: bits * digit for digit, node in enumerate(differ)}
    completions: dict[int, _Completions] = {}
    roots = 0
    for node, optimal in reversed(found.items()):
        best = _best(optimal, shifts.get(node), completions)
        if optimal.alone:
            roots |= best.keys[0] << best.low
        else:
            completions[node] = best
    for node, shift in shifts.items():
        first[node] = roots >> shift & (1 << bits) - 1
    return tuple(first)


def _best(optimal: _Optimal, shift: int | None, completions: dict[int, _Completions]) -> _Completions:
    """Return for each row the least completion; those of the tables below are used up.

    Args:
        optimal: a node's optimal choices.
        shift: where the node's choice is in the number; None where all optima agree in it.
        completions: those of tables below, by the node that left each.
    """
    lower = [(completions.pop(node), rows.tolist()) for node, rows in optimal.below.items()]
    low = min([below.low for below, _ in lower] + ([] if shift is None else [shift]), default=0)
    best: list[int] = []
    for at, (row, pick) in enumerate(zip(optimal.rows.tolist(), optimal.picks.tolist(), strict=True)):
        key = 0 if shift is None else pick << shift - low
        for below, rows in lower:
            key |= below.keys[rows[at]] << below.low - low
        if row == len(best):
            best.append(key)
        elif key < best[row]:
            best[row] = key
    return _Completions(low, best)


def _every_optimum(
    structure: Structure, taken: Callable[[int], Taken], known: Sequence[int], tied: set[int]
) -> dict[int, _Optimal]:
    """Return the optimal choices of all nodes but those of one row and one choice, those that left last first."""
    steps, lower, sizes = trace(structure).steps, _lower(structure), structure.sizes
    scopes: dict[int, Indices] = {}
    found: dict[int, _Optimal] = {}
    for at in range(len(steps) - 1, -1, -1):
        node, scope = steps[at].node, steps[at].scope
        if node not in tied and node not in scopes:
            continue
        # One row of choices is that of the optimum that is known.
        beside = scopes.pop(node) if node in scopes else np.array([[known[near] for near in scope]], np.intp)
        costs = np.atleast_2d(taken(at).costs(dict(zip(scope, beside.T, strict=True))))
        rows, picks = np.nonzero(costs == costs.min(axis=1, keepdims=True))
        columns = dict(zip(scope, beside[rows].T, strict=True)) | {node: picks}
        below = {}
        for other, of_other in lower[node]:
            chosen = np.stack([columns[near] for near in of_other], axis=1)
            chosen, leads = _distinct(chosen, [sizes[near] for near in of_other])
            if len(chosen) > 1:
                scopes[other], below[other] = chosen, leads
        found[node] = _Optimal(rows, picks, below, alone=len(beside) == 1)
    return found


@lru_cache(maxsize=64)
def _lower(structure: Structure) -> list[list[tuple[int, Scope]]]:
    """Return for each node the nodes whose tables it takes along, each with its scope."""
    steps = trace(structure).steps
    left_at = {step.node: at for at, step in enumerate(steps)}
    found: list[list[tuple[int, Scope]]] = [[] for _ in structure.sizes]
    for step in steps:
        if step.scope:
            found[min(step.scope, key=left_at.__getitem__)].append((step.node, step.scope))
    return found


def _distinct(chosen: Indices, sizes: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the distinct rows of choices, and for each row its place among them."""
    if len(chosen) == 1:
        return chosen, np.zeros(1, dtype=np.intp)
    entries = np.ravel_multi_index(tuple(chosen.T), tuple(sizes))
    _, first, place = np.unique(entries, return_index=True, return_inverse=True)
    return chosen[first], place


def eliminated(problem: CostGraph, structure: Structure) -> tuple[int, ...]:
    """Return the first best assignment: all nodes leave, then each gets its choice, the last that left first.

    Args:
        problem: a cost graph; its costs are rounded so that all sums are exact.
        structure: its structure.
    """
    program = program_of(structure)
    if program is None:
        found, taken, tied = _folded(problem.summable(), structure)
    else:
        found, taken, tied = program.run(problem.summable_entries())
    return first_optimum(structure, taken, found, tied) if tied else tuple(found)


def _folded(problem: CostGraph, structure: Structure) -> tuple[list[int], Callable[[int], Taken], set[int]]:
    """Return an optimum, the costs with which each node left, and the nodes that have an equal choice beside it."""
    folding = Folding(problem)
    taken = [folding.fold(step) for step in trace(structure).steps]
    assignment = [0] * len(problem.nodes)
    tied = set()
    for each in reversed(taken):
        costs = each.costs(assignment)
        best = assignment[each.node] = int(costs.argmin())
        if np.count_nonzero(costs == costs[best]) > 1:
            tied.add(each.node)
    return assignment, taken.__getitem__, tied
