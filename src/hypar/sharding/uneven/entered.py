"""The state below uneven splits under ``moved`` and ``fused``: what a group of devices has and needs of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.above import Above, Network, network_of
from hypar.sharding.amounts.products import OUTERMOST, Products
from hypar.sharding.levels import WHOLE_LAYER
from hypar.sharding.uneven.counted import kinds_of, received_between, received_inside
from hypar.sharding.uneven.fractions import Offered, as_consumer, as_producer, fractions_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.placement import Choice
    from hypar.sharding.uneven.fractions import Array


class Amount(NamedTuple):
    """The elements that each group of an uneven split receives in one change of placement.

    Attributes:
        phase: the phase whose result or operand moves.
        collective: the collective that moves it, as ``all_reduce``.
        elements: the elements that each group receives.
        tensor: of a transfer between two layers, ``input``, which the consumer reads, or ``output``, which the producer makes.
        fuller: for each group that works, and each lane inside it, how many times the average of the group the fullest device
            receives; nothing for once.
    """

    phase: str
    collective: str
    elements: tuple[Any, ...]
    tensor: str = "input"
    fuller: tuple[tuple[float, ...], ...] = ()


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
        return Above([WHOLE_LAYER] * len(self.network[0].sums), self.network, self.products)

    def factors(self, graph: PlanGraph, at: int, made: Offered, read: Offered) -> Factors:
        """Return the factors of each group of a split, for a tensor and the options of its ends."""
        return fractions_of(graph.ends(graph.tensors[at])[1].nest, self.network[1][at], made, read)

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Amount]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        found = received_inside(graph.layers[at].nest, self.network[0].sums[at], offered)
        return [Amount(one.phase, one.collective, _of_groups(one.elements)) for one in found]

    def between(self, graph: PlanGraph, at: int, made: Offered, read: Offered) -> list[Amount]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        return self._received(graph, at, made, read, self.factors(graph, at, made, read))

    def _received(
        self, graph: PlanGraph, at: int, made: Offered, read: Offered, own: Factors
    ) -> list[Amount]:
        """Return the same for factors that are known."""
        shares = (as_producer(made.shares), as_consumer(read.shares))
        reader = graph.ends(graph.tensors[at])[1].nest
        kinds = kinds_of(reader, self.network[1][at], (made.options[0], read.options[0]))
        return [
            Amount(
                part.phase,
                kinds[part.manner],
                _of_groups(received_between(part, own, self.products[at], shares)),
                part.tensor,
            )
            for part in self.network[2][at]
        ]

    def crossing(self, graph: PlanGraph, taken: Sequence[Taken]) -> Crossed:
        """Return what the groups of a split receive, and their state below it; equal amounts are one object."""
        offered = _offered(taken)
        of_layers, of_tensors = self._inside_all(graph, offered), []
        kept: dict[Hashable, tuple[tuple[Amount, ...], list[Products]]] = {}
        products = []
        for at, (key, ends) in enumerate(self._ends(graph, offered)):
            if key not in kept:
                own = self.factors(graph, at, *ends)
                amounts = _numbers(self._received(graph, at, *ends, own))
                kept[key] = amounts, _products(self.products[at], own)
            parts = [*zip(self.network[2][at], kept[key][0], strict=True)]
            of_layers[graph.tensors[at].producer] += tuple(amount for part, amount in parts if part.inside)
            of_tensors.append(tuple(amount for part, amount in parts if not part.inside))
            products.append(kept[key][1])
        return Crossed(of_layers, of_tensors, self._of_groups(products, len(taken[0][1])))

    def _inside_all(self, graph: PlanGraph, offered: Sequence[Offered]) -> list[tuple[Amount, ...]]:
        kept: dict[Hashable, tuple[Amount, ...]] = {}
        found = []
        for at, (layer, own) in enumerate(zip(graph.layers, offered, strict=True)):
            key: Hashable = (layer.nest, self.network[0].sums[at], id(own))
            if key not in kept:
                kept[key] = _numbers(self.inside(graph, at, own))
            found.append(kept[key])
        return found

    def below(self, graph: PlanGraph, taken: Sequence[Taken]) -> list[Entered]:
        """Return the state of each group of a split; equal products are one object."""
        kept: dict[Hashable, list[Products]] = {}
        found = []
        for at, (key, ends) in enumerate(self._ends(graph, _offered(taken))):
            if key not in kept:
                kept[key] = _products(self.products[at], self.factors(graph, at, *ends))
            found.append(kept[key])
        return self._of_groups(found, len(taken[0][1]))

    def _of_groups(self, products: Sequence[Sequence[Products]], groups: int) -> list[Entered]:
        return [Entered(self.network, tuple(own[group] for own in products)) for group in range(groups)]

    def _ends(
        self, graph: PlanGraph, offered: Sequence[Offered]
    ) -> list[tuple[Hashable, tuple[Offered, Offered]]]:
        """Return for each tensor a key of its amounts, and the options of its ends."""
        ends = [(offered[tensor.producer], offered[tensor.consumer]) for tensor in graph.tensors]
        return [((*self._key(graph, at), *map(id, pair)), pair) for at, pair in enumerate(ends)]

    def _key(self, graph: PlanGraph, at: int) -> tuple[Hashable, ...]:
        """Return what the amounts of a tensor depend on besides its options; equal parts and products are one object."""
        reader = graph.ends(graph.tensors[at])[1].nest
        return reader, id(self.network[1][at]), id(self.network[2][at]), id(self.products[at])


def whole(graph: PlanGraph, convention: str) -> Entered:
    """Return the state above all splits of a network."""
    return Entered(network_of(graph, convention, tied=False), (OUTERMOST,) * len(graph.tensors))


def crossed(
    reader: Nest, between: Between, part: Part, above: Products, made: Offered, read: Offered
) -> tuple[Amount, list[Products]]:
    """Return what the groups of a split receive in one transfer of a tensor, and the products below it for each group.

    Args:
        reader: the consumer, with the sizes that the splits above leave.
        between: the tensor's dims at both ends.
        part: the transfer.
        above: the products above the split.
        made: the only option of the producer.
        read: the only option of the consumer.
    """
    own = fractions_of(reader, between, made, read)
    found = received_between(part, own, above, (as_producer(made.shares), as_consumer(read.shares)))
    kind = kinds_of(reader, between, (made.options[0], read.options[0]))[part.manner]
    (amount,) = _numbers([Amount(part.phase, kind, _of_groups(found), part.tensor)])
    return amount, _products(above, own)


def _offered(taken: Sequence[Taken]) -> list[Offered]:
    """Return each layer's choice as its only option; equal ones are one object."""
    kept: dict[Taken, Offered] = {}
    for choice, shares in taken:
        if (choice, shares) not in kept:
            kept[choice, shares] = Offered((choice,), np.array([shares], dtype=np.float64))
    return [kept[own] for own in taken]


def _of_groups(elements: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(elements, -1, 0))


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
