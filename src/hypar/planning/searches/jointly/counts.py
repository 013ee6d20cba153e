"""The joint search by counts."""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial
from itertools import combinations, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.question import costs_by_level
from hypar.planning.searches.jointly.answers import Standing, better_of, greedy, level_by_level, total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.costs.graphs.counted import Counted
    from hypar.planning.question import Question
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import Structure
    from hypar.solve.counts.columns import Found
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget

    Price = Callable[[tuple[Options, ...]], float]
    Priced = tuple[float, tuple[Options, ...]]

COUNTS = "counts"
"""The solver that searches by counts."""

COUNTING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which counts take less time."""

ROUNDING = 1e-11
"""Largest difference of equal costs that are added up in another order, relative to them."""

MOST_TRIES = 40
"""Most plans with their levels in another order that are priced."""


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
    yield from (_by_seconds if problem.graph.own else _by_bytes)(question, problem, budget)


def _improving(problem: Counted, budget: Budget) -> Iterator[Found]:
    """Yield the answers of the search, each no worse than those before."""
    from hypar.solve.counts.solution import improving  # noqa: PLC0415 (only where counting pays)

    return improving(problem.graph, budget)


def _by_seconds(question: Question, problem: Counted, budget: Budget) -> Iterator[Standing]:
    """Yield the plans of a search of which counts do not say all costs."""
    costs = partial(costs_by_level, question, known={})
    price = lru_cache(maxsize=None)(lambda choices: total(costs(choices)))
    every: list[Found] = []
    for found in _improving(problem, budget):
        if not every or found.bound > every[-1].bound:
            yield _standing(_priced(price, problem, found.orders), found.bound)
        every.append(found)
    if not every:
        return
    # The last plan by counts, and the last one without idle devices, which cost what their counts say.
    distinct = {one.orders.tobytes(): one for one in every[-3:]}
    bound = every[-1].bound
    plans = [_ordered(price, problem, one.orders, max(bound, one.cost)) for one in distinct.values()]
    best = _standing(min(plans, key=itemgetter(0)), bound)
    yield best if best.exact else better_of(best, greedy(question, bound, COUNTS))


def _by_bytes(question: Question, problem: Counted, budget: Budget) -> Iterator[Standing]:
    """Yield the plans of a search of which counts say all costs."""
    last = None
    for found in _improving(problem, budget):
        last = Standing(found.cost, found.bound, found.exact, COUNTS, partial(problem.choices, found.orders))
        yield last
    if last is None or last.exact:
        return
    if not last.bound:
        # Counts that leave all tensors out bound nothing.
        yield better_of(last, level_by_level(question))
    elif question.graph.ties:
        yield better_of(last, greedy(question, last.bound, COUNTS))


def _of_group(question: Question, choices: tuple[Options, ...]) -> Standing:
    """Return a plan of a group below uneven splits, or the greedy one if it is cheaper: counts know no state above them."""
    plain = level_by_level(question)._replace(solver=COUNTS)
    own = plain._replace(cost=total(costs_by_level(question, choices)), choices=lambda: choices)
    return min(own, plain, key=itemgetter(0))


def _standing(plan: Priced, bound: float) -> Standing:
    """Return a plan with its price, and a bound: what counts leave out makes plans cost more than they say."""
    cost, choices = plan
    proven = bound >= cost * (1 - ROUNDING)
    return Standing(cost, cost if proven else bound, proven, COUNTS, lambda: choices)


def _ordered(price: Price, problem: Counted, orders: Indices, least: float) -> Priced:
    """Return the cost of a plan by counts, and its choices: levels of one group are told apart by latency alone.

    They change places until no two that do lower the cost, or until it is the least.

    Args:
        price: returns the cost of some choices.
        problem: the problem of counts.
        orders: the option of each layer at each level.
        least: a lower bound, or what counts say, which is the same for all orders in a group and no more than any of them costs.
    """
    best = _priced(price, problem, orders)
    tries = 0
    while True:
        found = None
        for one, other in _pairs(problem, orders):
            if best[0] <= least * (1 + ROUNDING) or tries == MOST_TRIES:
                return best
            tries += 1
            turned = orders.copy()
            turned[:, [one, other]] = orders[:, [other, one]]
            tried = _priced(price, problem, turned)
            if tried[0] < best[0] * (1 - ROUNDING):
                best, found = tried, turned
                break
        if found is None:
            return best
        orders = found


def _pairs(problem: Counted, orders: Indices) -> Iterator[tuple[int, int]]:
    """Yield the pairs of unlike levels of one group; none where there is no latency."""
    for first, last in pairwise(np.cumsum((0, *problem.graph.depths)).tolist()):
        for one, other in combinations(range(first, last), 2):
            if problem.graph.latencies and (orders[:, one] != orders[:, other]).any():
                yield one, other


def _priced(price: Price, problem: Counted, orders: Indices) -> Priced:
    """Return the cost of a plan by counts, and its choices."""
    choices = problem.choices(orders)
    return price(choices), choices
