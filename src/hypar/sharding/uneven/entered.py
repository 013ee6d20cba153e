"""The state below uneven splits under ``moved`` and ``fused``: what a group of devices has and needs of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.above import Above
from hypar.sharding.amounts.fractions import Offered, fractions_of
from hypar.sharding.amounts.products import OUTERMOST, Products
from hypar.sharding.amounts.transfers import Network, network_of
from hypar.sharding.levels import WHOLE_LAYER
from hypar.sharding.uneven.counted import received_between, received_inside

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors
    from hypar.sharding.amounts.transfers import Part
    from hypar.sharding.placement import Choice
    from hypar.sharding.uneven.counted import Amount


Shares = tuple[float, ...]

Taken = tuple["Choice", Shares]
"""The choice of a layer, with the shares of all groups that work."""


class Crossed(NamedTuple):
    """What the groups of a split receive, and their state below it.

    Attributes:
        inside: for each layer what they receive to add up its sums.
        between: for each tensor what they receive between its two layers.
        below: the state of each group.
    """

    inside: list[tuple[Amount, ...]]
    between: list[tuple[Amount, ...]]
    below: list[Entered]


class Entered(NamedTuple):
    """The state of one group of devices.

    Attributes:
        network: the amounts of the whole network.
        products: for each tensor the products of the factors of the splits above, for this group alone.
    """

    network: Network
    products: tuple[Products, ...]

    @property
    def above(self) -> Above:
        """The state above the group's outermost level, whose layers have the sizes that the splits leave."""
        return Above([WHOLE_LAYER] * len(self.network.sums), self.network, self.products)

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Amount]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return [*received_inside(graph.layers[at].nest, self.network.sums[at], offered)]

    def between(self, graph: PlanGraph, at: int, made: Offered, read: Offered) -> list[Amount]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        return received_between(*self.tensor(graph, at), made, read)

    def tensor(self, graph: PlanGraph, at: int) -> tuple[Nest, Between, tuple[Part, ...], Products]:
        """Return what the amounts of a tensor depend on besides its options; equal ones are the same objects."""
        reader = graph.ends(graph.tensors[at])[1].nest
        return reader, self.network.between[at], self.network.parts[at], self.products[at]

    def crossing(self, graph: PlanGraph, taken: Sequence[Taken]) -> Crossed:
        """Return what the groups of a split receive, and their state below it; equal amounts are one object."""
        options = {own: Offered.of([own]) for own in taken}
        inside: dict[Hashable, tuple[Amount, ...]] = {}
        between: dict[Hashable, tuple[tuple[Amount, ...], list[Products]]] = {}
        of_layers, of_tensors, products = [], [], []
        for at, (layer, own) in enumerate(zip(graph.layers, taken, strict=True)):
            alike = (layer.nest, self.network.sums[at], own)
            if alike not in inside:
                inside[alike] = _numbers(self.inside(graph, at, options[own]))
            of_layers.append(inside[alike])
        for at, tensor in enumerate(graph.tensors):
            ends, about = (taken[tensor.producer], taken[tensor.consumer]), self.tensor(graph, at)
            key = (about[0], *map(id, about[1:]), *ends)
            if key not in between:
                between[key] = crossed(*about, options[ends[0]], options[ends[1]])
            amounts, below = between[key]
            parts = [*zip(about[2], amounts, strict=True)]
            of_layers[tensor.producer] += tuple(amount for part, amount in parts if part.inside)
            of_tensors.append(tuple(amount for part, amount in parts if not part.inside))
            products.append(below)
        groups = range(len(taken[0][1]))
        states = [Entered(self.network, tuple(own[group] for own in products)) for group in groups]
        return Crossed(of_layers, of_tensors, states)


def whole(graph: PlanGraph, convention: str) -> Entered:
    """Return the state above all splits of a network."""
    return Entered(network_of(graph, convention, tied=False), (OUTERMOST,) * len(graph.tensors))


def crossed(
    reader: Nest, between: Between, parts: tuple[Part, ...], above: Products, made: Offered, read: Offered
) -> tuple[tuple[Amount, ...], list[Products]]:
    """Return the transfers of a tensor at a split, and the products below it for each group.

    Args:
        reader: the consumer, with the sizes that the splits above leave.
        between: the tensor's dims at both ends.
        parts: its transfers.
        above: the products above the split.
        made: the only option of the producer.
        read: the only option of the consumer.
    """
    own = fractions_of(reader, between, made, read)
    amounts = _numbers(received_between(reader, between, parts, above, made, read, own))
    return amounts, _products(above, own)


def _numbers(amounts: Sequence[Amount]) -> tuple[Amount, ...]:
    """Return the amounts of a single option as numbers."""
    return tuple(
        amount._replace(elements=tuple(float(own.reshape(-1)[0]) for own in amount.elements))
        for amount in amounts
    )


def _products(above: Products, own: Factors) -> list[Products]:
    """Return the products below a split for each group, for a single pair of options."""
    columns = [
        product * np.broadcast_to(factor, np.broadcast_shapes(factor.shape, own.both.shape)).reshape(-1)
        for product, factor in zip(above, own, strict=True)
    ]
    return [Products(*row) for row in np.stack(columns, axis=1).tolist()]
