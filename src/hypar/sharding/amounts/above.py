"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.between import OUTERMOST, Products, least_below, times
from hypar.sharding.amounts.factors import Offered, factors_of_pair, fractions_of, plain
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.amounts.uneven import Amount, crossed, crossed_inside, received_between, received_inside
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.transfers import Network, Parts
    from hypar.sharding.amounts.uneven import Taken
    from hypar.sharding.placement import Options


class Crossed(NamedTuple):
    """What the groups of a split receive, and their state below it.

    Attributes:
        inside: for each layer what they receive to add up its sums.
        between: for each tensor what they receive between its two layers.
        below: the state of each group.
    """

    inside: list[tuple[Amount, ...]]
    between: list[tuple[Amount, ...]]
    below: list[State]


class State(NamedTuple):
    """The state above a level: of all groups that it splits, or below uneven splits of one group.

    Attributes:
        network: the transfers of the network.
        sizes: the local sizes of each layer; of a group's layers, which have the sizes that the splits leave, all.
        products: for each tensor the products of the factors of the levels above; of a group its own.
        least: whether they are the distinct sizes, and the least products, of many tuples, for lower bounds.
    """

    network: Network
    sizes: tuple[LocalSizes, ...]
    products: tuple[Products, ...]
    least: bool = False

    def below(self, graph: PlanGraph, options: Sequence[Options], ways: int, *, least: bool = False) -> State:
        """Return the state below a level; equal sizes and equal products share one object.

        Args:
            graph: the layers.
            options: for each layer its choice at the level; several for lower bounds.
            ways: the ways of the level.
            least: whether to keep distinct sizes and the least products of all tuples and options, for lower bounds.
        """
        numbers: dict[Options, int] = {}
        chosen = [numbers.setdefault(own, len(numbers)) for own in options]
        reaching = any(choice.degree(dim) > 1 for own in numbers for choice in own for dim in SPATIAL)
        below_it: dict[object, LocalSizes] = {}
        left = []
        for layer, before, choices, number in zip(graph.layers, self.sizes, options, chosen, strict=True):
            key = (layer.nest, before, number)
            if key not in below_it:
                divided = before.divided(layer.nest, choices, ways)
                below_it[key] = (
                    LocalSizes(np.unique(divided.fractions, axis=1), divided.names) if least else divided
                )
            left.append(below_it[key])
        network = self.network
        if any(between.apart for between in network.between):
            return State(network, tuple(left), self.products, least)
        kept: dict[object, Products] = {}
        found = []
        for tensor, between, parts, products in zip(
            network.tensors, network.between, network.parts, self.products, strict=True
        ):
            ends = (tensor.producer, tensor.consumer)
            read, sizes = graph.layers[ends[1]].nest, self.sizes[ends[1]]
            place: tuple[object, ...] = (id(parts), id(products), chosen[ends[0]], chosen[ends[1]])
            if reaching:
                place = (*place, read, sizes)
            if place not in kept:
                pair = (options[ends[0]], options[ends[1]])
                if least:
                    kept[place] = least_below(products, plain(between, pair, ways))
                else:
                    factors = factors_of_pair(read, between, (pair[0][0], pair[1][0]), sizes, ways)
                    kept[place] = times(products, factors)
            found.append(kept[place])
        return State(network, tuple(left), tuple(found), least)

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Amount]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return [*received_inside(graph.layers[at].nest, self.network.sums[at], offered)]

    def between(self, graph: PlanGraph, at: int, made: Offered, read: Offered) -> list[Amount]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        about = self.tensor(graph, at)
        return received_between(*about[1:], (made, read), fractions_of(*about[:2], made, read))

    def tensor(self, graph: PlanGraph, at: int) -> tuple[Nest, Between, Parts, Products]:
        """Return what the amounts of a tensor depend on besides its options."""
        reader = graph.ends(graph.tensors[at])[1].nest
        return reader, self.network.between[at], self.network.parts[at], self.products[at]

    def crossing(self, graph: PlanGraph, taken: Sequence[Taken]) -> Crossed:
        """Return what the groups of a split receive, and their state below it; equal amounts are one object."""
        every = zip(graph.layers, self.network.sums, taken, strict=True)
        inside = [crossed_inside(layer.nest, *own) for layer, *own in every]
        between, products = [], []
        for at, tensor in enumerate(graph.tensors):
            ends = (taken[tensor.producer], taken[tensor.consumer])
            amounts, below = crossed(*self.tensor(graph, at), *ends)
            inside[tensor.producer] += tuple(amount for amount in amounts if amount.inside)
            between.append(tuple(amount for amount in amounts if not amount.inside))
            products.append(below)
        groups = range(len(taken[0][1]))
        states = [self._replace(products=tuple(own[group] for own in products)) for group in groups]
        return Crossed(inside, between, states)


def outermost(graph: PlanGraph, convention: str, *, tied: bool = True) -> State:
    """Return the state above the outermost level.

    Args:
        graph: the layers.
        convention: the convention.
        tied: whether the gradient of a weight that several layers use is added up once; not at uneven splits.
    """
    network = network_of(graph, convention, tied=tied)
    return State(network, (WHOLE_LAYER,) * len(graph.layers), (OUTERMOST,) * len(network.tensors))
