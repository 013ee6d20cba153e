"""A plan and its gap: an assignment and a lower bound, where the tables of elimination would be too large.

Idea: choices that no optimum takes leave. Where elimination's tables then fit, it is elimination. Else messages along
the edges raise a lower bound and point at an assignment after every round; exchanges of one and of two choices
improve the best of these, the nodes' best choices by themselves, and some drawn.
Cost: vectors alone beside the graph, two for each edge; rounds and exchanges end with the work that they may do.
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
from hypar.solve.elimination.reparametrisation import PAYS, Messages, work_of_round
from hypar.solve.elimination.ties import eliminated
from hypar.solve.solvers.base import Solver, Tables, load_solver, require_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.solve.cost_graph import CostGraph, Structure

TURNS = 8
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
        """Return the size of elimination's tables where they fit, else that of two vectors for each edge and node."""
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
            work=TURNS * work_of_round(structure.links),
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate where that fits; else bound by messages, and improve."""
        *_, last = self.improving(problem)
        return last

    def improving(self, problem: CostGraph) -> Iterator[Solution]:
        """Yield the same after every round of messages, and every start that is improved."""
        left = undominated(problem.summable())
        exact = left.problem
        structure = exact.structure
        tables = load_solver("elimination").tables(structure)
        if tables is not None and tables.fit:
            assignment = left.original(eliminated(exact, structure))
            cost = problem.cost(assignment)
            yield Solution(assignment=assignment, cost=cost, bound=cost)
            return
        require_tables("bounded", self.tables(structure))
        for found, bound in self._search(exact):
            assignment = left.original(found)
            cost = problem.cost(assignment)
            proven = exact.cost(found) <= bound
            yield Solution(assignment=assignment, cost=cost, bound=cost if proven else min(bound, cost))

    def _search(self, problem: CostGraph) -> Iterator[tuple[tuple[int, ...], float]]:
        """Yield an assignment, and a lower bound that holds however its sums were rounded."""
        grain = problem.grain()
        rounding = _rounding(problem)
        messages = Messages(problem)
        rounds = max(1, min(self.rounds, self.work // max(1, work_of_round(problem.structure.links))))
        best, least, bound = [0] * len(problem.nodes), math.inf, -math.inf
        for _ in range(rounds):
            before, bound = bound, max(bound, messages.round())
            choices = messages.choices()
            if (cost := problem.cost(choices)) < least:
                best, least = choices, cost
            proven = _raised(bound - rounding, grain)
            yield tuple(best), proven
            # No assignment costs less by more than the sums' rounding: there is nothing left to search for.
            if least <= max(proven, bound + rounding):
                return
            if bound - before <= PAYS * abs(bound):
                break
        search = LocalSearch(problem, self.work)
        found: list[tuple[int, ...]] = []
        for start in [best, *_starts(problem.nodes, self.starts)]:
            found.append(search.improved(start))
            yield min(found, key=lambda each: (problem.cost(each), each[::-1])), proven


def _starts(nodes: Sequence[np.typing.NDArray[np.float64]], count: int) -> list[list[int]]:
    """Return every node's best choice by itself, and choices drawn."""
    generator = np.random.default_rng(0)
    drawn = [[int(generator.integers(costs.size)) for costs in nodes] for _ in range(count)]
    return [[int(costs.argmin()) for costs in nodes], *drawn]


def _raised(bound: float, grain: float) -> float:
    """Return the least multiple of the grain that is not below a bound."""
    return math.ceil(bound / grain) * grain if grain else bound


def _rounding(problem: CostGraph) -> float:
    """Return what the bound may be off by."""
    largest = [np.abs(costs).max() for costs in problem.nodes]
    largest += [np.abs(term).max() for edge in problem.edges for term in edge.terms]
    return ROUNDING * float(sum(largest))


plugin: Solver = Bounded()
