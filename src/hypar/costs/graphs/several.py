"""The cost graph of a network for the choices of several levels at once, and lower bounds of those of one.

A choice of a node is a tuple with one entry for each level, outermost first; the tuples are in lexicographic order. Under
``moved`` and ``fused`` what a level moves between two layers depends on the choices of both at the levels above: on the
product of a factor for each level. An edge is then a whole matrix over the pairs of tuples; equal edges share it. Under
``paper`` each level is counted by itself, and is a term of the edge.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.rounding import even, reaching
from hypar.costs.graphs.single import layer_items
from hypar.costs.graphs.ways import Way
from hypar.sharding.amounts.between import mapped
from hypar.sharding.conventions import BY_PRODUCTS, DIRECT
from hypar.solve.cost_graph import CostGraph, Link, Structure
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.costs.base import Cost
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.transfers import Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Indices

    Pair = tuple[Indices, Indices]

BLOCK = 2**19
"""Pairs of tuples whose costs are computed at once where only the least of them are kept."""


def structure(graph: PlanGraph, options: Sequence[Sequence[Options]], convention: str) -> Structure:
    """Return the shape of the cost graph, for the sizes of its tables before they are built."""
    digits = [tuple([len(at_level) for at_level in at_layer]) for at_layer in options]
    sizes = tuple(map(math.prod, digits))
    if convention in BY_PRODUCTS:
        digits, tensors = [(size,) for size in sizes], (*graph.tensors, *graph.ties)
    else:
        tensors = graph.tensors
    links = [Link(one.producer, one.consumer, digits[one.producer], digits[one.consumer]) for one in tensors]
    return Structure(sizes=sizes, links=tuple(links))


class Builder:
    """The cost graph of the choices of consecutive levels, of which only some tuples may be built."""

    def __init__(
        self,
        cost: Cost,
        graph: PlanGraph,
        levels: Sequence[Level],
        options: Sequence[tuple[Options, ...]],
        above: Above,
    ) -> None:
        """Compute the costs of the nodes; equal layers share their arrays.

        Args:
            cost: the cost of a choice.
            graph: the layers that are cut.
            levels: the levels, outermost first.
            options: for each layer, its options at each of the levels.
            above: the state above the first level. If it has the least products of many tuples, there is one level, and
                every cost is the least one or less.
        """
        self.graph, self.levels, self.above = graph, levels, above
        offered = {id(own): own for choices in options for own in choices}
        convention = cost.convention
        self.apart = convention not in BY_PRODUCTS
        self.rounds = not self.apart and cost.unit == "bytes" and reaching(offered.values())
        nodes: dict[object, tuple[Costs, list[LocalSizes]]] = {}
        numbers: dict[object, int] = {}
        self.keys = []
        for layer, choices, sizes, sums in zip(graph.layers, options, above, above.sums, strict=True):
            number = numbers.setdefault((choices, measured(cost, layer)), len(numbers))
            key = (layer.nest, number, sizes, sums)
            self.keys.append(key)
            if key not in nodes:
                costs, left = _node(cost, layer, levels, choices, sizes, sums)
                costs = even(costs, layer.nest) if self.rounds else costs
                nodes[key] = (costs.reshape(-1, len(choices[0])).min(axis=0) if above.least else costs, left)
        self.nodes = [nodes[key][0] for key in self.keys]
        self.ways: list[Way] = []
        rates = tuple(cost.rates(level) for level in levels)
        shared: dict[object, Way] = {}
        for at, tensor in enumerate(above.tensors):
            ends, products = (tensor.producer, tensor.consumer), above.products[at]
            made, read = (self.keys[end][:3] for end in ends)
            # Equal parts are one object, of equal dims at both ends.
            content = tensor.content if convention == DIRECT else None
            pair = (made, read, id(above.parts[at]), id(products), tensor.operand, content)
            if pair not in shared:
                shared[pair] = Way(
                    rates=rates,
                    between=above.between[at],
                    parts=above.parts[at],
                    content=content,
                    ends=(graph.ends(tensor)[0].nest, graph.ends(tensor)[1].nest),
                    options=(options[ends[0]], options[ends[1]]),
                    sizes=(
                        nodes[self.keys[ends[0]]][1],
                        nodes[self.keys[ends[1]]][1],
                    ),
                    products=mapped(lambda own: np.full((1, 1), own), products),
                    least=above.least,
                )
            self.ways.append(shared[pair])

    def least(self, kept: Sequence[Indices] | None = None) -> list[Costs]:
        """Return the cost of each tuple with what its edges cost whatever the other end is, half of the least of a selection's pairs."""
        found = [costs.copy() if kept is None else costs[kept[at]] for at, costs in enumerate(self.nodes)]
        done: dict[object, Sequence[Costs | float]] = {}
        for tensor, way, pair, key in self._pairs(kept):
            if key not in done:
                done[key] = self._halves(way, pair) if pair else [way.alone(self.levels, at) for at in (0, 1)]
            for end, least in zip((tensor.producer, tensor.consumer), done[key], strict=True):
                found[end] += least
        return found

    def pairs(self, kept: Sequence[Indices]) -> int:
        """Return the number of pairs of some tuples, of all tensors that do not share them."""
        edges = self._pairs(kept)
        return sum({key: len(pair[0]) * len(pair[1]) for _, _, pair, key in edges if pair}.values())

    def _pairs(self, kept: Sequence[Indices] | None) -> Iterator[tuple[Tensor, Way, Pair | None, object]]:
        """Yield each edge with the tuples of its ends, and what equal edges have in common."""
        for tensor, way in zip(self.above.tensors, self.ways, strict=True):
            pair = None if kept is None else (kept[tensor.producer], kept[tensor.consumer])
            yield tensor, way, pair, (id(way), *map(id, pair or ()))

    def _halves(self, way: Way, pair: Pair) -> tuple[Costs, Costs]:
        """Return half of the least cost of an edge for each tuple of both ends, computed some rows at a time."""
        made, read = pair
        rows, columns = np.empty(len(made)), np.full(len(read), np.inf)
        height = max(1, BLOCK // len(read))
        for row in range(0, len(made), height):
            block = self._edge(way, (made[row : row + height], read))
            rows[row : row + height] = block.min(axis=1)
            np.minimum(columns, block.min(axis=0), out=columns)
        return rows / 2, columns / 2

    def _edge(self, way: Way, pair: Pair | None) -> Costs:
        """Return the cost of some pairs of tuples of both ends, of all of them without a selection."""
        costs = way.costs(self.levels, pair)
        return even(costs, way.ends[1]) if self.rounds else costs

    def built(self, kept: Sequence[Indices] | None = None) -> CostGraph:
        """Return the cost graph of some tuples; equal selections of equal layers are one object.

        Args:
            kept: for each layer its tuples; None for all of them.
        """
        edges: dict[object, tuple[Costs, ...]] = {}
        found = []
        for tensor, way, pair, key in self._pairs(kept):
            if key not in edges:
                apart = way.terms(self.levels) if self.apart else ()
                edges[key] = apart or (self._edge(way, pair)[:, None, :],)
            found.append(Edge(source=tensor.producer, target=tensor.consumer, terms=edges[key]))
        if kept is None:
            return CostGraph(nodes=tuple(self.nodes), edges=tuple(found))
        cut: dict[object, Costs] = {}
        for costs, own in zip(self.nodes, kept, strict=True):
            cut.setdefault((id(costs), id(own)), costs[own])
        nodes = tuple(cut[id(costs), id(own)] for costs, own in zip(self.nodes, kept, strict=True))
        return CostGraph(nodes=nodes, edges=tuple(found))


def _node(
    cost: Cost,
    layer: PlanNode,
    levels: Sequence[Level],
    options: tuple[Options, ...],
    sizes: LocalSizes,
    sums: Sums,
) -> tuple[Costs, list[LocalSizes]]:
    """Return a layer's cost vector over tuples of choices, and its sizes above each level."""
    total, left = np.zeros(1), []
    for level, choices in zip(levels, options, strict=True):
        left.append(sizes)
        items = layer_items(cost, level, [layer], choices, [sizes], [sums])
        here = reduce(np.add, items.values()).reshape(-1)
        total = here if level is levels[0] else total.repeat(len(choices)) + here
        sizes = sizes.divided(layer.nest, choices, level.ways) if level is not levels[-1] else sizes
    return total, left
