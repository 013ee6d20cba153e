"""Cost graphs under ``moved`` and ``fused``.

What a level moves between two layers depends on the choices of both at the levels above: on the product of a factor for
each level. With several levels an edge is therefore a whole matrix over the pairs of tuples; equal edges share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np

from hypar.costs.base import measured
from hypar.sharding.amounts.places import Places, columns
from hypar.sharding.amounts.priced import LevelOf, added_costs, least_costs, moved_costs
from hypar.sharding.amounts.products import below, in_all, names_of
from hypar.solve.cost_graph import CostGraph, Link, Structure
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Items, MovingCost
    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.network.ops.base import Einsum
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.factors import Between
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.amounts.products import Part, Products
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Indices


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
    added = added_costs(layer.einsum, options, sizes, level, sums, cost.rates(level)[0])
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
        pair = (
            keys[ends[0]][:3],
            keys[ends[1]][:3],
            above.between[at],
            above.parts[at],
            id(above.products[at]),
        )
        if pair not in edges:
            way = Way(
                cost=cost,
                between=above.between[at],
                parts=above.parts[at],
                ends=(graph.layers[ends[0]].einsum, graph.layers[ends[1]].einsum),
                options=(options[ends[0]], options[ends[1]]),
                sizes=(nodes[keys[ends[0]]][1], nodes[keys[ends[1]]][1]),
                least=above.least,
            )
            edges[pair] = way.costs(levels, above.products[at], None)[:, None, :]
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


Kept = tuple["Indices", "Indices"] | None
"""The tuples of two layers that are left to choose from; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A tensor between two layers, with their options at some levels.

    Attributes:
        cost: the cost.
        between: the tensor's dims at both ends.
        parts: its transfers.
        ends: producer and consumer.
        options: their options at each level.
        sizes: their sizes above each level.
        least: whether lower bounds are asked for.
    """

    cost: MovingCost
    between: Between
    parts: tuple[Part, ...]
    ends: tuple[Einsum, Einsum]
    options: tuple[tuple[Options, ...], tuple[Options, ...]]
    sizes: tuple[list[LocalSizes], list[LocalSizes]]
    least: bool

    def costs(self, levels: Sequence[Level], products: Products, kept: Kept) -> Costs:
        """Return the cost of each pair of tuples, ``[tuples of the producer, tuples of the consumer]``.

        Args:
            levels: the levels.
            products: the products of the levels above, of one tuple.
            kept: the tuples of both; None for all of them.
        """
        here = [self.at(at, level) for at, level in enumerate(levels)]
        rates = [self.cost.rates(level) for level in levels]
        if self.least:
            return least_costs(self.parts, here[0], products, rates[0])
        if len(levels) == 1 and kept is None:
            return moved_costs(self.parts, here[0], products, rates[0], None)
        places = self.places(kept)
        prices = {(inside.price, between.price) for inside, between in rates}
        if len(prices) == 1 and None not in next(iter(prices)):
            return in_all(
                self.parts, self.below(here, products, places), cast("tuple[float, float]", prices.pop())
            )
        total: Costs | float = 0.0
        for at, (level, own) in enumerate(zip(here, rates, strict=True)):
            total = total + moved_costs(self.parts, level, products, own, places[at])
            if at + 1 < len(levels):
                products = self.below([level], products, [places[at]])
        return np.asarray(total)

    def below(self, levels: Sequence[LevelOf], products: Products, places: Sequence[Places]) -> Products:
        """Return the products below consecutive levels."""
        names = names_of(self.parts)
        for level, own in zip(levels, places, strict=True):
            products = below(products, level.at_level.factors, names, own)
        return products

    def at(self, at: int, level: Level) -> LevelOf:
        """Return one of the levels as both layers see it."""
        options = (self.options[0][at], self.options[1][at])
        return LevelOf(level, self.between, self.ends, options, (self.sizes[0][at], self.sizes[1][at]))

    def places(self, kept: Kept) -> list[Places]:
        """Return the tuples of both layers, seen from each level."""
        made, read = (
            columns([len(options) for options in of_layer], own)
            for of_layer, own in zip(self.options, kept or (None, None), strict=True)
        )
        return [Places(*both) for both in zip(made, read, strict=True)]
