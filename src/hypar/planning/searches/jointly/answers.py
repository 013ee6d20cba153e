"""How far a joint search has come, and its answer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.planning.question import Answer, costs_by_level, load_search
from hypar.solve.solvers.base import FALLBACK, load_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.planning.question import Question
    from hypar.sharding.placement import Options


class Standing(NamedTuple):
    """How far a search has come.

    Attributes:
        cost: the cost of its best plan.
        bound: a lower bound of every plan's cost; None if there is none yet.
        exact: whether the plan is proven optimal.
        solver: name of the solver.
        choices: returns for each layer a choice at each level.
    """

    cost: float
    bound: float | None
    exact: bool
    solver: str
    choices: Callable[[], tuple[Options, ...]]

    def answer(self, question: Question) -> Answer:
        """Return the answer of a search problem."""
        choices = self.choices()
        costs = costs_by_level(question, choices)
        bounds: tuple[float, ...] = ()
        if self.bound is not None:
            # Sums in another order differ by rounding where a number of ways is no power of two.
            bounds = (total(costs) if self.exact else min(self.bound, total(costs)),)
        return Answer(choices=choices, costs=costs, solver=self.solver, exact=self.exact, bounds=bounds)


def greedy(question: Question, bound: float | None = None, solver: str = FALLBACK) -> Standing:
    """Return the plan level by level with a lower bound, under the name of a solver."""
    found = load_search("greedy").run(replace(question, solver=None))
    return Standing(total(found.costs), bound, False, solver, lambda: found.choices)


def level_by_level(question: Question) -> Standing:
    """Return the greedy plan, with the sum of the lower bounds of the single levels."""
    solver = load_solver(FALLBACK)
    bounds = []
    left = question.outermost()
    for index in range(len(question.levels)):
        solution = solver.solve(question.cost_graph(index, index + 1, left))
        bounds.append(solution.cost if solution.bound is None else solution.bound)
        left = question.below_all(index, left)
    return greedy(question, math.fsum(bounds))


def better_of(one: Standing, other: Standing) -> Standing:
    """Return the cheaper of two plans, with the higher bound of both; the first one if it is proven."""
    if one.exact or one.bound is None or other.bound is None:
        return one
    best = min(one, other, key=lambda each: each.cost)
    bound = min(max(one.bound, other.bound), best.cost)
    return best._replace(bound=bound, exact=best.exact or bound == best.cost)


def total(costs: Sequence[Sequence[float]]) -> float:
    """Return the cost of all levels, added up as a plan does."""
    return math.fsum(math.fsum(at_level) for at_level in costs)
