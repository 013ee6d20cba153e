"""Answers of the joint search."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.planning.searches.base import Answer, costs_by_level, load_search
from hypar.solve.solvers.base import FALLBACK, load_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.planning.searches.base import Question
    from hypar.sharding.placement import Options


class Standing(NamedTuple):
    """How far a search has come.

    Attributes:
        cost: the cost of its best plan.
        bound: a lower bound of every plan's cost; None if there is none yet.
        exact: whether the plan is proven optimal.
        answer: returns the plan.
    """

    cost: float
    bound: float | None
    exact: bool
    answer: Callable[[], Answer]


def answer_of(
    question: Question, choices: tuple[Options, ...], solver: str, *, exact: bool, bound: float | None
) -> Answer:
    """Return the answer with some choices.

    Args:
        question: the search problem.
        choices: for each layer a choice at each level.
        solver: name of the solver.
        exact: whether they are proven optimal.
        bound: the lower bound; None if there is none.
    """
    return Answer(
        choices=choices,
        costs=costs_by_level(question, choices),
        solver=solver,
        exact=exact,
        bounds=() if bound is None else (bound,),
    )


def bounded_answer(
    question: Question, choices: tuple[Options, ...], solver: str, *, exact: bool, bound: float
) -> Answer:
    """Return the same with a bound that was added up in another order than the cost."""
    found = answer_of(question, choices, solver, exact=exact, bound=bound)
    # Sums in another order differ by rounding where a number of ways is no power of two.
    cost = cost_of(found)
    return replace(found, bounds=(cost if exact else min(bound, cost),))


def greedy(question: Question) -> Answer:
    """Return the plan level by level."""
    return load_search("greedy").run(replace(question, solver=None))


def greedy_answer(question: Question, bound: float | None, solver: str | None = None) -> Answer:
    """Return the greedy plan with a lower bound, under the name of another solver if one is given."""
    found = greedy(question)
    return answer_of(question, found.choices, solver or found.solver, exact=False, bound=bound)


def standing_of(answer: Answer) -> Standing:
    """Return an answer that nothing follows."""
    return Standing(cost_of(answer), answer.bounds[0], answer.exact, lambda: answer)


def level_by_level(question: Question) -> Answer:
    """Return the greedy plan, with the sum of the lower bounds of the single levels."""
    solver = load_solver(FALLBACK)
    bounds = []
    left = question.outermost()
    for index in range(len(question.levels)):
        solution = solver.solve(question.cost_graph(index, index + 1, left))
        bounds.append(solution.cost if solution.bound is None else solution.bound)
        left = question.below_all(index, left)
    return greedy_answer(question, math.fsum(bounds), FALLBACK)


def better_of(one: Standing, other: Standing) -> Standing:
    """Return the cheaper of two plans, with the higher bound of both; the first one if it is proven."""
    if one.exact or one.bound is None or other.bound is None:
        return one
    best = min(one, other, key=lambda each: each.cost)
    bound = min(max(one.bound, other.bound), best.cost)
    exact = best.exact or bound == best.cost

    def answer() -> Answer:
        return replace(best.answer(), exact=exact, bounds=(bound,))

    return Standing(best.cost, bound, exact, answer)


def cost_of(answer: Answer) -> float:
    """Return the cost of all levels."""
    return total(answer.costs)


def total(costs: Sequence[Sequence[float]]) -> float:
    """Return the cost of all levels, added up as a plan does."""
    return math.fsum(math.fsum(at_level) for at_level in costs)
