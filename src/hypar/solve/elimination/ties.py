"""The choice among equal optima: from the last node back, the first declared choice.

Idea: what a node's costs were when it left, beside choices of its scope that some optimum takes, says which of its
choices optima take. From the last node that left back to the first this finds every optimal choice of every node,
table entry by table entry. Then each of these entries gets the best completion below it, in the order in which the
nodes left: a whole number whose digits are the choices of the nodes in which optima differ, the first node's the
lowest, so that the least number is the optimum whose last node has the first choice, and so on back.
Source: the order of comparison is that of the released partitioner of HyPar (HPCA 2019) and AccPar (HPCA 2020),
whose dynamic programme goes forth along the layers and picks from the last one back.
Cost: one look at the costs of a node for every entry that an optimum takes of its table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.elimination.folding import Folding
from hypar.solve.elimination.order import trace
from hypar.solve.elimination.program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.solve.cost_graph import CostGraph, Structure
    from hypar.solve.edge import Indices
    from hypar.solve.elimination.folding import Taken
    from hypar.solve.elimination.order import Scope


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
