"""The joint search by counts."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from hypar.planning.searches.base import Answer, busiest, costs_by_level
from hypar.planning.searches.jointly.answers import (
    Standing,
    answer_of,
    better_of,
    bounded_answer,
    cost_of,
    greedy_answer,
    level_by_level,
    standing_of,
)
from hypar.planning.searches.jointly.ordering import ROUNDING, ordered, priced
from hypar.sharding.dims import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hypar.costs.graphs.counted import Counted
    from hypar.planning.searches.base import Question
    from hypar.planning.searches.jointly.ordering import Priced
    from hypar.sharding.placement import Options
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
    problem = question.counted()
    if problem is None:
        return
    if question.entered is not None:
        for found in deque(_improving(problem, budget), maxlen=1):
            yield _of_group(question, problem.choices(found.orders))
        return
    if not problem.graph.own:
        yield from _by_bytes(question, problem, _improving(problem, budget))
        return
    last = None
    for last in _by_seconds(question, problem, budget):
        yield last
    fewer = _plainer(question)
    if last is not None and not last.exact and fewer.options != question.options:
        # Few options are searched further than many: a wider space has no dearer a plan.
        for plain in deque(by_counts(fewer, structure, budget), maxlen=1):
            if plain.cost < last.cost:
                answer = plain.answer()
                yield _standing((plain.cost, answer.costs, answer.choices), last.bound or 0.0)


def _improving(problem: Counted, budget: Budget) -> Iterator[Found]:
    """Yield the answers of the search, each no worse than those before."""
    from hypar.solve.counts.solution import improving  # noqa: PLC0415 (only where counting pays)

    return improving(problem.graph, budget)


def _by_seconds(question: Question, problem: Counted, budget: Budget) -> Iterator[Standing]:
    """Yield the plans of a search of which counts do not say all costs."""
    price = lru_cache(maxsize=None)(partial(costs_by_level, question, known={}))
    every: list[Found] = []
    for found in _improving(problem, budget):
        if not every or found.bound > every[-1].bound:
            yield _standing(priced(price, problem, found.orders), found.bound)
        every.append(found)
    if not every:
        return
    # The last plan by counts, and the last one without idle devices, which cost what their counts say.
    distinct = {one.orders.tobytes(): one.orders for one in every[-3:]}
    bound = every[-1].bound
    plans = [ordered(price, problem, orders, bound) for orders in distinct.values()]
    best = _standing(min(plans, key=itemgetter(0)), bound)
    yield best if best.exact else better_of(best, standing_of(greedy_answer(question, bound, COUNTS)))


def _plainer(question: Question) -> Question:
    """Return the problem by counts without idle devices and cuts of height and width, but for layers that have no others."""
    plain = question.offering(
        lambda offered, level: tuple(
            own for own in busiest(offered, level) if not {*SPATIAL} & {*own.divided}
        )
    )
    return replace(plain, solver=COUNTS)


def _by_bytes(question: Question, problem: Counted, every: Iterable[Found]) -> Iterator[Standing]:
    """Yield the plans of a search of which counts say all costs."""
    last = None
    for found in every:
        last = Standing(found.cost, found.bound, found.exact, partial(_answer, question, problem, found))
        yield last
    if last is not None and not last.exact and problem.graph.looser is not None:
        # Its blocks are those of a looser problem, whose plans may be dearer than it says.
        yield better_of(last, standing_of(greedy_answer(question, last.bound, COUNTS)))


def _answer(question: Question, problem: Counted, found: Found) -> Answer:
    choices = problem.choices(found.orders)
    return bounded_answer(question, choices, COUNTS, exact=found.exact, bound=found.bound)


def _of_group(question: Question, choices: tuple[Options, ...]) -> Standing:
    """Return a plan of a group below uneven splits, or the greedy one if it is cheaper: counts know no state above them."""
    greedy = level_by_level(question)
    own = answer_of(question, choices, COUNTS, exact=False, bound=greedy.bounds[0])
    return standing_of(min(own, replace(greedy, solver=COUNTS), key=cost_of))


def _standing(plan: Priced, bound: float) -> Standing:
    """Return a plan with its price, and a bound: what counts leave out makes plans cost more than they say."""
    cost, costs, choices = plan
    proven = bound >= cost * (1 - ROUNDING)
    bound = cost if proven else bound
    answer = Answer(choices=choices, costs=costs, solver=COUNTS, exact=proven, bounds=(bound,))
    return Standing(cost, bound, proven, lambda: answer)
