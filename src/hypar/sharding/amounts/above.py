"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.between import mapped
from hypar.sharding.amounts.factors import (
    Above,
    below,
    divides_image,
    input_of,
    of_input,
    plain,
)
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.amounts.uneven import Amount, crossed, crossed_inside, received_between, received_inside
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes
from hypar.sharding.placement import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.factors import Offered, Taken
    from hypar.sharding.amounts.transfers import Network, Parts
    from hypar.sharding.amounts.windows import Image
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
        tensors: for each tensor what the levels above leave of it; of a group of what it has.
        inputs: for each layer the same of its input, of which every device has a copy; none at the outermost level.
        least: whether they are the distinct sizes, and the least products, of many tuples, for lower bounds.
    """

    network: Network
    sizes: tuple[LocalSizes, ...]
    tensors: tuple[Above, ...]
    inputs: tuple[Above, ...] = ()
    least: bool = False

    def below(self, graph: PlanGraph, options: Sequence[Options], ways: int, *, least: bool = False) -> State:
        """Return the state below a level; equal sizes and equal products share one object.

        Args:
            graph: the layers.
            options: for each layer its choice at the level; several for lower bounds.
            ways: the ways of the level.
            least: whether to keep distinct sizes and the least products of all tuples and options, for lower bounds.
        """
        network, every = self.network, zip(graph.layers, self.sizes, options, strict=True)
        sizes = tuple(
            [
                _least_sizes(own, layer.nest.unsized, choices, ways)
                if least
                else own.divided(layer.nest, choices, ways)
                for layer, own, choices in every
            ]
        )
        state = self._replace(sizes=sizes, least=least)
        if any(sums.apart for sums in network.sums):
            return state
        pairs = [(options[one.producer], options[one.consumer]) for one in network.tensors]
        tensors = [*zip(self.tensors, network.between, pairs, strict=True)]
        if least:
            left = [_least(*own, ways, image) for own, image in zip(tensors, network.images, strict=True)]
            return state._replace(tensors=tuple(left), inputs=(Above(),) * len(sizes))
        inputs = [
            below(self.input(graph, at), of_input(layer.nest), (WHOLE, options[at][0]), ways)[1]
            for at, layer in enumerate(graph.layers)
        ]
        left = [
            below(above, between, (made[0], read[0]), ways)[1] for above, between, (made, read) in tensors
        ]
        return state._replace(tensors=tuple(left), inputs=tuple(inputs))

    def input(self, graph: PlanGraph, at: int) -> Above:
        """Return what the levels above leave of a layer's input."""
        return self.inputs[at] if self.inputs else input_of(graph.layers[at].nest)

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Amount]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return received_inside(graph.layers[at].nest, self.network.sums[at], self.input(graph, at), offered)

    def between(self, at: int, made: Offered, read: Offered) -> list[Amount]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        return received_between(*self.tensor(at), made, read)[0]

    def tensor(self, at: int) -> tuple[Between, Parts, Above]:
        """Return what the amounts of a tensor depend on besides its options."""
        return self.network.between[at], self.network.parts[at], self.tensors[at]

    def crossing(self, graph: PlanGraph, taken: Sequence[Taken]) -> Crossed:
        """Return what the groups of a split receive, and their state below it; equal amounts are one object."""
        inside, inputs, between, tensors = [], [], [], []
        for at, own in enumerate(taken):
            layer, above = graph.layers[at], self.input(graph, at)
            amounts, left = crossed_inside(layer.nest, self.network.sums[at], above, own)
            inside.append(amounts)
            inputs.append(left)
        for at, tensor in enumerate(graph.tensors):
            amounts, left = crossed(*self.tensor(at), taken[tensor.producer], taken[tensor.consumer])
            inside[tensor.producer] += tuple(amount for amount in amounts if amount.inside)
            between.append(tuple(amount for amount in amounts if not amount.inside))
            tensors.append(left)
        groups = range(len(taken[0][1]))
        states = [
            self._replace(
                tensors=tuple(own[group] for own in tensors), inputs=tuple(own[group] for own in inputs)
            )
            for group in groups
        ]
        return Crossed(inside, between, states)


@lru_cache(maxsize=4096)
def _least_sizes(above: LocalSizes, roles: Nest, options: Options, ways: int) -> LocalSizes:
    divided = above.divided(roles, options, ways)
    return LocalSizes(np.unique(divided.fractions, axis=1), divided.names)


@lru_cache(maxsize=4096)
def _least(above: Above, between: Between, pair: tuple[Options, Options], ways: int, image: Image) -> Above:
    """Return the least products below a level, over all tuples and options."""
    factors = plain(between, pair, ways)
    if divides_image(between, pair, ways, image).any():
        # Rows that both ends have may be fewer.
        factors = factors._replace(**dict.fromkeys(("both", "back", "owned"), np.zeros(1)))
    return Above(mapped(lambda product, factor: product * factor.min(), above.products, factors))


def outermost(graph: PlanGraph, convention: str, *, tied: bool = True) -> State:
    """Return the state above the outermost level.

    Args:
        graph: the layers.
        convention: the convention.
        tied: whether the gradient of a weight that several layers use is added up once; not at uneven splits.
    """
    network = network_of(graph, convention, tied=tied)
    kept = {image: Above(image=image) for image in network.images}
    tensors = tuple([kept[image] for image in network.images])
    return State(network, (WHOLE_LAYER,) * len(graph.layers), tensors)
