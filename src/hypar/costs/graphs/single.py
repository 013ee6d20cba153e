"""The cost graph of one level under ``moved`` and ``fused``, below one tuple of choices for each layer.

Layers of equal roles are computed together, and so are tensors between equal dims with equal options: the arrays of a
level are small, and their number is what costs time.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.alike import work_of
from hypar.costs.graphs.rounding import even, reaching
from hypar.sharding.amounts.factors import plain
from hypar.sharding.amounts.priced import LevelOf, added_costs, moved_costs, prices_of
from hypar.sharding.amounts.products import at_one, priced_names
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hypar.costs.base import Items, MovingCost
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def layer_items(
    cost: MovingCost,
    level: Level,
    layers: Sequence[PlanNode],
    options: Options,
    sizes: Sequence[LocalSizes],
    sums: Sequence[Sums],
) -> Items:
    """Return the costs inside layers of equal roles with equal options, item by item.

    Returns:
        ``[layers, tuples above, options]`` for each item.
    """
    nests = [layer.nest for layer in layers]
    added = added_costs(nests, options, sizes, level, sums, cost.rates(level)[0])
    return {**added, **work_of(cost, level, layers, options, sizes)}


class SingleLevel:
    """The costs of one level.

    Attributes:
        cost: the cost of a choice.
        graph: the layers that are cut.
        level: the level.
        options: the options of each layer.
        above: the state above the level, of one tuple.
    """

    def __init__(
        self,
        cost: MovingCost,
        graph: PlanGraph,
        level: Level,
        options: Sequence[Options],
        above: Above,
    ) -> None:
        """Number the distinct options, which take their place in what is looked up."""
        self.cost, self.graph, self.level, self.options, self.above = cost, graph, level, options, above
        numbers: dict[object, int] = {}
        self.numbers = [
            numbers.setdefault((own, measured(cost, layer)), len(numbers))
            for layer, own in zip(graph.layers, options, strict=True)
        ]
        self.reaches = reaching(dict(zip(self.numbers, options, strict=True)).values())
        self.rounds = self.reaches and cost.unit == "bytes"
        self.prices = prices_of(cost.rates(level))

    def built(self) -> CostGraph:
        """Return the cost graph; equal layers and equal tensors share their arrays."""
        edges = self._edges()
        return CostGraph(
            nodes=tuple(self._nodes()),
            edges=tuple(
                Edge(source=tensor.producer, target=tensor.consumer, terms=terms)
                for tensor, terms in zip(self.above.tensors, edges, strict=True)
            ),
        )

    def _nodes(self) -> list[Costs]:
        """Return the cost of each option of each layer."""
        every = zip(self.graph.layers, self.numbers, self.above, self.above.flows.sums, strict=True)
        keys = [(layer.nest, number, sizes, sums) for layer, number, sizes, sums in every]
        alike: dict[object, dict[tuple[Nest, int, LocalSizes, Sums], int]] = {}
        for index, key in enumerate(keys):
            alike.setdefault((key[0].unsized, key[1]), {}).setdefault(key, index)
        found: dict[object, Costs] = {}
        for distinct in alike.values():
            layers = [self.graph.layers[index] for index in distinct.values()]
            options = self.options[next(iter(distinct.values()))]
            sizes, sums = zip(*((key[2], key[3]) for key in distinct), strict=True)
            items = layer_items(self.cost, self.level, layers, options, sizes, sums)
            rows = reduce(np.add, items.values()).reshape(len(layers), -1)
            for key, layer, costs in zip(distinct, layers, rows, strict=True):
                found[key] = even(costs, layer.nest) if self.rounds else costs
        return [found[key] for key in keys]

    def _edges(self) -> list[tuple[Costs]]:
        """Return the costs of each tensor as the only term of an edge."""
        keys = [self._key(at, tensor) for at, tensor in enumerate(self.above.tensors)]
        distinct: dict[Hashable, int] = {}
        for at, key in enumerate(keys):
            distinct.setdefault(key, at)
        if self.prices is None or self.reaches:
            found = {key: (self._alone(at)[:, None],) for key, at in distinct.items()}
        else:
            found = self._together(distinct, self.prices)
        return [found[key] for key in keys]

    def _key(self, at: int, tensor: Tensor) -> Hashable:
        """Return what the costs of a tensor depend on; equal products and transfers are one object."""
        above, ends = self.above, (tensor.producer, tensor.consumer)
        key = (id(above.parts[at]), id(above.products[at]), *[self.numbers[end] for end in ends])
        key = (*key, tensor.operand) if tensor.operand else key
        if self.prices is not None and not self.reaches:
            return key
        return (*key, *[(self.graph.layers[end].nest, above[end]) for end in ends])

    def _alone(self, at: int) -> Costs:
        """Return the costs of one tensor, ``[options of the producer, options of the consumer]``."""
        tensor, above = self.above.tensors[at], self.above
        ends = (tensor.producer, tensor.consumer)
        read = self.graph.ends(tensor)[1]
        of_level = LevelOf(
            self.level,
            above.between[at],
            read.nest,
            (self.options[ends[0]], self.options[ends[1]]),
            (above[ends[0]], above[ends[1]].read_at(tensor.operand)),
        )
        costs = moved_costs(above.parts[at], of_level, above.products[at], self.cost.rates(self.level), None)
        return even(costs, read.nest) if self.rounds else costs

    def _together(
        self, distinct: Mapping[Hashable, int], prices: tuple[float, float]
    ) -> dict[Hashable, tuple[Costs]]:
        """Return the costs of tensors without halos, those between equal dims with equal options together."""
        above = self.above
        alike: dict[Hashable, list[tuple[Hashable, int]]] = {}
        for key, at in distinct.items():
            tensor, names = self.above.tensors[at], priced_names(above.parts[at], prices)[0]
            numbers = (self.numbers[tensor.producer], self.numbers[tensor.consumer])
            alike.setdefault((id(above.between[at]), numbers, names), []).append((key, at))
        found: dict[Hashable, tuple[Costs]] = {}
        for same in alike.values():
            at = same[0][1]
            tensor = self.above.tensors[at]
            pair = (self.options[tensor.producer], self.options[tensor.consumer])
            growth = plain(above.between[at], pair, self.level.ways).at_level.flat
            assert growth is not None  # noqa: S101 (no window reaches across a border)
            every = [at for _, at in same]
            costs = at_one(
                [above.parts[at] for at in every], [above.products[at] for at in every], growth, prices
            )
            found |= {key: (own,) for (key, _), own in zip(same, costs[:, :, None], strict=True)}
        return found
