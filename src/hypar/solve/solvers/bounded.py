"""An assignment and a lower bound, for graphs whose elimination tables would be too large.

Idea: dominated choices are removed. If elimination's tables then fit, the solver eliminates. Otherwise messages along
the edges (TRW-S) raise a lower bound and yield an assignment after every round; local search improves the best of
these, the assignment of each node's own best choice, and some random ones.
Cost: only vectors beside the graph, two for each edge; rounds and local search end when their work is used up.
Guarantee: bound <= optimum <= cost. The bound is that of a linear relaxation, exact on trees; sums are whole
multiples of the largest power of two that divides all costs, so a bound less than one below the cost is a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.cost_graph import Solution
from hypar.solve.elimination.dominance import undominated
from hypar.solve.elimination.local_search import LocalSearch
from hypar.solve.elimination.order import trace
from hypar.solve.elimination.reparametrisation import PAYS, Messages, work_of_round
from hypar.solve.elimination.ties import eliminated
from hypar.solve.solvers.base import Solver, Tables, load_solver, require_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.cost_graph import CostGraph, Structure

ROUNDING = 2.0**-36
"""Rounding error of the bound, as a fraction of the sum of the largest costs; the bound is lowered by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """An inexact solver with a lower bound on the optimum.

    Attributes:
        rounds: largest number of rounds of messages.
        starts: number of random assignments, from a fixed seed, improved beside those found.
        work: limit of table entries computed by rounds, and again by local search; one round is always made.
    """

    exact = False
    rounds: int = 50
    starts: int = 8
    work: int = 2**31

    def tables(self, structure: Structure) -> Tables:
        """Return the size of elimination's tables if they fit, otherwise of two vectors for each edge and node."""
        exact = load_solver("elimination").tables(structure)
        if exact is not None and exact.fit:
            return exact
        sizes = structure.sizes
        messages = sum(sizes[link.source] + sizes[link.target] for link in structure.links)
        steps = max(
            (math.prod(link.source_digits) * link.target_digits[0] for link in structure.links), default=0
        )
        return Tables(
            stored=structure.entries + messages + 2 * sum(sizes) + 2 * steps,
            work=work_of_round(structure.links),
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate if the tables fit; otherwise compute a bound by messages and improve assignments."""
        left = undominated(problem)
        exact = left.problem.summable(problem.exponent())
        structure = exact.structure
        tables = load_solver("elimination").tables(structure)
        if tables is not None and tables.fit:
            assignment = left.original(eliminated(exact, trace(structure).steps))
            cost = problem.cost(assignment)
            return Solution(assignment=assignment, cost=cost, bound=cost)
        require_tables("bounded", self.tables(structure))
        found, bound = self._search(exact)
        assignment = left.original(found)
        cost = problem.cost(assignment)
        proven = exact.cost(found) <= bound
        return Solution(assignment=assignment, cost=cost, bound=cost if proven else min(bound, cost))

    def _search(self, problem: CostGraph) -> tuple[tuple[int, ...], float]:
        """Return an assignment, and a lower bound that is safe against rounding."""
        grain = problem.grain()
        rounding = _rounding(problem)
        messages = Messages(problem)
        rounds = max(1, min(self.rounds, self.work // max(1, work_of_round(problem.structure.links))))
        best, bound = [0] * len(problem.nodes), -math.inf
        for _ in range(rounds):
            before, bound = bound, max(bound, messages.round())
            best = min(best, messages.choices(), key=problem.cost)
            proven = _raised(bound - rounding, grain)
            if problem.cost(best) <= proven:
                return tuple(best), proven
            if bound - before <= PAYS * abs(bound):
                break
        search = LocalSearch(problem, self.work)
        starts = [best, *_starts(problem.nodes, self.starts)]
        found = min(
            (search.improved(start) for start in starts), key=lambda each: (problem.cost(each), each[::-1])
        )
        return found, proven


def _starts(nodes: Sequence[np.typing.NDArray[np.float64]], count: int) -> list[list[int]]:
    """Return the assignment of each node's own best choice, and random assignments."""
    generator = np.random.default_rng(0)
    drawn = [[int(generator.integers(costs.size)) for costs in nodes] for _ in range(count)]
    return [[int(costs.argmin()) for costs in nodes], *drawn]


def _raised(bound: float, grain: float) -> float:
    """Return the least multiple of the grain at or above a bound."""
    return math.ceil(bound / grain) * grain if grain else bound


def _rounding(problem: CostGraph) -> float:
    """Return the rounding error of the bound."""
    largest = [np.abs(costs).max() for costs in problem.nodes]
    largest += [np.abs(term).max() for edge in problem.edges for term in edge.terms]
    return ROUNDING * float(sum(largest))


plugin: Solver = Bounded()
