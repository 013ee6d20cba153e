"""The joint search by counts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypar.planning.searches.jointly.answers import Standing, bounded_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.costs.graphs.counted import Counted
    from hypar.planning.searches.base import Answer, Question
    from hypar.solve.cost_graph import Structure
    from hypar.solve.counts.solution import Found
    from hypar.solve.limits import Budget

COUNTS = "counts"
"""The solver that searches by counts."""

COUNTING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which counts take less time."""


def by_counts(question: Question, structure: Structure, budget: Budget) -> Iterator[Standing]:
    """Search by counts, where that is asked for or whole matrices of pairs would be large; yield nothing if it cannot be done."""
    if question.solver != COUNTS and (question.solver is not None or structure.entries <= COUNTING_PAYS):
        return
    from hypar.solve.counts.solution import improving  # noqa: PLC0415 (only where counting pays)

    problem = question.counted()
    if problem is None:
        return
    for found in improving(problem.graph, budget):
        yield Standing(found.cost, found.bound, found.exact, partial(_answer, question, problem, found))


def _answer(question: Question, problem: Counted, found: Found) -> Answer:
    choices = problem.choices(found.orders)
    return bounded_answer(question, choices, COUNTS, exact=found.exact, bound=found.bound)
