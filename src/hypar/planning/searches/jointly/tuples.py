"""The joint search over tuples of choices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import TableLimitError
from hypar.planning.question import costs_by_level
from hypar.planning.searches.jointly.answers import Standing, greedy, level_by_level, total
from hypar.solve.solvers.base import FALLBACK, load_solver, require_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.planning.question import Question
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import CostGraph, Solution, Structure
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget
    from hypar.solve.solvers.base import Solver

NARROWING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which tuples are left out first."""

MOST_TUPLES = 2**22
"""Most tuples of all layers whose costs are computed one by one."""


def by_tuples(question: Question, structure: Structure, budget: Budget) -> Iterator[Standing]:
    """Search the tuples of choices."""
    try:
        left = _narrowed(question, structure, budget)
    except TableLimitError:
        if question.solver is not None:
            raise
        yield level_by_level(question)
        return
    if left is not None:
        structure = left[0].structure
    name, solver = _solver(question, structure, budget)
    tables = solver.tables(structure)
    if name == FALLBACK and tables is not None and not tables.within(budget):
        yield level_by_level(question)
        return
    if tables is not None:
        require_tables(name, tables, budget.limits.bytes)
    problem = left[0] if left else question.cost_graph(0, len(question.levels), question.outermost())
    for solution in _solutions(solver, problem, budget):
        exact = solver.exact or solution.cost == solution.bound
        choices = partial(_chosen, question, solution, left, level_wise=not exact and name == FALLBACK)
        yield Standing(solution.cost, solution.bound, exact, name, choices)


def _solver(question: Question, structure: Structure, budget: Budget) -> tuple[str, Solver]:
    """Return the solver, a bounded one if the limits are too low for the cheapest exact one."""
    name, solver = question.pick_solver(structure)
    tables = solver.tables(structure)
    if question.solver is None and tables is not None and not tables.within(budget):
        return FALLBACK, load_solver(FALLBACK)
    return name, solver


def _solutions(solver: Solver, problem: CostGraph, budget: Budget) -> Iterator[Solution]:
    """Yield better and better solutions."""
    improving = getattr(solver, "improving", None)
    yield from [solver.solve(problem)] if improving is None else improving(problem, budget)


def _chosen(
    question: Question,
    solution: Solution,
    left: tuple[CostGraph, list[Indices]] | None,
    *,
    level_wise: bool,
) -> tuple[Options, ...]:
    """Return the choices of a solution, or perhaps those level by level if they are cheaper."""
    assignment = solution.assignment
    if left is not None:
        assignment = tuple(int(own[choice]) for own, choice in zip(left[1], assignment, strict=True))
    choices = tuple(
        _decoded(options, chosen) for options, chosen in zip(question.options, assignment, strict=True)
    )
    if level_wise:
        found = greedy(question)
        return found.choices() if found.cost < total(costs_by_level(question, choices)) else choices
    return choices


def _narrowed(
    question: Question, structure: Structure, budget: Budget
) -> tuple[CostGraph, list[Indices]] | None:
    """Leave out the tuples that cost more than the greedy plan, where whole matrices of pairs would be large."""
    exact = question.solver is None or load_solver(question.solver).exact
    if not (question.by_products and exact and structure.entries > NARROWING_PAYS):
        return None
    if sum(structure.sizes) > MOST_TUPLES:
        return None
    return question.narrowed(greedy(question).cost, budget)


def _decoded(options: tuple[Options, ...], chosen: int) -> Options:
    """Return the tuple of options at an index into the product of the levels' options."""
    indices = np.unravel_index(chosen, [len(at_level) for at_level in options])
    return tuple(at_level[int(index)] for at_level, index in zip(options, indices, strict=True))
