"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor.

All groups of an uneven split together receive what an even level whose factors are the sums of theirs would move.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.counted import Received, elements_of
from hypar.sharding.amounts.cuts import ratios
from hypar.sharding.amounts.factors import (
    Above,
    Offered,
    Taken,
    below,
    collective_of,
    digit_of,
    divides_image,
    fractions_of,
    input_of,
    of_input,
    plain,
    working,
)
from hypar.sharding.amounts.transfers import (
    RESIDUE,
    SHARED,
    Factors,
    mapped,
    network_of,
    phase_of,
    received,
    windowed,
)
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes
from hypar.sharding.placement import COPIES, WHOLE, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Between, Network, Part, Parts, Products, Sums
    from hypar.sharding.amounts.windows import Image
    from hypar.solve.edge import Costs


class State(NamedTuple):
    """The state above a level: of all groups that it splits, or below uneven splits of one group.

    Attributes:
        network: the transfers of the network.
        sizes: the local sizes of each layer; of a group's layers, which have the sizes that the splits leave, all.
        tensors: for each tensor what the levels above leave of it; of a group of what it has.
        inputs: for each layer the same of its input, of which every device has a copy.
        least: whether they are the distinct sizes, and the least products, of many tuples, for lower bounds.
    """

    network: Network
    sizes: tuple[LocalSizes, ...]
    tensors: tuple[Above, ...]
    inputs: tuple[Above, ...]
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
        divided = _least_sizes if least else LocalSizes.divided
        sizes = [divided(own, layer.nest.unsized, choices, ways) for layer, own, choices in every]
        state = self._replace(sizes=tuple(sizes), least=least)
        if any(sums.apart for sums in network.sums):
            return state
        pairs = [(options[one.producer], options[one.consumer]) for one in network.tensors]
        tensors = [*zip(self.tensors, network.between, pairs, strict=True)]
        if least:
            left = [_least(*own, ways, image) for own, image in zip(tensors, network.images, strict=True)]
            return state._replace(tensors=tuple(left))
        inputs = [
            below(self.inputs[at], of_input(layer.nest), (WHOLE, options[at][0]), ways)[1]
            for at, layer in enumerate(graph.layers)
        ]
        left = [below(above, own, (made[0], read[0]), ways)[1] for above, own, (made, read) in tensors]
        return state._replace(tensors=tuple(left), inputs=tuple(inputs))

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Received]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return received_inside(graph.layers[at].nest, self.network.sums[at], self.inputs[at], offered)

    def between(self, at: int, made: Offered, read: Offered) -> list[Received]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        return received_between(*self.tensor(at), made, read)[0]

    def tensor(self, at: int) -> tuple[Between, Parts, Above]:
        """Return what the amounts of a tensor depend on besides its options."""
        return self.network.between[at], self.network.parts[at], self.tensors[at]

    def crossing(
        self, graph: PlanGraph, taken: Sequence[Taken]
    ) -> tuple[list[tuple[Received, ...]], list[tuple[Received, ...]], list[State]]:
        """Return what the groups of a split receive inside each layer, and of each tensor, and the state of each group below it."""
        layers = [
            crossed_inside(layer.nest, self.network.sums[at], self.inputs[at], taken[at])
            for at, layer in enumerate(graph.layers)
        ]
        tensors = [
            crossed(*self.tensor(at), taken[tensor.producer], taken[tensor.consumer])
            for at, tensor in enumerate(graph.tensors)
        ]
        inside = [amounts for amounts, _ in layers]
        for tensor, (amounts, _) in zip(graph.tensors, tensors, strict=True):
            inside[tensor.producer] += tuple(amount for amount in amounts if amount.inside)
        between = [tuple(amount for amount in amounts if not amount.inside) for amounts, _ in tensors]
        below = [
            [tuple(left[group] for _, left in of) for of in (tensors, layers)]
            for group in range(len(taken[0][1]))
        ]
        return inside, between, [self._replace(tensors=own, inputs=inputs) for own, inputs in below]


@lru_cache(maxsize=4096)
def _least_sizes(above: LocalSizes, roles: Nest, options: Options, ways: int) -> LocalSizes:
    divided = above.divided(roles, options, ways)
    return LocalSizes(np.unique(divided.fractions, axis=1), divided.names)


@lru_cache(maxsize=4096)
def _least(above: Above, between: Between, pair: tuple[Options, Options], ways: int, image: Image) -> Above:
    factors = plain(between, pair, ways)
    if divides_image(between, pair, ways, image).any():
        # Rows that both ends have may be fewer.
        factors = factors._replace(**dict.fromkeys(SHARED, np.zeros(1)))
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
    tensors, inputs = [kept[image] for image in network.images], [input_of(own.nest) for own in graph.layers]
    return State(network, (WHOLE_LAYER,) * len(graph.layers), tuple(tensors), tuple(inputs))


@lru_cache(maxsize=4096)
def crossed_inside(
    nest: Nest, sums: Sums, above: Above, taken: Taken
) -> tuple[tuple[Received, ...], tuple[Above, ...]]:
    """Return the transfers inside a layer at a split, and what it leaves of its input to each group; arguments as below."""
    amounts = received_inside(nest, sums, above, Offered.of([taken]))
    equal = (WHOLE, (1 / len(taken[1]),) * len(taken[1]))
    below = crossed(of_input(nest), (), above, equal, taken)[1]
    return _single(amounts), below


@lru_cache(maxsize=4096)
def crossed(
    between: Between, parts: Parts, above: Above, made: Taken, read: Taken
) -> tuple[tuple[Received, ...], tuple[Above, ...]]:
    """Return the transfers of a tensor at a split, and what it leaves of the tensor to each group; arguments as below."""
    ends = (Offered.of([made]), Offered.of([read]))
    amounts, own = received_between(between, parts, above, *ends)
    rows = np.stack([np.broadcast_to(factor, own.both.shape).reshape(-1) for factor in own], axis=1)
    products = map(Factors._make, (rows * above.products).tolist())
    digit = digit_of(between, (ends[0].labels[0], ends[1].labels[0]), (made[1], read[1]))
    each = zip(above.parted(digit, len(made[1])), products, strict=True)
    below = tuple([one._replace(products=own) for one, own in each])
    return _single(amounts), below


def _single(amounts: Sequence[Received]) -> tuple[Received, ...]:
    """Return the transfers of a single option, with the elements of each group as numbers."""
    return tuple([own._replace(elements=tuple(own.elements.reshape(-1).tolist())) for own in amounts])


def received_inside(nest: Nest, sums: Sums, above: Above, offered: Offered) -> list[Received]:
    """Return the elements that each group receives to add up the partial sums of a layer.

    Each group adds up its share of a result and gets the other shares; rows beside a border have one owner.

    Args:
        nest: the layer, with the sizes that the splits above leave.
        sums: the results that are added up inside it.
        above: what the splits above leave of its input.
        offered: its options.
    """
    terms = working(offered.cut({COPIES}), offered.shares, apart=sums.apart)
    each = _added(terms, terms, offered.shares)
    sizes, rows, found = elements_of(nest, sums, above.cuts)[:, 0].tolist(), ratios(*above[1:]), []
    for at, (tensor, size) in enumerate(zip(nest.names, sizes, strict=True)):
        partial = ~offered.cut({*nest.names[tensor], "" if nest.view else COPIES})
        if partial.any() and size:
            many = size if at or sums.apart else size * (rows.need + rows.added) / 2
            elements = many * np.where(partial, each, 0.0)
            found.append(Received(phase_of(tensor), tensor, "all_reduce", np.moveaxis(elements, -1, 0), True))
    cut = offered.cut({*windowed(nest)})
    if sums.input and cut.any():
        beside = np.where(cut, _beside(nest, above, offered, apart=sums.apart), 0.0)
        if (beside > RESIDUE).any():
            elements = np.moveaxis(sizes[0] * beside, -1, 0)
            found.append(Received(phase_of("input"), "input", "neighbours", elements, True))
    return found


def _beside(nest: Nest, above: Above, offered: Offered, *, apart: bool) -> Costs:
    """Return the rows that each group reads and another adds up, as a multiple of F_in, ``[..., options, groups]``."""
    read = of_input(nest)
    if apart:
        read, above = read._replace(apart=True, borders=tuple(windowed(nest).items())), Above()
    equal = Offered((WHOLE,), np.full_like(offered.shares[..., :1, :], 1 / offered.shares.shape[-1]))
    own, rows = fractions_of(read, equal, offered, above), ratios(*above[1:])
    works = np.where(offered.shares > 0, 1.0, 0.0)
    need, added = rows.need * works * own.need[..., 0, :, :], rows.added * works * own.added[..., 0, :, :]
    total = (need + added).sum(axis=-1, keepdims=True) - rows.need - rows.added
    # Of rows that several groups read alike each of these adds up its terms.
    some = (need > added + RESIDUE).any(axis=-1, keepdims=True)
    beside = np.where(some, np.maximum(need - added, 0.0), need)
    return np.asarray(beside * (total / np.maximum(beside.sum(axis=-1, keepdims=True), RESIDUE)))


def received_between(
    between: Between, parts: Parts, above: Above, made: Offered, read: Offered
) -> tuple[list[Received], Factors]:
    """Return the transfers of a tensor between two layers, and the factors of each group.

    Args:
        between: the tensor's dims at both ends.
        parts: its transfers.
        above: what the levels above leave of the tensor.
        made: the options of the producer.
        read: the options of the consumer.

    Returns:
        ``[groups, ..., options of producer, of consumer]`` of each transfer, and factors with the groups behind these.
    """
    own = fractions_of(between, made, read, above)
    shares = (made.shares[..., :, None, :], read.shares[..., None, :, :])
    pair = (made.options[0], read.options[0])
    ways = max(2, *(choice.devices(1) for choice in pair))
    sums = mapped(lambda factor: factor.sum(axis=-1, keepdims=True), own)
    found = []
    for part in parts:
        elements = np.moveaxis(_received(part, own, sums, above.products, shares), -1, 0)
        kind = collective_of(between, pair, ways, part.manner)
        found.append(Received(part.phase, part.tensor, kind, elements, part.inside))
    return found, own


def _received(part: Part, own: Factors, sums: Factors, above: Products, shares: tuple[Costs, Costs]) -> Costs:
    """Return the elements of a transfer that each group receives, ``[..., options of producer, of consumer, groups]``."""
    total = np.maximum(received(part, above, sums), 0.0)
    first, last = part.changes[0], part.changes[-1]
    gets, before = getattr(own, first.gets), getattr(above, first.gets)
    if part.manner == "sums":
        each = _added(gets, getattr(own, last.gets), shares[0], before, getattr(above, last.gets))
    elif first is last:
        each = before * gets - getattr(above, first.has) * getattr(own, first.has)
    else:
        # A group that needs a sum makes it, where it has a term.
        terms = _added(own.need, own.kept, shares[1])
        each = np.where(own.both >= own.kept - RESIDUE, terms, own.kept - own.both)
    each = np.maximum(each, 0.0)
    each = np.where(each.sum(axis=-1, keepdims=True) > RESIDUE, each, own.kept)
    found = each * (total / np.maximum(each.sum(axis=-1, keepdims=True), RESIDUE))
    return np.where(found > RESIDUE * first.elements, found, 0.0)


def _added(terms: Costs, left: Costs, owned: Costs, above: float = 1.0, after: float = 1.0) -> Costs:
    """Return what groups receive to add up terms of everything and to get what each needs of the sums."""
    total, parts = terms.sum(axis=-1, keepdims=True), left.sum(axis=-1, keepdims=True)
    owner = np.where(parts > 1.0 + RESIDUE, owned * (left > 0), left)
    return np.asarray(owner * (total - 1.0) * above + (left - owner) * after)
