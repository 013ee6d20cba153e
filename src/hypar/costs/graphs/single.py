"""The cost graph of one level, below one tuple of choices for each layer.

Layers of equal roles are computed together, and so are tensors between equal dims with equal options: the arrays of a
level are small, and their number is what costs time.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.rounding import even, reaching
from hypar.network.nodes import kept_with_graph
from hypar.sharding.amounts.priced import LevelOf, added_costs, direct_costs, level_costs
from hypar.sharding.amounts.products import OUTERMOST
from hypar.sharding.amounts.rows import cut_windows
from hypar.sharding.amounts.transfers import names_of
from hypar.sharding.conventions import BY_PRODUCTS, DIRECT
from hypar.sharding.levels import LocalSizes
from hypar.sharding.placement import all_simple
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.laid_out import LaidOut, layout_of, level_structure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from hypar.costs.base import Cost, Items
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.transfers import Part, Sums
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Costs, Indices


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


class Tensors(NamedTuple):
    """Tensors between equal dims with equal options, which are computed together.

    Attributes:
        members: their indices.
        tensors: the tensors.
        ends: producer and consumer of one of them.
        parts: their transfers, with elements ``[1, tensors, 1]``.
        names: the names of the factors that these count.
    """

    members: list[int]
    tensors: list[Tensor]
    ends: tuple[Nest, Nest]
    parts: tuple[Part, ...]
    names: tuple[str, ...]


class Alike(NamedTuple):
    """The layers and tensors of a level that are computed together, whatever the levels above leave.

    Attributes:
        layers: the indices of each set of layers.
        tensors: each set of tensors.
        structure: the structure of the cost graph of simple choices, whose arrays are small; None for others.
        order: for each of its entries the place among those of the sets.
        reaching: whether windows reach across borders.
    """

    layers: list[list[int]]
    tensors: list[Tensors]
    structure: Structure | None
    order: Indices
    reaching: bool


@kept_with_graph
def _alike(
    graph: PlanGraph,
    options: tuple[Options, ...],
    ways: int,
    between: tuple[Between, ...],
    parts: tuple[tuple[Part, ...], ...],
    direct: bool,
) -> Alike:
    """Return what is computed together.

    Args:
        graph: the layers that are cut.
        options: the options of each layer.
        ways: the ways of the level.
        between: for each tensor its dims at both ends.
        parts: for each tensor its transfers.
        direct: whether shards have whole elements.
    """
    layers: dict[object, list[int]] = {}
    for at, (layer, own) in enumerate(zip(graph.layers, options, strict=True)):
        layers.setdefault((layer.nest.unsized, own), []).append(at)
    every = (*graph.tensors, *graph.ties)[: len(between)]
    alike: dict[object, list[int]] = {}
    for at, tensor in enumerate(every):
        made, read = graph.ends(tensor)
        pair = (options[tensor.producer], options[tensor.consumer])
        same: tuple[object, ...] = (between[at], names_of(parts[at]), *pair)
        if direct:
            same = (*same, tensor.content, made.nest, read.nest)
        elif cut_windows(read.nest, pair[1]):
            same = (*same, read.nest)
        alike.setdefault(same, []).append(at)
    tensors = []
    for members in alike.values():
        made, read = graph.ends(every[members[0]])
        stacked, names = _stacked([parts[at] for at in members]), names_of(parts[members[0]])
        tensors.append(
            Tensors(members, [every[at] for at in members], (made.nest, read.nest), stacked, names)
        )
    found = Alike([*layers.values()], tensors, None, np.empty(0, np.intp), reaching({*options}))
    if not all(all_simple(own, ways) for own in {*options}):
        return found
    sizes = tuple([len(own) for own in options])
    structure = level_structure(sizes, tuple([(tensor.producer, tensor.consumer) for tensor in every]))
    starts = layout_of(structure).starts
    places = [starts[own][:, None] + np.arange(sizes[own[0]]) for own in found.layers]
    for of in tensors:
        rows, columns = sizes[of.tensors[0].producer], sizes[of.tensors[0].consumer]
        within = np.arange(rows * columns).reshape(rows, 1, columns)
        places.append(starts[len(sizes) :][of.members][:, None] + within)
    order = np.argsort(np.concatenate([own.reshape(-1) for own in places]))
    return found._replace(structure=structure, order=order)


def _stacked(every: Sequence[tuple[Part, ...]]) -> tuple[Part, ...]:
    """Return transfers that count the same factors as one, with the elements of each, ``[1, tensors, 1]``."""
    elements = np.array([[change.elements for part in own for change in part.changes] for own in every])
    columns = iter(elements.T[:, None, :, None])
    return tuple(
        part._replace(changes=tuple([own._replace(elements=next(columns)) for own in part.changes]))
        for part in every[0]
    )


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
        """Find what is computed together."""
        self.cost, self.graph, self.level, self.options, self.above = cost, graph, level, options, above
        self.direct, self.rates = cost.convention == DIRECT, cost.rates(level)
        self.alike = _alike(graph, tuple(options), level.ways, above.between, above.parts, self.direct)
        self.rounds = self.alike.reaching and cost.unit == "bytes" and cost.convention in BY_PRODUCTS

    def built(self) -> CostGraph:
        """Return the cost graph: small arrays as one vector; of grids those of equal layers and equal tensors are one object."""
        alike = self.alike
        if alike.structure is not None:
            found = [self._nodes(members) for members in alike.layers]
            found += [self._edges(own) for own in alike.tensors]
            entries = np.concatenate([costs.reshape(-1) for costs in found])[alike.order]
            return LaidOut(alike.structure, entries)
        nodes: dict[int, Costs] = {}
        for members in alike.layers:
            nodes |= zip(members, self._distinct_nodes(members), strict=True)
        edges: dict[int, Edge] = {}
        for own in alike.tensors:
            for at, tensor, costs in zip(own.members, own.tensors, self._distinct_edges(own), strict=True):
                edges[at] = Edge(tensor.producer, tensor.consumer, terms=(costs,))
        return CostGraph(
            nodes=tuple([nodes[at] for at in sorted(nodes)]), edges=tuple([edges[at] for at in sorted(edges)])
        )

    def _distinct_nodes(self, members: list[int]) -> list[Costs]:
        """Return the costs of each of some layers of equal roles; equal ones are one object."""
        layers, above = self.graph.layers, self.above
        keys = [
            (layers[at].nest, measured(self.cost, layers[at]), above[at], above.sums[at]) for at in members
        ]
        return _once(keys, lambda rows: self._nodes([members[row] for row in rows]))

    def _nodes(self, members: list[int]) -> Costs:
        """Return the costs of layers of equal roles, ``[layers, options]``."""
        layers, sizes = [self.graph.layers[at] for at in members], [self.above[at] for at in members]
        sums = [self.above.sums[at] for at in members]
        items = layer_items(self.cost, self.level, layers, self.options[members[0]], sizes, sums)
        costs = reduce(np.add, items.values()).reshape(len(members), -1)
        return even(costs, layers[0].nest) if self.rounds else costs

    def _distinct_edges(self, own: Tensors) -> list[Costs]:
        """Return the costs of each of some tensors, ``[options of the producer, 1, of the consumer]``; equal ones are one object."""
        above = self.above
        keys = [
            (id(above.parts[at]), id(above.products[at]), above[tensor.producer], above[tensor.consumer])
            for at, tensor in zip(own.members, own.tensors, strict=True)
        ]

        def costs_of(rows: list[int]) -> Costs:
            members = [own.members[row] for row in rows]
            parts = _stacked([above.parts[at] for at in members])
            some = own._replace(members=members, tensors=[own.tensors[row] for row in rows], parts=parts)
            return self._edges(some).swapaxes(0, 1)[:, :, None]

        return _once(keys, costs_of)

    def _edges(self, own: Tensors) -> Costs:
        """Return the costs of tensors, ``[options of the producer, tensors, of the consumer]``."""
        above, between, one = self.above, self.above.between[own.members[0]], own.tensors[0]
        options = (self.options[one.producer], self.options[one.consumer])
        left = _beside([above[tensor.consumer] for tensor in own.tensors])
        if self.direct:
            return direct_costs(own.ends, one.content, one.operand, options, left, self.level, self.rates[1])
        if between.apart:
            made, products = left, OUTERMOST._replace(need=self.level.copies(left, one.operand)[:, None])
        else:
            made = _beside([above[tensor.producer] for tensor in own.tensors])
            every = [above.products[at] for at in own.members]
            rows = {name: np.array([getattr(each, name) for each in every]) for name in own.names}
            products = OUTERMOST._replace(**{name: row[:, None] for name, row in rows.items()})
        level = LevelOf(self.level, between, own.ends[1], options, (made, left))
        costs = level_costs(own.parts, products, level, self.rates)
        return even(costs, own.ends[1]) if self.rounds else costs


def _beside(every: Sequence[LocalSizes]) -> LocalSizes:
    """Return the sizes of layers of equal roles, for each layer as a tuple."""
    fractions = np.concatenate([own.fractions for own in every], axis=1)
    return LocalSizes(fractions, any(own.idle for own in every), every[0].names)


def _once(keys: Sequence[Hashable], costs_of: Callable[[list[int]], Iterable[Costs]]) -> list[Costs]:
    """Return the costs of each key; those of equal keys are one object."""
    firsts: dict[Hashable, int] = {}
    for row, key in enumerate(keys):
        firsts.setdefault(key, row)
    found = dict(zip(firsts, costs_of([*firsts.values()]), strict=True))
    return [found[key] for key in keys]
