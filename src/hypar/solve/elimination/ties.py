"""The tie-break among equal optima: from the last node back, the first declared choice.

Idea: the costs of a node at its elimination, given optimal choices of its scope, show which of its choices optima
take. A pass from the last eliminated node to the first finds every optimal choice of every node, table entry by table
entry. A second pass, in elimination order, gives each such entry its best completion below it, encoded as a whole
number with the choice of node i as its digit i: the least number is the optimum whose last node has its first choice,
and so on back.
Source: the order of comparison is that of the released partitioner of HyPar (HPCA 2019) and AccPar (HPCA 2020),
whose dynamic programme runs forward along the layers and picks choices from the last layer back.
Cost: one lookup of a node's costs for every optimal entry of its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.elimination.folding import Folding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Indices
    from hypar.solve.elimination.folding import Taken
    from hypar.solve.elimination.order import Step


@dataclass(frozen=True, slots=True)
class _Optimal:
    """The optimal choices of a node, given optimal choices of its scope.

    Attributes:
        rows: index of the scope's row of choices for each of them, rising.
        picks: the node's choice in each of them.
        below: rows in each earlier node's table that this node absorbed, by that earlier node.
    """

    rows: Indices
    picks: Indices
    below: dict[int, Indices]


def first_optimum(taken: Sequence[Taken], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the first optimum, compared from the last node back.

    Args:
        taken: the nodes with their costs, in elimination order.
        sizes: the number of choices of each node.
    """
    found = _every_optimum(taken, sizes)
    bits = max(sizes).bit_length()
    keys: dict[int, list[int]] = {}
    roots = 0
    for each in taken:
        best = _best(found[each.node], bits * each.node, keys)
        if each.scope:
            keys[each.node] = best
        else:
            roots |= best[0]
    return tuple(roots >> bits * node & (1 << bits) - 1 for node in range(len(sizes)))


def _best(optimal: _Optimal, shift: int, keys: dict[int, list[int]]) -> list[int]:
    """Return the least completion of each row as a whole number; completions of the tables below are consumed."""
    lower = [(keys.pop(node), rows.tolist()) for node, rows in optimal.below.items()]
    best: list[int] = []
    for at, (row, pick) in enumerate(zip(optimal.rows.tolist(), optimal.picks.tolist(), strict=True)):
        key = pick << shift
        for of_table, rows in lower:
            key |= of_table[rows[at]]
        if row == len(best):
            best.append(key)
        elif key < best[row]:
            best[row] = key
    return best


def _every_optimum(taken: Sequence[Taken], sizes: Sequence[int]) -> dict[int, _Optimal]:
    """Return every node's optimal choices, with the choices of its scope that they belong to."""
    left_at = {each.node: at for at, each in enumerate(taken)}
    above: list[list[Taken]] = [[] for _ in sizes]
    for each in taken:
        if each.scope:
            above[min(each.scope, key=left_at.__getitem__)].append(each)
    scopes: dict[int, Indices] = {}
    found: dict[int, _Optimal] = {}
    for each in reversed(taken):
        beside = scopes.pop(each.node, np.zeros((1, 0), dtype=np.intp))
        costs = np.atleast_2d(each.costs(dict(zip(each.scope, beside.T, strict=True))))
        rows, picks = np.nonzero(costs == costs.min(axis=1, keepdims=True))
        columns = dict(zip(each.scope, beside[rows].T, strict=True)) | {each.node: picks}
        below = {}
        for other in above[each.node]:
            chosen = np.stack([columns[near] for near in other.scope], axis=1)
            scopes[other.node], below[other.node] = _distinct(chosen, [sizes[near] for near in other.scope])
        found[each.node] = _Optimal(rows, picks, below)
    return found


def _distinct(chosen: Indices, sizes: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the distinct rows of choices, and each row's index among them."""
    if len(chosen) == 1:
        return chosen, np.zeros(1, dtype=np.intp)
    entries = np.ravel_multi_index(tuple(chosen.T), tuple(sizes))
    _, first, place = np.unique(entries, return_index=True, return_inverse=True)
    return chosen[first], place


def eliminated(problem: CostGraph, steps: Iterable[Step]) -> tuple[int, ...]:
    """Eliminate all nodes and return the first optimum, as the tie-break orders them."""
    folding = Folding(problem)
    taken = [folding.fold(step) for step in steps]
    assignment = [0] * len(problem.nodes)
    ties = 0
    for each in reversed(taken):
        costs = each.costs(assignment)
        best = assignment[each.node] = int(costs.argmin())
        ties += int(np.count_nonzero(costs == costs[best])) - 1
    return first_optimum(taken, [costs.size for costs in problem.nodes]) if ties else tuple(assignment)
