"""The cost graph of one level, below one tuple of choices for each layer.

Layers of equal roles are computed together, and so are tensors between equal dims with equal options: the arrays of a
level are small, and their number is what costs time.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.rounding import even, reaching
from hypar.sharding.amounts.parts import names_of
from hypar.sharding.amounts.priced import LevelOf, added_costs, direct_costs, level_costs
from hypar.sharding.amounts.products import of_tensors
from hypar.sharding.amounts.rows import cut_windows
from hypar.sharding.conventions import BY_PRODUCTS, DIRECT
from hypar.sharding.levels import WORKING
from hypar.sharding.transfers import all_simple
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.laid_out import LaidOut, level_structure

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.costs.base import Cost, Items
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def layer_items(
    cost: Cost,
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
    return {**added, **_work_of(cost, level, layers, options, sizes)}


def _work_of(
    cost: Cost, level: Level, layers: Sequence[PlanNode], options: Options, sizes: Sequence[LocalSizes]
) -> Items:
    """Return the costs of layers that are no transfers, ``[layers, tuples above, options]`` for each item."""
    if not level.innermost:
        return {}
    known: dict[object, Items] = {}
    works = []
    for layer, own in zip(layers, sizes, strict=True):
        # Equal layers share one nest, and equal sizes are one object.
        key = (id(layer.nest), id(own), measured(cost, layer))
        if key not in known:
            known[key] = cost.work(level, layer, options, own)
        works.append(known[key])
    names = dict.fromkeys(name for work in works for name in work)
    nothing = np.zeros((sizes[0].fractions.shape[1], len(options)))
    return {name: np.stack([work.get(name, nothing) for work in works]) for name in names}


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
        self, cost: Cost, graph: PlanGraph, level: Level, options: Sequence[Options], above: Above
    ) -> None:
        """Number the distinct options, which take their place in what is looked up."""
        self.cost, self.graph, self.level, self.options, self.above = cost, graph, level, options, above
        numbers: dict[object, int] = {}
        self.numbers = [
            numbers.setdefault((own, measured(cost, layer)), len(numbers))
            for layer, own in zip(graph.layers, options, strict=True)
        ]
        self.convention, self.rates = cost.convention, cost.rates(level)
        self.together = any(rates.together for rates in self.rates)
        self.reaches = reaching(dict(zip(self.numbers, options, strict=True)).values())
        self.rounds = self.reaches and cost.unit == "bytes" and self.convention in BY_PRODUCTS

    def built(self) -> CostGraph:
        """Return the cost graph: small arrays as one vector; of grids those of equal layers and equal tensors are one object."""
        nodes, edges = self._nodes(), self._edges()
        ends = tuple([(tensor.producer, tensor.consumer) for tensor in self.above.tensors])
        if all(all_simple(own, self.level.ways) for own in self.options):
            sizes = tuple([len(own) for own in self.options])
            entries = np.concatenate([part.reshape(-1) for part in (*nodes, *edges)])
            return LaidOut(level_structure(sizes, ends), entries)
        found = [Edge(*pair, terms=(costs,)) for pair, costs in zip(ends, edges, strict=True)]
        return CostGraph(nodes=tuple(nodes), edges=tuple(found))

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

    def _edges(self) -> list[Costs]:
        """Return the costs of each tensor, ``[options of the producer, 1, options of the consumer]``."""
        alike: dict[Hashable, dict[Hashable, int]] = {}
        keys = []
        for at, tensor in enumerate(self.above.tensors):
            same, own = self._key(at, tensor)
            keys.append((same, own))
            alike.setdefault(same, {}).setdefault(own, at)
        found: dict[Hashable, Costs] = {}
        for same, distinct in alike.items():
            costs = self._together([*distinct.values()])
            found |= {(same, own): costs[:, at : at + 1] for at, own in enumerate(distinct)}
        return [found[key] for key in keys]

    def _key(self, at: int, tensor: Tensor) -> tuple[Hashable, Hashable]:
        """Return what tensors that are computed together have in common, and what else the costs of one depend on.

        Equal products and transfers are one object.
        """
        above, made, read = self.above, tensor.producer, tensor.consumer
        between, left = above.between[at], above[read]
        same: tuple[Hashable, ...] = (id(between), self.numbers[made], self.numbers[read], tensor.operand)
        if self.convention == DIRECT:
            nests = [self.graph.layers[end].nest for end in (made, read)]
            return (*same, tensor.content, *nests, left), None
        if self.reaches:
            reader = self.graph.layers[read].nest
            same = (*same, reader, left) if cut_windows(reader, self.options[read]) else same
        if self.together:
            same = (*same, *[above[end].idle and above[end].of(WORKING).item() for end in (made, read)])
        parts = above.parts[at]
        if between.apart:
            return same, (id(parts), id(left))
        return (*same, names_of(parts)), (id(parts), id(above.products[at]))

    def _together(self, every: Sequence[int]) -> Costs:
        """Return the costs of tensors that are computed together, ``[options of the producer, tensors, of the consumer]``."""
        above, tensor = self.above, self.above.tensors[every[0]]
        made, read = self.graph.ends(tensor)
        options = (self.options[tensor.producer], self.options[tensor.consumer])
        left = above[tensor.consumer].read_at(tensor.operand)
        if self.convention == DIRECT:
            pair = (made.nest, read.nest)
            return direct_costs(pair, tensor.content, options, left, self.level, self.rates[1])
        parts, between = [above.parts[at] for at in every], above.between[every[0]]
        names = names_of(parts[0])
        if between.apart:
            left_of = [above[above.tensors[at].consumer] for at in every]
            copies = {own: self.level.copies(own.read_at(tensor.operand)).item() for own in {*left_of}}
            products = [{"need": copies[own]} for own in left_of]
        else:
            products = [{name: getattr(above.products[at], name) for name in names} for at in every]
        sizes = (left if between.apart else above[tensor.producer], left)
        level = LevelOf(self.level, between, read.nest, options, sizes)
        costs = level_costs(*of_tensors(parts, products), level, self.rates)
        return even(costs, read.nest) if self.rounds else costs
