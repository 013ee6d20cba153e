"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.between import least_below
from hypar.sharding.amounts.factors import (
    Above,
    Offered,
    divides_image,
    fractions_of,
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
    from hypar.sharding.amounts.factors import Taken
    from hypar.sharding.amounts.transfers import Network, Parts
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
        numbers: dict[Options, int] = {}
        chosen = [numbers.setdefault(own, len(numbers)) for own in options]
        below_it: dict[object, tuple[LocalSizes, Above]] = {}
        left = []
        for at, (layer, before, choices, number) in enumerate(
            zip(graph.layers, self.sizes, options, chosen, strict=True)
        ):
            above = Above() if least else self.input(graph, at)
            key = (layer.nest, before, number, above.digits)
            if key not in below_it:
                divided = before.divided(layer.nest, choices, ways)
                if least:
                    divided = LocalSizes(np.unique(divided.fractions, axis=1), divided.names)
                elif not self.network.sums[at].apart:
                    above = above.below(of_input(layer.nest), (WHOLE, choices[0]), ways)[1]
                below_it[key] = divided, above
            left.append(below_it[key])
        sizes, inputs = map(tuple, zip(*left, strict=True))
        network = self.network
        if any(between.apart for between in network.between):
            return State(network, sizes, self.tensors, inputs, least)
        kept: dict[object, Above] = {}
        found = []
        for tensor, between, parts, image, above in zip(
            network.tensors, network.between, network.parts, network.images, self.tensors, strict=True
        ):
            ends = (tensor.producer, tensor.consumer)
            place = (id(parts), id(above), chosen[ends[0]], chosen[ends[1]])
            if place not in kept:
                pair = (options[ends[0]], options[ends[1]])
                if least:
                    factors = plain(between, pair, ways)
                    if divides_image(between, pair, ways, image).any():
                        # Rows that both ends have may be fewer.
                        factors = factors._replace(**dict.fromkeys(("both", "back", "owned"), np.zeros(1)))
                    kept[place] = Above(least_below(above.products, factors))
                else:
                    kept[place] = above.below(between, (pair[0][0], pair[1][0]), ways)[1]
            found.append(kept[place])
        return State(network, sizes, tuple(found), inputs, least)

    def input(self, graph: PlanGraph, at: int) -> Above:
        """Return what the levels above leave of a layer's input."""
        return self.inputs[at] if self.inputs else input_of(graph.layers[at].nest)

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Amount]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return [
            *received_inside(graph.layers[at].nest, self.network.sums[at], self.input(graph, at), offered)
        ]

    def between(self, graph: PlanGraph, at: int, made: Offered, read: Offered) -> list[Amount]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        between, parts, above, reader = self.tensor(graph, at)
        own = fractions_of(between, made, read, above, reader)
        return received_between(between, parts, above.products, (made, read), own)

    def tensor(self, graph: PlanGraph, at: int) -> tuple[Between, Parts, Above, Nest | None]:
        """Return what the amounts of a tensor depend on besides its options."""
        between = self.network.between[at]
        reader = graph.ends(graph.tensors[at])[1].nest if between.apart else None
        return between, self.network.parts[at], self.tensors[at], reader

    def crossing(self, graph: PlanGraph, taken: Sequence[Taken]) -> Crossed:
        """Return what the groups of a split receive, and their state below it; equal amounts are one object."""
        inside, inputs = [], []
        for at, own in enumerate(taken):
            layer, above = graph.layers[at], self.input(graph, at)
            amounts, below = crossed_inside(layer.nest, self.network.sums[at], above, own)
            inside.append(amounts)
            inputs.append(below)
        between, tensors = [], []
        for at, tensor in enumerate(graph.tensors):
            *about, reader = self.tensor(graph, at)
            amounts, below = crossed(*about, taken[tensor.producer], taken[tensor.consumer], reader)
            inside[tensor.producer] += tuple(amount for amount in amounts if amount.inside)
            between.append(tuple(amount for amount in amounts if not amount.inside))
            tensors.append(below)
        groups = range(len(taken[0][1]))
        states = [
            self._replace(
                tensors=tuple(own[group] for own in tensors), inputs=tuple(own[group] for own in inputs)
            )
            for group in groups
        ]
        return Crossed(inside, between, states)


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
