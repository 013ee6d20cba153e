"""The search by counts: a plan by columns, the bound of counts, and the blocks of the network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.blocks import blocks_of
from hypar.solve.counts.chain import ROUNDING, Chain
from hypar.solve.counts.columns import Columns
from hypar.solve.counts.forms import MOST_LEVELS
from hypar.solve.counts.orders import written
from hypar.solve.counts.relaxed import Relaxed
from hypar.solve.counts.states import number_of

if TYPE_CHECKING:
    from hypar.solve.counts.forms import CountGraph
    from hypar.solve.edge import Indices

MOST_STATES = 2**16
"""Most states of a layer."""


class Found(NamedTuple):
    """The result of a search.

    Attributes:
        orders: the option of each layer at each level, ``[layers, levels]``; levels of one group are consecutive.
        cost: its cost.
        bound: a lower bound of every plan's cost; equal to the cost if the plan is proven optimal.
        others: plans that cost more, by counts.
    """

    orders: Indices
    cost: float
    bound: float
    others: tuple[Indices, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the plan is proven optimal."""
        return self.bound >= self.cost


def solve(graph: CountGraph) -> Found | None:
    """Return a plan and a lower bound; None if there are too many levels or states of a layer, or the network is too wide."""
    if (
        sum(graph.depths) > MOST_LEVELS
        or max(number_of(graph, node) for node in range(len(graph.nodes))) > MOST_STATES
    ):
        return None
    search = Columns(graph)
    if not search.widest:
        return None
    plan = search.greedy()
    if graph.own:
        # Costs of a layer alone leave few of its states where a plan is good.
        plan = search.improved(plan, search.widest)
    relaxed = Relaxed(graph, plan.cost if graph.own else math.inf)
    relaxed.narrow(plan.cost)
    bound = relaxed.bound()
    if bound < plan.cost * (1 - ROUNDING):
        plan = search.improved(plan, search.widest)
        relaxed.narrow(plan.cost)
        bound = relaxed.bound()
    orders, cost = plan.orders, plan.cost
    others: tuple[Indices, ...] = ()
    proven = bound >= cost * (1 - ROUNDING)
    blocks = (
        None
        if proven or not relaxed.complete
        else blocks_of([link[:2] for link in graph.links], len(graph.nodes))
    )
    if blocks is not None:
        chain = Chain(relaxed, blocks)
        path = chain.close(cost)
        bound = min(path.bound, cost)
        if path.exact and bound < cost * (1 - ROUNDING):
            found = written(chain, path)
            value = graph.cost(found, search.groups)
            if value < cost:
                orders, cost, others = found, value, (_sorted(graph, orders),)
    bound = cost if bound >= cost * (1 - ROUNDING) else bound
    return Found(_sorted(graph, orders), cost, bound, others)


def _sorted(graph: CountGraph, orders: Indices) -> Indices:
    """Return a plan with the levels of each group in the order of their options, which does not change its cost."""
    found, first = [], 0
    for depth in graph.depths:
        own = orders[:, first : first + depth]
        found.append(own[:, np.lexsort(own[::-1])])
        first += depth
    return np.concatenate(found, axis=1)
