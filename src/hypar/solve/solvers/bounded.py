"""A plan and its gap: an assignment and a lower bound, where the tables of elimination would be too large.

Idea: where elimination computes no more than the messages, it is elimination.
Else messages along the edges raise a lower bound and point at an assignment after every round. If they prove none, it is
elimination where that is within the limits; if not, exchanges of one and of two choices improve the best of these, the
nodes' best choices by themselves, and some drawn.
Cost: vectors alone beside the graph, two for each edge; rounds and exchanges end with the work that they may do.
Guarantee: bound <= optimum <= cost. The bound is that of a linear relaxation, exact on trees; sums are whole
multiples of the largest power of two that divides all costs, so a bound less than one below the cost is a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.bounds import Messages, work_of_round
from hypar.solve.cost_graph import Solution
from hypar.solve.limits import ENTRIES_PER_S, Budget
from hypar.solve.minsum import optimum
from hypar.solve.solvers.base import Solver, Tables, require_tables, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.solve.cost_graph import CostGraph, Structure

    Assignment = tuple[int, ...]

TURNS = 4
"""Rounds, and sweeps of exchanges, that a search takes at least, about."""

ROUNDING = 2.0**-36
"""Largest rounding error of the bound, relative to the sum of the largest costs; the bound is lowered by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Not always exact, but it says how far from the optimum it may be.

    Attributes:
        rounds: how often messages are sent along all edges at the most.
        starts: how many assignments are drawn, from a fixed seed, to be improved beside those that are found.
        work: table entries computed by rounds, and again by exchanges; one round is always made.
    """

    exact = False
    rounds: int = 50
    starts: int = 8
    work: int = 2**30

    def tables(self, structure: Structure) -> Tables:
        """Return the size of elimination's tables where they take no more work than that of two vectors for each edge and node."""
        exact, sizes = tables_of(structure), structure.sizes
        messages = sum(sizes[link.source] + sizes[link.target] for link in structure.links)
        steps = max(
            (math.prod(link.source_digits) * link.target_digits[0] for link in structure.links), default=0
        )
        found = Tables(
            stored=structure.entries + messages + 2 * sum(sizes) + 2 * steps,
            work=TURNS * work_of_round(structure.links),
        )
        return exact if exact.fit and exact.work <= found.work else found

    def solve(self, problem: CostGraph) -> Solution:
        """Bound by messages, and eliminate where that fits, else improve."""
        *_, last = self.improving(problem, Budget())
        return last

    def improving(self, problem: CostGraph, budget: Budget) -> Iterator[Solution]:
        """Yield the same after every round of messages, and every start that is improved."""
        exact = problem.summable()
        for assignment, bound in self._search(exact, budget):
            cost = problem.cost(assignment)
            proven = exact.cost(assignment) <= bound
            yield Solution(assignment=assignment, cost=cost, bound=cost if proven else min(bound, cost))

    def _search(self, problem: CostGraph, budget: Budget) -> Iterator[tuple[Assignment, float]]:
        """Yield an assignment, and a lower bound that holds however its sums were rounded."""
        structure = problem.structure
        exact, tables, rounding = tables_of(structure), self.tables(structure), _rounding(problem)
        require_tables("bounded", tables)
        messages = Messages(problem, int(min(self.work, budget.limits.seconds * ENTRIES_PER_S)))
        best, bound = (0,) * len(problem.nodes), -math.inf
        if tables is not exact or not exact.within(budget):
            for best, bound in self._sent(problem, messages, rounding):
                yield best, bound
        cost = problem.cost(best)
        if cost > bound and exact.within(budget):
            best = optimum(problem, structure)
            yield best, problem.cost(best)
        # No assignment costs less by more than the sums' rounding: there is nothing left to search for.
        elif cost > bound + 2 * rounding:
            found: list[Assignment] = []
            for start in [best, *self._starts(problem)]:
                found.append(messages.improved(start))
                yield min(found, key=lambda each: (problem.cost(each), each[::-1])), bound

    def _sent(
        self, problem: CostGraph, messages: Messages, rounding: float
    ) -> Iterator[tuple[Assignment, float]]:
        """Yield an assignment and a lower bound after every round of messages."""
        grain, (best, least) = problem.grain(), ((0,) * len(problem.nodes), math.inf)
        rounds = max(1, min(self.rounds, messages.work // max(1, work_of_round(problem.structure.links))))
        for bound in islice(messages.bounds(), rounds):
            choices = messages.choices()
            if (cost := problem.cost(choices)) < least:
                best, least = choices, cost
            proven = bound - rounding
            proven = math.ceil(proven / grain) * grain if grain else proven
            yield best, proven
            if least <= max(proven, bound + rounding):
                return

    def _starts(self, problem: CostGraph) -> Iterator[Assignment]:
        """Yield every node's best choice by itself, and choices drawn."""
        generator = np.random.default_rng(0)
        yield tuple([int(costs.argmin()) for costs in problem.nodes])
        for _ in range(self.starts):
            yield tuple([int(generator.integers(costs.size)) for costs in problem.nodes])


def _rounding(problem: CostGraph) -> float:
    """Return what the bound may be off by."""
    largest = [np.abs(costs).max() for costs in problem.nodes]
    largest += [np.abs(term).max() for edge in problem.edges for term in edge.terms]
    return ROUNDING * float(sum(largest))


plugins: dict[str, Solver] = {"bounded": Bounded()}
