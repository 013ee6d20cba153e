"""Search all levels at once: the choice of a layer is a tuple with one choice for each level.

Where the order of levels does not matter, the search is by counts, of the solver ``counts``. Otherwise, and for few tuples, it
is a search over tuples. Cost: one search over the product of the levels' choices. Guarantee: the optimum over all levels together if the tables
of an exact solver fit; otherwise a plan that costs no more than the greedy one, and a lower bound. If not even one
vector for each layer fits, the plan is the greedy one, and the bound is the sum of the levels' relaxed optima, in which
every layer has the local sizes that make it cheapest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import TableLimitError
from hypar.planning.searches.base import Answer, Question, Search, costs_by_level, load_search
from hypar.solve.cost_graph import CostGraph
from hypar.solve.solvers.base import FALLBACK, load_solver, require_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.graphs.narrowed import Narrowed
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import Structure


COUNTS = "counts"
"""The solver that searches by counts."""

COUNTING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which counts take less time."""

NARROWING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which tuples are left out first."""

MOST_TUPLES = 2**22
"""Most tuples of all layers whose costs are computed one by one."""


class Joint:
    """The joint search over all levels."""

    claim = "optimal, all levels jointly,"
    at_once = True

    def run(self, question: Question) -> Answer:
        """Search one cost graph for all levels."""
        structure = question.structure(0, len(question.levels))
        by_counts = _by_counts(question, structure)
        if by_counts is not None and (
            by_counts.exact or question.solver == COUNTS or sum(structure.sizes) > MOST_TUPLES
        ):
            return by_counts
        if question.solver == COUNTS:
            load_solver(COUNTS).solve(CostGraph(nodes=(), edges=()))
        answer = self._by_tuples(question, structure)
        return answer if by_counts is None else _better(answer, by_counts)

    def _by_tuples(self, question: Question, structure: Structure) -> Answer:
        """Search the tuples of choices."""
        try:
            found = _narrowed(question, structure)
        except TableLimitError:
            if question.solver is not None:
                raise
            return _level_by_level(question)
        if found is not None:
            structure = found.problem.structure
        name, solver = question.pick_solver(structure)
        tables = solver.tables(structure)
        if name == FALLBACK and tables is not None and not tables.fit:
            return _level_by_level(question)
        if tables is not None:
            require_tables(name, tables)
        if found is None:
            solution = solver.solve(question.cost_graph(0, len(question.levels), question.outermost()))
            assignment = solution.assignment
        else:
            solution = solver.solve(found.problem)
            assignment = found.original(solution.assignment)
        proven = solver.exact or solution.cost == solution.bound
        answer = _answer(
            question,
            tuple(
                _decoded(options, chosen)
                for options, chosen in zip(question.options, assignment, strict=True)
            ),
            name,
            exact=proven,
            bound=solution.bound,
        )
        return (
            answer
            if proven or name != FALLBACK
            else min(answer, _greedy(question, solution.bound), key=_cost)
        )


def _by_counts(question: Question, structure: Structure) -> Answer | None:
    """Search by counts, where that is asked for or whole matrices of pairs would be large; None if it cannot be done."""
    if question.solver != COUNTS and (question.solver is not None or structure.entries <= COUNTING_PAYS):
        return None
    from hypar.solve.counts.solution import solve  # noqa: PLC0415 (only where counting pays)

    problem = question.counted()
    found = None if problem is None else solve(problem.graph)
    if problem is None or found is None:
        return None
    choices = problem.choices(found.orders)
    costs = costs_by_level(question, choices)
    cost = _total(costs)
    # Sums in another order differ by rounding where a number of ways is no power of two.
    bound = cost if found.exact else min(found.bound, cost)
    return Answer(choices=choices, costs=costs, solver=COUNTS, exact=found.exact, bounds=(bound,))


def _better(one: Answer, other: Answer) -> Answer:
    """Return the cheaper of two answers, with the higher bound of both; the first one if it is proven."""
    if one.exact:
        return one
    best = min(one, other, key=_cost)
    return replace(best, bounds=(min(max(*one.bounds, *other.bounds), _cost(best)),))


def _narrowed(question: Question, structure: Structure) -> Narrowed | None:
    """Leave out the tuples that cost more than the greedy plan, where whole matrices of pairs would be large."""
    exact = question.solver is None or load_solver(question.solver).exact
    if not (question.by_products and exact and structure.entries > NARROWING_PAYS):
        return None
    if sum(structure.sizes) > MOST_TUPLES:
        return None
    known = load_search("greedy").run(replace(question, solver=None))
    return question.narrowed(_cost(known))


def _level_by_level(question: Question) -> Answer:
    """Return the greedy plan, with the sum of the lower bounds of the single levels."""
    solver = load_solver(FALLBACK)
    bounds = []
    left = question.outermost()
    for index in range(len(question.levels)):
        solution = solver.solve(question.relaxed_graph(index, left))
        bounds.append(solution.cost if solution.bound is None else solution.bound)
        left = question.below_all(index, left)
    return _greedy(question, math.fsum(bounds))


def _greedy(question: Question, bound: float | None) -> Answer:
    found = load_search("greedy").run(replace(question, solver=None))
    return _answer(question, found.choices, FALLBACK, exact=False, bound=bound)


def _answer(
    question: Question, choices: tuple[Options, ...], solver: str, *, exact: bool, bound: float | None
) -> Answer:
    return Answer(
        choices=choices,
        costs=costs_by_level(question, choices),
        solver=solver,
        exact=exact,
        bounds=() if bound is None else (bound,),
    )


def _cost(answer: Answer) -> float:
    return _total(answer.costs)


def _total(costs: Sequence[Sequence[float]]) -> float:
    """Return the cost of all levels, added up as a plan does."""
    return math.fsum(math.fsum(at_level) for at_level in costs)


def _decoded(options: tuple[Options, ...], chosen: int) -> Options:
    """Return the tuple of options at an index into the product of the levels' options."""
    indices = np.unravel_index(chosen, [len(at_level) for at_level in options])
    return tuple(at_level[int(index)] for at_level, index in zip(options, indices, strict=True))


plugin: Search = Joint()
