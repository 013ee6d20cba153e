"""The order of the levels of a plan by counts: levels of one group are told apart by latency alone."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.searches.jointly.answers import total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.costs.graphs.counted import Counted
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Indices

    Costs = tuple[tuple[float, ...], ...]
    Price = Callable[[tuple[Options, ...]], Costs]
    Priced = tuple[float, Costs, tuple[Options, ...]]

ROUNDING = 1e-11
"""Largest difference of equal costs that are added up in another order, relative to them."""

MOST_TRIES = 40
"""Most plans that are priced."""


def ordered(price: Price, problem: Counted, orders: Indices, bound: float) -> Priced:
    """Return the cost of a plan by counts, the costs of its levels, and its choices.

    Levels of one group change places until no two that do lower the cost, or until it is the bound, or what counts say, which is the
    same for all orders in a group and no more than any of them costs.

    Args:
        price: returns the costs of the levels of some choices.
        problem: the problem of counts.
        orders: the option of each layer at each level.
        bound: a lower bound.
    """
    best = priced(price, problem, orders)
    groups = np.repeat(np.arange(len(problem.graph.ways)), problem.graph.depths)
    least = max(bound, problem.graph.cost(orders, groups))
    tries = 0
    while True:
        found = None
        for one, other in _pairs(problem, orders):
            if best[0] <= least * (1 + ROUNDING) or tries == MOST_TRIES:
                return best
            tries += 1
            turned = orders.copy()
            turned[:, [one, other]] = orders[:, [other, one]]
            tried = priced(price, problem, turned)
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


def priced(price: Price, problem: Counted, orders: Indices) -> Priced:
    """Return the cost of a plan by counts, the costs of its levels, and its choices."""
    choices = problem.choices(orders)
    costs = price(choices)
    return total(costs), costs, choices
