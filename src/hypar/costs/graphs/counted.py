"""The problem of counts of a network: costs under ``moved`` and ``fused`` where every level multiplies what is moved.

Levels at which an element costs the same are a tier; a step's time on a machine has a term for each. What its counts leave out makes a plan
cost more than they say: the order of levels in a tier, by latency and idle devices, and cuts of height and width that save
computation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.graphs.forms import form_of
from hypar.costs.graphs.offered import choice_of, offered
from hypar.costs.graphs.tiered import tiered
from hypar.costs.graphs.worked import further_costs
from hypar.sharding.amounts.counted import elements_of
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.placement import IDLE, partial_results
from hypar.solve.counts.forms import CountGraph, Link, Term, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.offered import Dims
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Sums
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Indices


class Counted(NamedTuple):
    """A network as a problem of counts.

    Attributes:
        graph: the problem.
        dims: for each layer the dims that it may divide, in the order of its options.
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
    tiers = tiered(cost, levels, kinds)
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
        further = further_costs(cost, levels[-1], problem, graph.layers, offers, terms)
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
