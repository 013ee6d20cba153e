"""The search by counts: a plan by columns, the bound of counts, and the blocks of the network."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.counts.columns import Columns, Found
from hypar.solve.counts.pivots import Chain, blocks_of
from hypar.solve.counts.relaxed import STEPS, Relaxed
from hypar.solve.counts.states import MOST_LEVELS, ROUNDING, number_of_states
from hypar.solve.limits import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.solve.counts.forms import CountGraph
    from hypar.solve.limits import Budget

MOST_STATES = 2**16
"""Most states of a layer, of which a plan leaves few."""


def improving(graph: CountGraph, budget: Budget) -> Iterator[Found]:
    """Yield plans that are no dearer and bounds that are no lower than those before.

    Nothing if there are too many levels or states of a layer, or the network is too wide.
    """
    sizes = [number_of_states(graph.cells.sizes, own) for own in graph.offered]
    if sum(graph.cells.sizes) > MOST_LEVELS or max(sizes) > MOST_STATES:
        return
    steps = [step for step in STEPS if _entries(graph, sizes, step) * ENTRY_BYTES <= budget.limits.bytes]
    search = Columns(graph)
    if not search.widest or not budget.allows(stored=_entries(graph, sizes, STEPS[0])):
        return
    plan, relaxed = search.greedy(), Relaxed(graph)
    yield _found(graph, plan, max(relaxed.bound(), 0.0))
    bound = _narrowed(relaxed, plan, (0, steps[0]))
    if bound < plan.cost * (1 - ROUNDING):
        for better in search.improving(plan, search.widest):
            plan = better
            yield _found(graph, plan, bound)
        # A good plan leaves few of many states.
        bound = max(bound, _narrowed(relaxed, plan, (*steps, steps[-1])))
    for closer in (relaxed.by_messages, relaxed.by_cliques):
        if bound < plan.cost * (1 - ROUNDING):
            bound = min(max(bound, closer(plan.cost)), plan.cost)
    yield _found(graph, plan, bound)
    if bound < plan.cost * (1 - ROUNDING) and relaxed.complete:
        yield from _closed(relaxed, search, plan, bound)


def _narrowed(relaxed: Relaxed, plan: Found, steps: Iterable[int]) -> float:
    """Leave out the states that no plan of the cost of one takes, step by step, and return the bound of the others."""
    for most in steps:
        relaxed.narrow(plan.cost, most)
        if relaxed.complete:
            break
    return min(relaxed.bound(), plan.cost)


def _entries(graph: CountGraph, sizes: Sequence[int], most: float) -> float:
    """Return how many entries the costs of pairs take, with up to some of a tensor; twice as many while they are computed."""
    return 2 * sum(size for _, size in {(form, min(sizes[a] * sizes[b], most)) for a, b, form in graph.links})


def _closed(relaxed: Relaxed, search: Columns, plan: Found, bound: float) -> Iterator[Found]:
    """Yield better plans and bounds by the tables of blocks; nothing if a block has no pivot."""
    graph = search.graph
    blocks = blocks_of([link[:2] for link in relaxed.graph.links], len(relaxed.graph.nodes))
    if blocks is None:
        return
    chain, more = Chain(relaxed, blocks), True
    while more:
        path = chain.best(plan.cost)
        # Exact entries alone are plans, of which the best one leaves less to be made exact.
        reached = chain.best(plan.cost, exact_only=True) if path.open else path
        if reached.bound < plan.cost * (1 - ROUNDING):
            orders = chain.orders(reached)
            plan = min(plan, Found(orders, search.cost(orders)), key=attrgetter("cost"))
        bound = max(bound, min(path.bound, plan.cost))
        yield _found(graph, plan, bound)
        more = bool(path.open) and bound < plan.cost * (1 - ROUNDING) and chain.close(path, plan.cost)


def _found(graph: CountGraph, plan: Found, bound: float) -> Found:
    """Return a plan and a bound, which is the cost if they differ by rounding alone; its levels are sorted in each group, at no cost."""
    orders = plan.orders[:, np.lexsort((*plan.orders[::-1], graph.groups))]
    return Found(orders, plan.cost, plan.cost if bound >= plan.cost * (1 - ROUNDING) else bound)
