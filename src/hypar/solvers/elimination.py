"""Elimination: nodes leave the graph one by one, their optimum folded into their neighbours.

Idea: DeePa (2018), node and edge elimination, generalised to variable elimination, the "min-sum" form of
bucket elimination (Dechter, Artificial Intelligence 113, 1999). Parallel edges are added up (edge
elimination). A node that leaves takes all the costs that touch it along; what remains is a table over
its neighbours, ``rest[y...] = min over x of (sum of its costs at x, y...)``: a vector where it had one
neighbour (leaf elimination), an edge where it had two (node elimination), a larger table otherwise.
Undoing the eliminations in reverse gives every node its choice.

Order: min-fill, as ``hypar.reduction`` has it.
Cost: for each node the product of its neighbours' numbers of choices times its own, or times its digits
where one of its edges is a sum of terms.
Guarantee: exact on any graph; the tables it needs are known beforehand and refused past the limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.edge import Costs, Edge
from hypar.problem import Solution
from hypar.reduction import Step, trace
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Structure

Scope = tuple[int, ...]


class Elimination:
    """Exact on any graph whose tables fit."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """Follow the order without costs."""
        sizes = structure.sizes
        found = trace(structure)
        # Every table is kept for undoing; beside it the sum that it is the least of is held.
        stored = sum(step.entries for step in found.steps)
        widest = max((_summed(step, sizes) for step in found.steps), default=0)
        return Tables(
            stored=stored + widest + structure.entries,
            work=sum(step.work for step in found.steps) + sum(sizes),
            width=found.width,
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then undo."""
        structure = problem.structure
        tables = self.tables(structure)
        if tables is not None:
            require_tables("elimination", tables)
        factors = _Factors(problem)
        taken = []
        for step in trace(structure).steps:
            edges, others = factors.take(step.node)
            taken.append((step.node, edges, others))
            if step.scope:
                rest = _minimise(step, problem.nodes, edges, others)
                factors.add(step.scope, rest)
        assignment = [0] * len(problem.nodes)
        for node, edges, others in reversed(taken):
            beside = [_beside(edge, node, assignment) for edge in edges]
            sliced = [_slice(scope, table, node, assignment) for scope, table in others]
            assignment[node] = int(np.argmin(sum([*beside, *sliced])))
        return Solution(assignment=tuple(assignment), cost=problem.cost(assignment))


def _summed(step: Step, sizes: tuple[int, ...]) -> int:
    """Entries of the sum over which a step minimises."""
    over = 1 if step.over is None else sizes[step.over]
    return sizes[step.node] * math.prod(sizes[near] for near in step.scope) // over


class _Factors:
    """The costs that touch each node: edges to others, and tables over the node alone or over several."""

    def __init__(self, problem: CostGraph) -> None:
        self.sizes = problem.structure.sizes
        self.edges: list[dict[int, Edge]] = [{} for _ in problem.nodes]
        self.tables: list[dict[Scope, Costs]] = [{(node,): costs} for node, costs in enumerate(problem.nodes)]
        for edge in problem.edges:
            self.join(edge)

    def join(self, edge: Edge) -> None:
        """Bring an edge in, or add it to the one between the same nodes."""
        same = self.edges[edge.source].get(edge.target)
        whole = edge if same is None else same.plus(edge)
        self.edges[edge.source][edge.target] = self.edges[edge.target][edge.source] = whole

    def add(self, scope: Scope, table: Costs) -> None:
        """Bring a table in: an edge where it is over two nodes."""
        if len(scope) == 2:
            self.join(Edge.dense(scope[0], scope[1], table))
            return
        same = self.tables[scope[0]].get(scope)
        table = table if same is None else same + table
        for node in scope:
            self.tables[node][scope] = table

    def take(self, node: int) -> tuple[list[Edge], list[tuple[Scope, Costs]]]:
        """Everything that touches a node, taken out."""
        edges, tables = self.edges[node], self.tables[node]
        for other in edges:
            del self.edges[other][node]
        for scope in tables:
            for other in scope:
                if other != node:
                    del self.tables[other][scope]
        return list(edges.values()), list(tables.items())


def _minimise(
    step: Step, nodes: tuple[Costs, ...], edges: list[Edge], others: list[tuple[Scope, Costs]]
) -> Costs:
    """The table over a step's scope that is left when its node takes its best choice."""
    first = next((edge for edge in edges if step.over in (edge.source, edge.target)), None)
    rest = tuple(near for near in step.scope if near != step.over)
    dims = (step.node, *rest)
    total = np.zeros([nodes[near].size for near in dims])
    tables = [((edge.source, edge.target), edge.costs) for edge in edges if edge is not first]
    for scope, table in (*tables, *others):
        order = sorted(range(len(scope)), key=lambda at, scope=scope: dims.index(scope[at]))  # type: ignore[misc]
        sizes = [nodes[near].size if near in scope else 1 for near in dims]
        total += table.transpose(order).reshape(sizes)
    if first is None:
        return np.asarray(total.min(axis=0))
    table = first.least_over_source(total) if first.source == step.node else first.least_over_target(total)
    return np.moveaxis(table, 0, step.scope.index(step.over or 0))


def _beside(edge: Edge, node: int, assignment: list[int]) -> Costs:
    """An edge's costs over one end, the other as assigned."""
    if edge.source == node:
        return edge.of_target(assignment[edge.target])
    return edge.of_source(assignment[edge.source])


def _slice(scope: Scope, table: Costs, node: int, assignment: list[int]) -> Costs:
    """A table's costs over one node, the others as assigned."""
    return table[tuple(slice(None) if near == node else assignment[near] for near in scope)]


plugin: Solver = Elimination()
