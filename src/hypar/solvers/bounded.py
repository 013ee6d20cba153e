"""Mini-buckets: an assignment and a lower bound, where the tables of elimination would be too large.

Idea: choices that no optimum takes leave; costs are moved along the edges until the sum of their least entries rises
no more; then nodes leave as by elimination, but where a joint table would have more than ``cap`` entries the costs
are split and minimised part by part, the parts' shares of the node's costs made equal, which gives the bound. Undone
in reverse with all costs together every node gets its choice. Exchanges of one and of two choices improve these, the
best choices of the nodes by themselves, and some drawn; the best of all is the answer.
Cost: no table above the cap, but for a single matrix that is; a cap's work for each part.
Guarantee: bound <= optimum <= cost, equal where nothing is split; the gap between them is what is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.problem import Solution
from hypar.reduction import Bucket, Part, buckets, descended, diffused, eliminated, spread, steps, undominated
from hypar.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.problem import CostGraph, Costs, Structure

ROUNDING = 2.0**-36
"""What the bound may be off by, as a part of the sum of the largest costs; it is lowered by as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Not exact, but it says how far from the optimum it may be.

    Attributes:
        cap: entries of the largest joint table.
        rounds: how often costs are moved along all edges at the most.
        starts: how many assignments are drawn, from a fixed seed, to be improved beside those that are found.
    """

    exact = False
    cap: int = 2**24
    rounds: int = 50
    starts: int = 8

    def tables(self, structure: Structure) -> Tables:
        """Whole matrices beside the graph, the tables left, and the largest sum."""
        order = buckets(structure, self.cap)
        parts = [part for bucket in order for part in bucket.parts]
        split = len(parts) > len(order)
        sizes = structure.sizes
        whole = sum(sizes) + sum(sizes[link.source] * sizes[link.target] for link in structure.links)
        left = sum(part.entries // sizes[bucket.node] for bucket in order for part in bucket.parts)
        largest = max((part.entries for part in parts), default=0)
        return Tables(
            stored=structure.entries + whole + left + largest,
            work=sum(part.entries * len(part.factors) for part in parts)
            + whole * (4 * self.rounds * split + 1),
            width=max((len(part.scope) for part in parts), default=0),
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate part by part, undo, improve."""
        left = undominated(problem)
        structure = left.problem.structure
        require_tables("bounded", self.tables(structure))
        order = buckets(structure, self.cap)
        if all(len(bucket.parts) == 1 for bucket in order):
            assignment = left.original(eliminated(left.problem, steps(structure)))
            cost = problem.cost(assignment)
            return Solution(assignment=assignment, cost=cost, bound=cost)
        found, bound = self._split(left.problem, order)
        assignment = left.original(found)
        cost = problem.cost(assignment)
        return Solution(assignment=assignment, cost=cost, bound=min(bound - _rounding(problem), cost))

    def _split(self, problem: CostGraph, order: Sequence[Bucket]) -> tuple[tuple[int, ...], float]:
        """An assignment, and a lower bound as far as sums are exact."""
        nodes, edges = diffused(problem, self.rounds)
        leaving = _Leaving(problem.structure, [*nodes, *edges])
        bound = sum(leaving.leave(bucket) for bucket in order)
        starts = [leaving.choices(order), *_starts(nodes, problem.nodes, self.starts)]
        return descended(problem, starts, enough=bound + _rounding(problem)), bound


class _Leaving:
    """The costs by number, as ``buckets`` counts them."""

    def __init__(self, structure: Structure, costs: list[Costs]) -> None:
        self.sizes = structure.sizes
        self.costs = costs
        self.scopes: list[tuple[int, ...]] = [(node,) for node in range(len(self.sizes))]
        self.scopes += [(link.source, link.target) for link in structure.links]

    def leave(self, bucket: Bucket) -> float:
        """Let a node leave; what is left over no other node."""
        certain = 0.0
        for part, share in zip(bucket.parts, self._shares(bucket), strict=True):
            least = self._minimised((bucket.node, *part.scope), part, share)
            self.scopes.append(part.scope)
            self.costs.append(least)
            certain += 0.0 if part.scope else float(least)
        return certain

    def _minimised(self, dims: tuple[int, ...], part: Part, share: Costs) -> Costs:
        """What a part costs at its node's best choices."""
        total = np.zeros([self.sizes[near] for near in dims])
        total += share.reshape(-1, *[1] * len(part.scope))
        for number in part.factors:
            total += spread(self.scopes[number], self.costs[number], dims)
        return np.asarray(total.min(axis=0))

    def choices(self, order: Sequence[Bucket]) -> list[int]:
        """Every node's first best choice by all costs that left with it, the later nodes as chosen before."""
        found = [0] * len(self.sizes)
        for bucket in reversed(order):
            total = np.zeros(self.sizes[bucket.node])
            for number in (number for part in bucket.parts for number in part.factors):
                at = [slice(None) if near == bucket.node else found[near] for near in self.scopes[number]]
                total += self.costs[number][tuple(at)]
            found[bucket.node] = int(total.argmin())
        return found

    def _shares(self, bucket: Bucket) -> list[Costs]:
        """What each part gets so that the node's choices cost at least the same in all; they sum to nothing."""
        least = [self._least(bucket.node, part) for part in bucket.parts]
        mean = sum(least) / len(least)
        return [mean - of_part for of_part in least]

    def _least(self, node: int, part: Part) -> Costs:
        """What the node's choices cost at least in a part, cost by cost."""
        total = np.zeros(self.sizes[node])
        for number in part.factors:
            scope = self.scopes[number]
            others = tuple(at for at, near in enumerate(scope) if near != node)
            total += self.costs[number].min(axis=others)
        return total


def _starts(moved: Sequence[Costs], nodes: Sequence[Costs], count: int) -> list[list[int]]:
    """Every node's best choice by itself, after and before costs are moved, and choices drawn."""
    best = [[int(costs.argmin()) for costs in vectors] for vectors in (moved, nodes)]
    generator = np.random.default_rng(0)
    drawn = [[int(generator.integers(costs.size)) for costs in nodes] for _ in range(count)]
    return best + drawn


def _rounding(problem: CostGraph) -> float:
    """What the bound may be off by."""
    largest = [np.abs(costs).max() for costs in problem.nodes]
    largest += [np.abs(term).max() for edge in problem.edges for term in edge.terms]
    return ROUNDING * float(sum(largest))


plugin: Solver = Bounded()
