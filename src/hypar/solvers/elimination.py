"""Elimination: nodes leave the graph one by one, their optimum folded into their neighbours.

Idea: DeePa (2018), node and edge elimination, generalised to variable elimination, the "min-sum" form of
bucket elimination (Dechter, Artificial Intelligence 113, 1999). Parallel edges are added up (edge
elimination). A node that leaves takes all the costs that touch it along; what remains is a table over
its neighbours, ``rest[y...] = min over x of (sum of its costs at x, y...)``: a vector where it had one
neighbour (leaf elimination), an edge where it had two (node elimination), a larger table otherwise.
Undoing the eliminations in reverse gives every node its choice.

Order: min-fill, the node next whose leaving joins the fewest neighbours that were not joined; ties to the
least work, then to the lowest index. Trees and series-parallel graphs need no table above two nodes.
Cost: for each node the product of its own and its neighbours' numbers of choices.
Guarantee: exact on any graph; the tables it needs are known beforehand and refused past the limit.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hypar.problem import Costs, Solution
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Structure


_BLOCK = 2**14
"""Entries of a table worked on at once, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class _Factor:
    """A cost over some nodes: a dim of ``costs`` for each node of ``scope``, in rising order."""

    scope: tuple[int, ...]
    costs: Costs


class Elimination:
    """Exact on any graph whose tables fit."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """Follow the order without costs."""
        edges = [structure.sizes[a] * structure.sizes[b] for a, b in structure.pairs]
        largest, total = max(edges, default=0), sum(edges)
        for node, scope in elimination_order(structure):
            entries = structure.sizes[node] * math.prod(structure.sizes[near] for near in scope)
            largest = max(largest, entries)
            total += entries
        return Tables(largest=largest, total=total)

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then undo."""
        structure = problem.structure
        tables = self.tables(structure)
        if tables is not None:
            require_tables("elimination", tables)
        touching = _factors(problem)
        taken: list[tuple[int, list[_Factor]]] = []
        for node, scope in elimination_order(structure):
            factors = list(touching[node].values())
            taken.append((node, factors))
            for factor in factors:
                for near in factor.scope:
                    if near != node:
                        del touching[near][factor.scope]
            if scope:
                _add(touching, _Factor(scope, _minimise(node, scope, factors, structure.sizes)))
        assignment = [0] * len(structure.sizes)
        for node, factors in reversed(taken):
            costs = sum(_fix(factor, node, assignment) for factor in factors)
            assignment[node] = int(np.argmin(costs))
        return Solution(assignment=tuple(assignment), cost=problem.cost(assignment))


@lru_cache(maxsize=16)
def elimination_order(structure: Structure) -> list[tuple[int, tuple[int, ...]]]:
    """The nodes in the order in which they leave, each with the neighbours that it then has."""
    near = structure.neighbours()
    weights = [math.log2(size) for size in structure.sizes]

    def rank(node: int) -> tuple[int, float, int]:
        fill = sum(b not in near[a] for a, b in combinations(near[node], 2))
        return fill, weights[node] + sum(weights[other] for other in sorted(near[node])), node

    ranks = {node: rank(node) for node in range(len(near))}
    queue = list(ranks.values())
    heapq.heapify(queue)
    order = []
    while queue:
        entry = heapq.heappop(queue)
        node = entry[2]
        if ranks.get(node) != entry:
            continue
        del ranks[node]
        scope = tuple(sorted(near[node]))
        order.append((node, scope))
        for a in scope:
            near[a].discard(node)
            near[a].update(b for b in scope if b != a)
        for other in set(scope).union(*(near[a] for a in scope)):
            if ranks[other] != (new := rank(other)):
                ranks[other] = new
                heapq.heappush(queue, new)
    return order


def _factors(problem: CostGraph) -> list[dict[tuple[int, ...], _Factor]]:
    """The factors that touch each node, by scope; equal scopes are added up."""
    touching: list[dict[tuple[int, ...], _Factor]] = [{} for _ in problem.nodes]
    for node, costs in enumerate(problem.nodes):
        _add(touching, _Factor((node,), costs))
    for edge in problem.edges:
        forward = edge.source < edge.target
        scope = (edge.source, edge.target) if forward else (edge.target, edge.source)
        _add(touching, _Factor(scope, edge.costs if forward else edge.costs.T))
    return touching


def _add(touching: list[dict[tuple[int, ...], _Factor]], factor: _Factor) -> None:
    """Bring a factor in, or add it to the one over the same nodes."""
    same = touching[factor.scope[0]].get(factor.scope)
    if same is not None:
        factor = _Factor(factor.scope, same.costs + factor.costs)
    for node in factor.scope:
        touching[node][factor.scope] = factor


def _minimise(node: int, scope: tuple[int, ...], factors: list[_Factor], sizes: tuple[int, ...]) -> Costs:
    """The table over ``scope`` that is left when ``node`` takes its best choice, choice by choice."""
    shape = [sizes[near] for near in scope]
    views = []
    for factor in factors:
        costs = np.moveaxis(factor.costs, factor.scope.index(node), 0)
        dims = [size if near in factor.scope else 1 for near, size in zip(scope, shape, strict=True)]
        views.append(np.ascontiguousarray(costs.reshape([sizes[node], *dims])))
    rest = np.full(shape, np.inf)
    rows = max(1, _BLOCK * shape[0] // rest.size)
    for start in range(0, shape[0], rows):
        block = slice(start, start + rows)
        _minimise_block([view[:, block] if view.shape[1] > 1 else view for view in views], rest[block])
    return rest


def _minimise_block(views: list[Costs], rest: Costs) -> None:
    """Keep in ``rest`` the least, over the first dim, of the sum of the views."""
    here = np.empty_like(rest)
    for parts in zip(*views, strict=True):
        np.add(parts[0], parts[1] if len(parts) > 1 else 0.0, out=here)
        for part in parts[2:]:
            np.add(here, part, out=here)
        np.minimum(rest, here, out=rest)


def _fix(factor: _Factor, node: int, assignment: list[int]) -> Costs:
    """The factor's costs over ``node`` alone, the other nodes as assigned."""
    return factor.costs[tuple(slice(None) if near == node else assignment[near] for near in factor.scope)]


plugin: Solver = Elimination()
