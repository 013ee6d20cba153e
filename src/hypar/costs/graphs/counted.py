"""The problem of counts of a network: costs under ``moved`` and ``fused`` where every level multiplies what is moved.

Levels at which an element costs the same are a tier; a step's time on a machine has a term for each. What its counts leave out makes a plan
cost more than they say: the order of levels in a tier, by latency and idle devices, and cuts of height and width that save
computation.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.forms import form_of
from hypar.costs.graphs.offered import UncountableError, offered
from hypar.costs.graphs.pricing import prices_of
from hypar.sharding.amounts.counted import elements_of
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.dims import BATCH
from hypar.sharding.levels import WHOLE_LAYER, Level
from hypar.sharding.placement import COPIES, IDLE, choice_of, grid, partial_results
from hypar.solve.counts.forms import CountGraph, Link, Term, merged
from hypar.solve.counts.idle import added, prices
from hypar.solve.counts.states import all_states, number_of_states
from hypar.solve.counts.tiers import Own, Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.offered import Dims, Offered
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Sums
    from hypar.sharding.placement import Options
    from hypar.solve.counts.forms import Numbers
    from hypar.solve.edge import Costs, Indices

ROUNDING = 1e-12
"""Largest difference of equal weights, relative to them."""

MOST_DEVICES = 2**28
"""Most devices of which a share of a tensor is more than what counts as nothing."""

MOST_STATES = 2**16
"""Most states of a layer whose costs are computed."""


class Counted(NamedTuple):
    """A network as a problem of counts.

    Attributes:
        graph: the problem.
        dims: for each layer what it may divide, in the order of its options.
        columns: for each level of the array its place in a plan, in which the levels of a group are next to each other.
        ways: the ways of each level.
    """

    graph: CountGraph
    dims: tuple[Dims, ...]
    columns: tuple[int, ...]
    ways: tuple[int, ...]

    def choices(self, orders: Indices) -> tuple[Options, ...]:
        """Return the choices of each layer, outermost first, of a plan ``[layers, levels]``."""
        return tuple(
            tuple(choice_of(dims[option], ways) for option, ways in zip(order, self.ways, strict=True))
            for dims, order in zip(self.dims, orders[:, self.columns].tolist(), strict=True)
        )


def counted(
    cost: Cost,
    graph: PlanGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
) -> Counted:
    """Return the problem of counts of a network.

    Raises:
        UncountableError: it is none.
    """
    network = network_of(graph, cost.convention)
    offers = offered(graph, network, levels, options)
    dims = tuple(own.dims for own in offers)
    kinds = [*zip(*[own.levels for own in offers], strict=True)]
    tiers = _tiered(cost, levels, kinds)
    groups, layers = tiers.groups, zip(graph.layers, network.sums, dims, strict=True)
    terms = [_added(layer.nest, own, of, tiers.prices[0]) for layer, own, of in layers]
    links = []
    for tensor, between, parts in zip(network.tensors, network.between, network.parts, strict=True):
        ends = (dims[tensor.producer], dims[tensor.consumer])
        form = form_of(between, parts, ends, tiers.prices, late=bool(tiers.latencies))
        links.append(Link(tensor.producer, tensor.consumer, form))
    problem = CountGraph(
        ways=tuple(levels[group[0]].ways for group in groups),
        depths=tuple(map(len, groups)),
        offered=tuple(
            tuple(tuple(own.dims.index(dim) for dim in own.levels[group[0]]) for group in groups)
            for own in offers
        ),
        nodes=tuple(merged(own, len(of)) for own, of in zip(terms, dims, strict=True)),
        links=tuple(links),
        tiers=tiers.tiers,
        latencies=tiers.latencies,
        idle=tuple(own.index(IDLE) if IDLE in own else None for own in dims),
    )
    if cost.counts_work or tiers.latencies:
        further = _further(cost, levels[-1], problem, graph.layers, offers, terms)
        problem = replace(problem, own=further)
    elif graph.ties:
        problem = replace(problem, looser=_looser(problem, graph, network.sums, dims, tiers.prices[0]))
    order = [level for group in groups for level in group]
    columns = tuple(map(order.index, range(len(levels))))
    return Counted(problem, dims, columns, tuple(level.ways for level in levels))


def _looser(
    problem: CountGraph, graph: PlanGraph, sums: Sequence[Sums], dims: Sequence[Dims], price: float
) -> CountGraph:
    """Return a problem without the tensors of weights that several layers use: each costs the mean of what each layer alone would add up.

    All of them together have terms on no fewer devices than any one, and so cost no less than the mean.
    """
    users = Counter(tie.producer for tie in graph.ties)
    owners = {node: node for node in users} | {tie.consumer: tie.producer for tie in graph.ties}
    nodes = [*problem.nodes]
    for node, owner in owners.items():
        own, share = sums[node]._replace(weight=True), 1 / (1 + users[owner])
        nodes[node] = merged(_added(graph.layers[node].nest, own, dims[node], price, share), len(dims[node]))
    return replace(problem, nodes=tuple(nodes), links=problem.links[: len(graph.tensors)])


@lru_cache(maxsize=4096)
def _added(nest: Nest, sums: Sums, dims: Dims, price: float, share: float = 1.0) -> tuple[Term, ...]:
    """Return the terms of adding up partial sums inside a layer, twice what all but one device have; of the weight's a share."""
    if not nest.multiplies:
        return ()
    found: list[Term] = []
    for tensor, elements in zip(nest.names, elements_of(nest, sums)[:, 0].tolist(), strict=True):
        weight = 2 * elements * price * (share if tensor == "weight" else 1.0)
        powers = tuple(int(tensor in partial_results(nest, dim)) for dim in dims)
        found += [Term(weight, powers), Term(-weight, (0,) * len(dims))]
    return tuple(found)


class Tiered(NamedTuple):
    """The levels of an array, with what they charge.

    Attributes:
        prices: the cost of an element inside layers and between two, which weights multiply.
        groups: the levels of each group, outermost tier first.
        tiers: the tiers of groups.
        latencies: the cost of a transfer in each group; empty for none.
    """

    prices: tuple[float, float]
    groups: tuple[tuple[int, ...], ...]
    tiers: tuple[Tier, ...]
    latencies: tuple[float, ...]


def _tiered(cost: Cost, levels: Sequence[Level], kinds: Sequence[object]) -> Tiered:
    """Return the tiers of an array; kinds are what levels of a group have in common, besides their ways.

    Raises:
        UncountableError: what a level charges is no number for each element, or inner levels are dearer than outer ones.
    """
    prices = {prices_of(cost.rates(level)) for level in levels}
    price = prices.pop() if len(prices) == 1 else None
    charged = [(1.0, 0.0) if price else _charged(cost, level) for level in levels]
    element, once = zip(*charged, strict=True)
    late = any(once)
    if late and math.prod(level.ways for level in levels) > MOST_DEVICES:
        raise UncountableError
    # What costs latency at a level may depend on what moves further out, so that no group lies around another.
    alike = [*zip((level.ways for level in levels), kinds, once, strict=True)]
    runs = accumulate((late and one != other for one, other in pairwise(alike)), initial=0)
    told = [*zip(alike, runs, strict=True)]
    groups: list[tuple[int, ...]] = []
    tiers: list[Tier] = []
    ends = [at for at in range(1, len(levels)) if not _equal(element[at], element[at - 1])]
    for first, end in pairwise([0, *ends, len(levels)]):
        own: dict[object, tuple[int, ...]] = {}
        for level in range(first, end):
            own[told[level]] = (*own.get(told[level], ()), level)
        groups += own.values()
        left = element[first] - (element[end] if end < len(levels) else 0.0)
        if left < 0:
            raise UncountableError
        tiers.append(Tier(len(groups), left))
    latencies = tuple(once[own[0]] for own in groups) if late else ()
    return Tiered(price or (1.0, 1.0), tuple(groups), tuple(tiers), latencies)


def _charged(cost: Cost, level: Level) -> tuple[float, float]:
    """Return the cost of an element that any device receives, and of a transfer, if all devices receive at the same time."""
    inside, between = cost.rates(level)
    if inside != between or len(inside.lines) > 1 or not inside.together:
        raise UncountableError
    line = inside.lines[0]
    if not all(_equal(own, each[0]) for each in (line.per_element, line.once) for own in each):
        raise UncountableError
    return line.per_element[0] / (level.groups * level.ways), line.once[0]


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING)


def _further(
    cost: Cost,
    innermost: Level,
    problem: CountGraph,
    layers: Sequence[PlanNode],
    offers: Sequence[Offered],
    terms: Sequence[tuple[Term, ...]],
) -> tuple[Own, ...]:
    """Return the costs of layers that are no products: computation, and the latency of sums; those of equal ones are one object.

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
    named = [at for at, dim in enumerate(names) if dim not in {COPIES, IDLE}]
    number: dict[tuple[int, ...], int] = {}
    which = [number.setdefault(tuple(row), len(number)) for row in degrees[:, named].tolist()]
    options = tuple(grid(dict(zip([names[at] for at in named], row, strict=True))) for row in number)
    found = cost.compute(level, layer, options, WHOLE_LAYER)
    costs = (np.zeros(len(options)) if found is None else found[0])[which]
    counts = every[:, :, :count].copy()
    if own.replaced:
        counts[:, :, own.dims.index(BATCH)] += every[:, :, count:].sum(axis=2, dtype=np.int8)
    cheapest = np.argsort(costs, kind="stable")
    return Own(states=counts[cheapest], costs=costs[cheapest]).of(alike @ states)
