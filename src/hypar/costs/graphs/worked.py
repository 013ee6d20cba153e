"""The costs of a layer that follow from its counts but are no products: its computation, and the latency of its sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.offered import SPECIAL, UncountableError
from hypar.sharding.dims import BATCH
from hypar.sharding.levels import WHOLE_LAYER, Level
from hypar.sharding.placement import IDLE, grid
from hypar.solve.counts.forms import merged
from hypar.solve.counts.idle import added, prices
from hypar.solve.counts.states import all_states, number_of_states
from hypar.solve.counts.tiers import Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.offered import Offered
    from hypar.network.nodes import PlanNode
    from hypar.solve.counts.forms import CountGraph, Numbers, Term
    from hypar.solve.edge import Costs

MOST_STATES = 2**16
"""Most states of a layer whose costs are computed."""


def further_costs(
    cost: Cost,
    innermost: Level,
    problem: CountGraph,
    layers: Sequence[PlanNode],
    offers: Sequence[Offered],
    terms: Sequence[tuple[Term, ...]],
) -> tuple[Own, ...]:
    """Return the further costs of layers; those of equal ones are one object.

    Args:
        cost: the cost.
        innermost: the innermost level.
        problem: the problem without them.
        layers: the layers.
        offers: the dims that each may divide.
        terms: what each receives inside as products over the levels, for each tensor.

    Raises:
        UncountableError: a layer has too many states.
    """
    level = Level(index=0, array=(math.prod(innermost.array),), element_bytes=innermost.element_bytes)
    known: dict[object, Own] = {}
    found = []
    for layer, own, in_groups, inside in zip(layers, offers, problem.offered, terms, strict=True):
        key = (layer.nest, measured(cost, layer), own, in_groups, inside)
        if key not in known:
            if number_of_states(problem.depths, in_groups) > MOST_STATES:
                raise UncountableError
            states = all_states(problem.depths, in_groups, len(own.dims))
            costs = _work(cost, level, layer, own, problem, states)
            costs = _received(problem, own, inside, states, costs, late=layer.weighted)
            known[key] = Own(states=states, costs=costs)
        found.append(known[key])
    return tuple(found)


def _received(
    problem: CountGraph, own: Offered, terms: Sequence[Term], states: Numbers, costs: Costs, *, late: bool
) -> Costs:
    """Return costs with those of sums inside a layer besides products: their latency, and more where devices are idle."""
    by_group = [states[:, group] for group in range(len(problem.ways))]
    transfers = sum((np.array(powers) for weight, powers in terms if weight > 0), np.zeros(len(own.dims)))
    for group, latency in enumerate(problem.latencies if late else ()):
        costs = costs + latency * (by_group[group] @ transfers)
    if IDLE in own.dims:
        by_tier = prices(by_group, own.dims.index(IDLE), problem.ways, problem.tiers)
        for weight, powers in merged(terms, len(own.dims)):
            costs = costs + weight * added(by_tier, by_group, powers, problem.ways, problem.tiers)
    return costs


def _work(
    cost: Cost, level: Level, layer: PlanNode, own: Offered, problem: CountGraph, states: Numbers
) -> Costs:
    """Return the least cost of the work on a device, with any part of the batch's cuts in height and width."""
    names, count, sizes = (*own.dims, *own.replaced), len(own.dims), np.unique(problem.ways)
    alike = (sizes[:, None] == np.array(problem.ways)).astype(np.int8)
    depths = tuple((alike @ np.array(problem.depths)).tolist())
    every = all_states(depths, (tuple(range(len(names))),) * len(sizes), len(names))
    degrees = np.prod(sizes[:, None] ** every.astype(np.int64), axis=1)
    named = [at for at, dim in enumerate(names) if dim not in SPECIAL]
    number: dict[tuple[int, ...], int] = {}
    which = [number.setdefault(tuple(row), len(number)) for row in degrees[:, named].tolist()]
    options = tuple(grid(dict(zip([str(names[at]) for at in named], row, strict=True))) for row in number)
    found = cost.compute(level, layer, options, WHOLE_LAYER)
    costs = (np.zeros(len(options)) if found is None else found[0])[which]
    counts = every[:, :, :count].copy()
    if own.replaced:
        counts[:, :, own.dims.index(BATCH)] += every[:, :, count:].sum(axis=2, dtype=np.int8)
    cheapest = np.argsort(costs, kind="stable")
    return Own(states=counts[cheapest], costs=costs[cheapest]).of(alike @ states)
