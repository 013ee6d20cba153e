"""The joint search from coarse to fine."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.searches.jointly.answers import Standing, bounded_answer, greedy
from hypar.solve.cost_graph import CostGraph
from hypar.solve.limits import timed
from hypar.solve.solvers.base import FALLBACK, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.planning.searches.base import Answer, Question
    from hypar.solve.coarse.search import Found
    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget

COARSE = "coarse"
"""The solver that searches from coarse to fine."""

COARSE_PAYS = 2**24
"""Entries that elimination over tuples would compute from which coarse to fine takes less time."""


def is_coarse(question: Question, structure: Structure, budget: Budget) -> bool:
    """Return whether the search is asked for, or tuples are many and a level sees no order of the levels above it.

    Args:
        question: the search problem.
        structure: the structure of its cost graph.
        budget: what may be computed; tuples that exceed it are many.

    Raises:
        ProblemError: it is asked for where a level sees the order of others.
    """
    if question.solver == COARSE and question.by_products:
        load_solver(COARSE).solve(CostGraph(nodes=(), edges=()))
    return question.solver == COARSE or (question.solver is None and not _few(question, structure, budget))


def from_coarse(question: Question, budget: Budget) -> Iterator[Standing]:
    """Search from the greedy plan on; yield nothing if not even the coarsest tables fit."""
    from hypar.solve.coarse.merged import merged  # noqa: PLC0415 (only where tuples are many)
    from hypar.solve.coarse.search import fits, improving  # noqa: PLC0415 (as above)

    ladder = question.stepped()
    thin = merged(ladder, question.roles())
    if not fits(thin, budget):
        return
    # An answer begins with the greedy plan, whatever the clock says.
    with timed(math.inf):
        orders = _greedy_orders(question)
    for found in improving(ladder, thin, orders, budget):
        yield Standing(found.cost, found.bound, found.exact, partial(_answer, question, found))


def _answer(question: Question, found: Found) -> Answer:
    choices = tuple(
        tuple(own[option] for own, option in zip(at_layer, order, strict=True))
        for at_layer, order in zip(question.options, found.orders.tolist(), strict=True)
    )
    return bounded_answer(question, choices, COARSE, exact=found.exact, bound=found.bound)


def _few(question: Question, structure: Structure, budget: Budget) -> bool:
    """Return whether an exact solver takes the tuples in little time, or levels see the order of others."""
    if question.by_products:
        return True
    name, solver = question.pick_solver(structure)
    tables = solver.tables(structure)
    if name == FALLBACK or tables is None or tables.work > COARSE_PAYS:
        return False
    return tables.within(budget)


def _greedy_orders(question: Question) -> Indices:
    """Return the options of the greedy plan, ``[layers, levels]``, with the batch in the place of dims that are left out."""
    from hypar.costs.graphs.spatial import in_place_of  # noqa: PLC0415 (as above)

    found = [
        [
            own.index(choice if choice in own else in_place_of(choice, level.ways))
            for own, choice, level in zip(at_layer, chosen, question.levels, strict=True)
        ]
        for at_layer, chosen in zip(question.options, greedy(question).choices, strict=True)
    ]
    return np.array(found, dtype=np.intp)
