"""Cost graphs under ``moved`` and ``fused``.

What a level moves between two layers depends on the choices of both at the levels above: on the product of a factor for
each level. With several levels an edge is therefore a whole matrix over the pairs of tuples; equal edges share it.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.sharding.amounts.factors import factors_of
from hypar.sharding.amounts.priced import added_costs, moved_costs
from hypar.sharding.amounts.products import below, parts_of
from hypar.solve.cost_graph import CostGraph, Link, Structure
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Items, MovingCost
    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.network.ops.base import Einsum
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.factors import Between
    from hypar.sharding.amounts.flows import Flow, Sums
    from hypar.sharding.amounts.products import Products
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options


def moved_structure(graph: ContractedGraph, options: Sequence[Sequence[Options]]) -> Structure:
    """Return the shape of the cost graph, for the sizes of its tables before they are built."""
    sizes = tuple(math.prod(len(at_level) for at_level in at_layer) for at_layer in options)
    links = (
        Link(one.producer, one.consumer, (sizes[one.producer],), (sizes[one.consumer],))
        for one in graph.tensors
    )
    return Structure(sizes=sizes, links=tuple(links))


def layer_items(
    cost: MovingCost, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes, sums: Sums
) -> Items:
    """Return the cost of each option inside a layer item by item, ``[tuples above, options]``."""
    added = added_costs(layer, options, sizes, level, sums, cost.rates(level)[0])
    return {**added, **cost.work(level, layer, options, sizes)}


def moved_graph(
    cost: MovingCost,
    graph: ContractedGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
    above: Above,
) -> CostGraph:
    """Build the nodes and edges of the choices of consecutive levels.

    Args:
        cost: the cost of a choice.
        graph: the layers that are cut.
        levels: the levels, outermost first.
        options: for each layer, its options at each of the levels.
        above: the state above the first level. If it has the least products of many tuples, there is one level, and every
            cost is the least one or less.
    """
    nodes: dict[object, tuple[Costs, list[LocalSizes]]] = {}
    edges: dict[object, Costs] = {}
    numbers: dict[object, int] = {}
    keys = []
    for layer, choices, sizes, sums in zip(graph.layers, options, above, above.flows.sums, strict=True):
        number = numbers.setdefault((choices, measured(cost, layer)), len(numbers))
        key = (layer.einsum, number, sizes, sums)
        keys.append(key)
        if key not in nodes:
            costs, left = _node(cost, layer, levels, choices, sizes, sums)
            nodes[key] = (costs.reshape(-1, len(choices[0])).min(axis=0) if above.least else costs, left)
    found = []
    for at, tensor in enumerate(graph.tensors):
        ends = (tensor.producer, tensor.consumer)
        flow, products = above.flows.tensors[at], above.products[at]
        pair = (keys[ends[0]][:3], keys[ends[1]][:3], above.between[at], flow, id(products))
        if pair not in edges:
            einsums = (graph.layers[ends[0]].einsum, graph.layers[ends[1]].einsum)
            lefts = (nodes[keys[ends[0]]][1], nodes[keys[ends[1]]][1])
            both = (options[ends[0]], options[ends[1]])
            way = Way(cost, above.between[at], flow, einsums, least=above.least)
            edges[pair] = way.costs(levels, both, lefts, products)[:, None, :]
        found.append(Edge(source=ends[0], target=ends[1], terms=(edges[pair],)))
    return CostGraph(nodes=tuple(nodes[key][0] for key in keys), edges=tuple(found))


def _node(
    cost: MovingCost,
    layer: CutLayer,
    levels: Sequence[Level],
    options: tuple[Options, ...],
    sizes: LocalSizes,
    sums: Sums,
) -> tuple[Costs, list[LocalSizes]]:
    """Return a layer's cost vector over tuples of choices, and its sizes above each level."""
    total, left = np.zeros(1), []
    for level, choices in zip(levels, options, strict=True):
        left.append(sizes)
        here = reduce(np.add, layer_items(cost, level, layer, choices, sizes, sums).values()).reshape(-1)
        total = here if level is levels[0] else total.repeat(len(choices)) + here
        sizes = sizes.divided(layer.einsum, choices, level.ways) if level is not levels[-1] else sizes
    return total, left


class Way:
    """A tensor between two layers, for its costs over pairs of tuples."""

    def __init__(
        self, cost: MovingCost, between: Between, flow: Flow, ends: tuple[Einsum, Einsum], *, least: bool
    ) -> None:
        """Keep the tensor; ``least`` asks for lower bounds."""
        self.cost, self.between, self.ends, self.least = cost, between, ends, least
        self.parts = parts_of(flow, between)

    def costs(
        self,
        levels: Sequence[Level],
        options: tuple[tuple[Options, ...], tuple[Options, ...]],
        left: tuple[list[LocalSizes], list[LocalSizes]],
        products: Products,
    ) -> Costs:
        """Return the cost of each pair of tuples, ``[tuples of the producer, tuples of the consumer]``."""
        total = np.zeros((1, 1))
        for level, *pair, made, read in zip(levels, *options, *left, strict=True):
            choices = (pair[0], pair[1])
            here = moved_costs(
                self.between,
                self.parts,
                products,
                self.ends,
                choices,
                (made, read),
                level,
                self.cost.rates(level),
                least=self.least,
            )
            shape = (len(total), len(choices[0]), total.shape[1], len(choices[1]))
            both = np.broadcast_to(here, shape) if level is levels[0] else total[:, None, :, None] + here
            total = both.reshape(shape[0] * shape[1], -1)
            if level is not levels[-1]:
                products = below(products, factors_of(self.ends, self.between, choices, read, level.ways))
        return total
