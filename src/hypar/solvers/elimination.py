"""Elimination: nodes leave the graph one by one, their optimum folded into their neighbours.

Idea: DeePa (2018), node and edge elimination, generalised to variable elimination, the "min-sum" form of
bucket elimination (Dechter, Artificial Intelligence 113, 1999). Parallel edges are added up (edge
elimination). A node that leaves takes all the costs that touch it along; what remains is a table over
its neighbours, ``rest[y...] = min over x of (sum of its costs at x, y...)``: a vector where it had one
neighbour (leaf elimination), an edge where it had two (node elimination), a larger table otherwise.
Undoing the eliminations in reverse gives every node its choice.

Order: min-fill, the node next whose leaving joins the fewest neighbours that were not joined; ties to the
least work, then to the lowest index. Trees and series-parallel graphs need no table above two nodes.
Cost: for each node the product of its neighbours' numbers of choices times its own, or times its digits
where one of its edges is a sum of terms.
Guarantee: exact on any graph; the tables it needs are known beforehand and refused past the limits.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hypar.edge import Costs, Edge, entries_computed
from hypar.problem import Link, Solution
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.problem import CostGraph, Structure

Scope = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One node leaving.

    Attributes:
        node: the node.
        scope: its neighbours then, in rising order.
        over: the neighbour whose edge is minimised over digit by digit; None where no edge can be.
        work: table entries computed.
    """

    node: int
    scope: Scope
    over: int | None
    work: int


class Elimination:
    """Exact on any graph whose tables fit."""

    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        """Follow the order without costs."""
        sizes = structure.sizes
        done = steps(structure)
        # Every table is kept for undoing; beside it the sum that it is the least of is held.
        stored = sum(math.prod(sizes[near] for near in step.scope) for step in done)
        widest = max((_summed(step, sizes) for step in done), default=0)
        return Tables(
            stored=stored + widest + structure.entries, work=sum(step.work for step in done) + sum(sizes)
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then undo."""
        structure = problem.structure
        tables = self.tables(structure)
        if tables is not None:
            require_tables("elimination", tables)
        factors = _Factors(problem)
        taken = []
        for step in steps(structure):
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


@lru_cache(maxsize=16)
def steps(structure: Structure) -> tuple[Step, ...]:
    """The nodes in the order in which they leave."""
    links = _merged_links(structure)
    wide: list[set[Scope]] = [set() for _ in structure.sizes]
    found = []
    for node, scope in _order(structure):
        over = _digit_by_digit(node, scope, links, wide[node])
        found.append(_step(node, scope, over, links, structure.sizes))
        for a in scope:
            wide[a] = {other for other in wide[a] if node not in other}
            if len(scope) > 2:
                wide[a].add(scope)
        if len(scope) == 2:
            links[scope] = _dense_link(scope, structure.sizes)
    return tuple(found)


def _order(structure: Structure) -> list[tuple[int, Scope]]:
    """The nodes by min-fill, each with the neighbours that it then has."""
    near = structure.neighbours()
    weights = [math.log2(size) for size in structure.sizes]

    def rank(node: int) -> tuple[int, float, int]:
        fill = sum(b not in near[a] for a, b in combinations(near[node], 2))
        return fill, weights[node] + math.fsum(weights[other] for other in near[node]), node

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
        scope = near[node]
        order.append((node, tuple(sorted(scope))))
        for a in scope:
            near[a].discard(node)
            near[a].update(b for b in scope if b != a)
        for other in scope.union(*(near[a] for a in scope)):
            if ranks[other] != (new := rank(other)):
                ranks[other] = new
                heapq.heappush(queue, new)
    return order


def _merged_links(structure: Structure) -> dict[Scope, Link]:
    """One link for each pair of nodes; parallel edges that are not of one kind add up to a whole matrix."""
    links: dict[Scope, Link] = {}
    for link in structure.links:
        pair = (min(link.source, link.target), max(link.source, link.target))
        same = links.get(pair, link) == link
        links[pair] = link if same else _dense_link(pair, structure.sizes)
    return links


def _dense_link(pair: Scope, sizes: tuple[int, ...]) -> Link:
    return Link(pair[0], pair[1], (sizes[pair[0]],), (sizes[pair[1]],))


def _digit_by_digit(node: int, scope: Scope, links: Mapping[Scope, Link], wide: set[Scope]) -> int | None:
    """The neighbour over whose edge to minimise: the one with the most digits that no larger table names."""
    named = {other for table in wide for other in table}
    open_ends = [other for other in scope if other not in named and _pair(node, other) in links]
    return max(open_ends, key=lambda other: len(links[_pair(node, other)].source_digits), default=None)


def _step(
    node: int, scope: Scope, over: int | None, links: Mapping[Scope, Link], sizes: tuple[int, ...]
) -> Step:
    """A step with its work."""
    table = math.prod(sizes[near] for near in scope)
    if over is None:
        return Step(node, scope, None, table * sizes[node])
    link = links[_pair(node, over)]
    entries = entries_computed(link.source_digits, link.target_digits)
    others = table // sizes[over]
    return Step(node, scope, over, others * (entries + sizes[node]))


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


def _pair(a: int, b: int) -> Scope:
    return (a, b) if a < b else (b, a)


plugin: Solver = Elimination()
