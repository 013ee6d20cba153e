"""Tuples that no optimum takes, left out before the matrices of their pairs are built.

Idea: the cost of a tuple and the least costs of everything else exceed the cost of a plan that is known. Edges cost
nothing or more, so they count as nothing until they are built; then each end is charged with half of the least cost of
a pair. Guarantee: every optimum stays, by more than rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import TableLimitError
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.graphs.moved import Builder
    from hypar.solve.edge import Costs, Indices

MOST_PAIRS = 2**28
"""Most pairs of tuples of all distinct tensors: some seven gigabytes while their costs are computed."""

ROUNDING = 1e-9
"""Largest rounding error of a sum of costs, relative to it."""


class Narrowed(NamedTuple):
    """A cost graph of some tuples.

    Attributes:
        problem: the cost graph.
        kept: for each node the index of each tuple among all.
    """

    problem: CostGraph
    kept: tuple[Indices, ...]

    def original(self, assignment: Sequence[int]) -> tuple[int, ...]:
        """Return an assignment with the indices among all tuples."""
        return tuple(int(kept[choice]) for kept, choice in zip(self.kept, assignment, strict=True))


def narrowed(builder: Builder, known: float) -> Narrowed:
    """Return the cost graph of the tuples that may be part of a plan of no more than a known cost.

    Raises:
        TableLimitError: more pairs of tuples are left than their costs have room.
    """
    kept = _shared([*builder.nodes], _promising(builder.least_alone(), known))
    pairs = builder.pairs(kept)
    if pairs > MOST_PAIRS:
        message = f"search 'joint': found {pairs:,} pairs of choices over all levels; allowed: {MOST_PAIRS:,}"
        raise TableLimitError(message, pairs, MOST_PAIRS)
    problem = builder.built(kept)
    left = _shared([*problem.nodes], _promising(_with_edges(problem), known))
    found = tuple(own[keep] for own, keep in zip(kept, left, strict=True))
    return Narrowed(_part(problem, left), found)


def _promising(least: Sequence[Costs], known: float) -> list[Indices]:
    """Return the choices of each node whose least cost, with the least of all others, is no more than a known cost."""
    lowest = [float(costs.min()) for costs in least]
    slack = known * (1 + ROUNDING) - sum(lowest)
    return [np.flatnonzero(costs - low <= slack) for costs, low in zip(least, lowest, strict=True)]


def _with_edges(problem: CostGraph) -> list[Costs]:
    """Return the cost of each node's choices with half of the least cost of every edge."""
    found = [costs.copy() for costs in problem.nodes]
    halves: dict[int, tuple[Costs, Costs]] = {}
    for edge in problem.edges:
        term = edge.terms[0]
        if id(term) not in halves:
            halves[id(term)] = (term[:, 0].min(axis=1) / 2, term[:, 0].min(axis=0) / 2)
        made, read = halves[id(term)]
        found[edge.source] += made
        found[edge.target] += read
    return found


def _shared(nodes: Sequence[Costs], kept: Sequence[Indices]) -> list[Indices]:
    """Return selections, equal ones of equal nodes as one object."""
    found: dict[object, Indices] = {}
    return [found.setdefault((id(costs), own.tobytes()), own) for costs, own in zip(nodes, kept, strict=True)]


def _part(problem: CostGraph, left: Sequence[Indices]) -> CostGraph:
    """Return the cost graph of some choices; equal selections of one array are one array."""
    cut: dict[object, Costs] = {}
    nodes, edges = [], []
    for costs, own in zip(problem.nodes, left, strict=True):
        nodes.append(cut.setdefault((id(costs), id(own)), costs[own]))
    for edge in problem.edges:
        term, rows, columns = edge.terms[0], left[edge.source], left[edge.target]
        key = (id(term), id(rows), id(columns))
        if key not in cut:
            cut[key] = term[np.ix_(rows, np.arange(1), columns)]
        edges.append(Edge(source=edge.source, target=edge.target, terms=(cut[key],)))
    return CostGraph(nodes=tuple(nodes), edges=tuple(edges))
