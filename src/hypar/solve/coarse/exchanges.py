"""A better plan near a known one: every node may take other options at one or two levels, all nodes at once."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.cliques import entries_of
from hypar.solve.coarse.states import Coarse
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.elimination.dominance import undominated
from hypar.solve.elimination.ties import eliminated
from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.solve.coarse.states import Spans
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget

GAIN = 1e-12
"""Gain, relative to the cost, below which plans cost the same."""

MOST_WORK = 2**30
"""Most entries computed by a round of exchanges."""


def best_of(coarse: Coarse, budget: Budget) -> tuple[Indices, float] | None:
    """Return the best plan of some sequences of each node, ``[nodes, levels]``, and its cost; None if there are too many."""
    tables = entries_of([len(own) for own in coarse.states], coarse.ladder.ends)
    stored = coarse.entries + tables.held + 2 * tables.widest
    if not budget.allows(stored=stored, work=tables.computed):
        return None
    budget.spend(tables.computed)
    ends = coarse.ladder.ends
    edges = tuple(Edge.dense(*pair, costs) for pair, costs in zip(ends, coarse.pairs, strict=True))
    left = undominated(CostGraph(nodes=tuple(coarse.nodes), edges=edges).summable())
    assignment = left.original(eliminated(left.problem, left.problem.structure))
    orders = np.stack([own[at] for own, at in zip(coarse.states, assignment, strict=True)])
    return orders, coarse.spans.cost(orders)


def exchanged(spans: Spans, orders: Indices, cost: float, budget: Budget) -> Iterator[tuple[Indices, float]]:
    """Yield better and better plans near a known one, ``[nodes, levels]``, with their costs."""
    for radius in (2, 1):
        while (near := _near(spans, orders, radius, budget)) is not None:
            checkpoint()
            found = best_of(near, budget)
            if found is None or found[1] >= cost * (1 - GAIN):
                break
            orders, cost = found
            yield found
        if near is not None:
            return


def _near(spans: Spans, orders: Indices, radius: int, budget: Budget) -> Coarse | None:
    """Return the problem of the sequences near a plan; None if there are too many for a round."""
    ladder = spans.ladder
    offered = [np.repeat(own, ladder.runs).tolist() for own in ladder.options]
    known: dict[object, Indices] = {}
    keys = [(own, order.tobytes()) for own, order in zip(ladder.options, orders, strict=True)]
    for key, own, order in zip(keys, offered, orders, strict=True):
        if key not in known:
            known[key] = _around(order, own, radius)
    states = [known[key] for key in keys]
    work = entries_of([len(own) for own in states], ladder.ends).computed
    if work > MOST_WORK or not budget.allows(work=work):
        return None
    return Coarse(spans, (1,) * ladder.levels, states)


def _around(order: Indices, offered: Sequence[int], radius: int) -> Indices:
    """Return a sequence, and those that differ from it at up to some levels."""
    found = [order[None]]
    for count in range(1, radius + 1):
        for levels in combinations(range(len(order)), count):
            others = np.indices([offered[level] for level in levels]).reshape(count, -1).T
            unlike = others[(others != order[list(levels)]).all(axis=1)]
            rows = np.repeat(order[None], len(unlike), axis=0)
            rows[:, list(levels)] = unlike
            found.append(rows)
    return np.concatenate(found)
