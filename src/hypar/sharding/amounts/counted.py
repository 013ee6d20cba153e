"""What devices receive at levels and at uneven splits, and the state below: what choices leave of each layer, and have of each tensor.

All groups of an uneven split together receive what an even level whose factors are the sums of theirs would move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from hypar.network.nodes import PlanGraph
from hypar.ops.nest import Nest
from hypar.sharding.amounts.cuts import Above, Cuts, ratios
from hypar.sharding.amounts.factors import (
    Offered,
    Taken,
    apart_of,
    at_work,
    below,
    collective_of,
    computing,
    digit_of,
    divides_image,
    elements_of,
    factors_of,
    fractions_of,
    halo,
    input_of,
    of_input,
    plain,
)
from hypar.sharding.amounts.transfers import (
    RESIDUE,
    SHARED,
    Between,
    Factors,
    Network,
    Part,
    Parts,
    Products,
    Sums,
    mapped,
    network_of,
    phase_of,
    received,
    windowed,
)
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, WHOLE, WHOLE_LAYER, Level, LocalSizes, Options, layout, working
from hypar.solve.edge import Costs

SEAM = -1
"""In place of a level: between stages, whose parts have one end of a tensor each."""

STAGE = Factors(*[0.0 if name in SHARED else 1.0 for name in Factors._fields])  # type: ignore[arg-type]
"""The factors of the stages: below them no device has what it needs."""


class Received(NamedTuple):
    """A transfer at one level, or at an uneven split.

    Attributes:
        phase: the phase whose result or operand moves.
        tensor: ``weight``, ``output`` or ``input`` of the layer; between two layers ``input``, which the consumer reads,
            or ``output``, which the producer makes.
        collective: the collective that moves it, as ``all_reduce``.
        elements: elements that all devices receive; at a split those of each group, of several options ``[groups, ...]``.
        inside: whether partial sums of a layer are added up.
        level: the level, 0 for the outermost; ``SEAM``.
        receivers: number of groups of the next level that receive.
    """

    phase: str
    tensor: str
    collective: str
    elements: Any
    inside: bool
    level: int = 0
    receivers: int = 1


@lru_cache(maxsize=16384)
def received_inside(
    nest: Nest, sums: Sums, array: tuple[int, ...], chosen: Options, above: Above | None = None
) -> tuple[Received, ...]:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums.

    ``sums`` are those that are added up inside it; ``above`` is what the splits above the outermost level leave of its input, None for all.
    """
    found, receivers, left = [], working(chosen, array), WHOLE_LAYER
    above = above or input_of(nest)
    for index, choice in enumerate(chosen):
        level = Level(index=index, array=array, element_bytes=1)
        amounts = added((nest,), (choice,), (left,), level, (sums,), (above.cuts,))[0, :, 0, 0].tolist()
        _, above = below(above, of_input(nest), (WHOLE, choice), level.ways)
        left = left.divided(nest, (choice,), level.ways)
        summed = computing(nest.unsized, (choice,), level.ways)[:, 0, 1].tolist()
        # Behind the tensors come rows of the first one beside the borders of each dim.
        for amount, name, some in zip_longest(amounts, nest.names, summed):
            if amount:
                tensor, kind = name or "input", "all_reduce" if some else "neighbours"
                place = level.index, receivers[level.index + 1]
                found.append(Received(phase_of(tensor), tensor, kind, amount, True, *place))
    return tuple(reversed(found))


@lru_cache(maxsize=16384)
def received_between(
    between: Between,
    parts: tuple[Part, ...],
    array: tuple[int, ...],
    chosen: tuple[Options, Options],
    above: Above | None = None,
    outside: int | None = None,
) -> tuple[Received, ...]:
    """Return the transfers of a tensor between two layers at all levels, in the order of its parts, outermost first.

    The choices are those of producer and consumer; ``above`` is what the levels above the outermost one leave of the tensor, None for what is
    no image there. Between stages so many levels are ``outside`` of them, and those inside hand on what arrived.
    """
    found: list[list[Received]] = [[] for _ in parts]
    above, left = above or Above(), WHOLE_LAYER
    receivers = tuple(working(own, array) for own in chosen)
    for level in range(len(array) + 1):
        if level == outside:
            for own, part in zip(found, parts, strict=True):
                elements, to = received(part, above.products, STAGE), receivers[part.forward][level]
                own.append(Received(*part[:2], "neighbours", elements, part.inside, SEAM, to))
            above = above._replace(products=mapped(mul, above.products, STAGE))
        if level == len(array):
            break
        pair, ways = (chosen[0][level], chosen[1][level]), array[level]
        factors, inner = below(above, between, pair, ways)
        if between.apart:
            alone = apart_of(between, ((pair[0],), (pair[1],)), left, ways)
            factors, left = mapped(lambda own: own.item(), alone), left.divided(between.read, pair[1:], ways)
        for own, part in zip(found, parts, strict=True):
            elements = received(part, above.products, factors)
            if elements > RESIDUE * part.changes[0].elements:
                to = receivers[part.forward][level + 1]
                if between.apart:
                    # A level by itself is counted in each group that reads the tensor.
                    to = receivers[1][level] * pair[part.forward].devices(ways)
                handed_on = outside is not None and level >= outside and part.manner != "sums"
                kind = "all_gather" if handed_on else collective_of(between, pair, ways, part.manner)
                own.append(Received(*part[:2], kind, elements, part.inside, level, to))
        above = inner
    return tuple(one for own in found for one in own)


def added(
    nests: Sequence[Nest],
    options: Options,
    sizes: Sequence[LocalSizes],
    level: Level,
    sums: Sequence[Sums],
    cuts: Sequence[Cuts],
    *,
    least: bool = False,
) -> Costs:
    """Return the elements received to add up the partial sums of layers of equal roles, with equal options.

    Terms go to an owner of each element, and its sum to all that had terms of it; rows beside a border have one owner. For a
    lower bound none of these is counted, as levels above may have cut any rows.

    Returns:
        Elements that all devices receive, ``[layers, tensors, tuples above, options]``; behind the tensors the rows of
        E_in beside the borders of each dim, where they are received by themselves.
    """
    every = replace(sizes[0], fractions=np.array([own.fractions for own in sizes]))
    copies = np.stack([level.copies(every, nests[0], tensor) for tensor in nests[0].names], axis=1)
    at_level = computing(nests[0].unsized, options, level.ways)
    elements = np.array([elements_of(*own) for own in zip(nests, sums, cuts, strict=True)])
    total: Costs = np.zeros((len(nests), len(at_level) + len(SPATIAL), copies.shape[2], len(options)))
    total[:, : len(at_level)] = (elements * copies)[..., None] * at_level[:, None, :, 1]
    grids, here = layout(options, level.ways), at_level[0, :, 0]
    for at, (nest, own, own_sums, above) in enumerate(zip(nests, sizes, sums, cuts, strict=True)):
        shards = elements[at, 0] * copies[at, 0][:, None]
        if own_sums.input and own_sums.apart:
            for row, (dim, border) in enumerate(windowed(nest).items(), start=len(at_level)):
                if (degrees := grids.degree(dim)).max() > 1:
                    total[at, row] = shards * here * halo(border, degrees, own.of(dim)[:, None])
        elif own_sums.input and not least:
            _, inner = factors_of(of_input(nest), ((WHOLE,), options), level.ways, above)
            old, new = above.factors, inner.factors
            both = here * (new.need + new.added) - old.need - old.added - 2.0 * (here - 1.0)
            total[at, 0] += shards * np.where(abs(both[0]) > RESIDUE, both[0], 0.0)
    return total


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

        Each layer has one choice at the level; several for lower bounds, of which the distinct sizes and the ``least`` products are kept.
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
            return state._replace(tensors=tuple([_least(*own, ways) for own in tensors]))
        each = zip(self.inputs, graph.layers, options, strict=True)
        inputs = [below(above, of_input(layer.nest), (WHOLE, own[0]), ways)[1] for above, layer, own in each]
        left = [below(above, own, (made[0], read[0]), ways)[1] for above, own, (made, read) in tensors]
        return state._replace(tensors=tuple(left), inputs=tuple(inputs))

    def inside(self, graph: PlanGraph, at: int, offered: Offered) -> list[Received]:
        """Return what the groups of a split receive inside a layer, ``[..., options]`` each."""
        return split_inside(graph.layers[at].nest, self.network.sums[at], self.inputs[at], offered)

    def between(self, at: int, made: Offered, read: Offered) -> list[Received]:
        """Return what the groups of a split receive of a tensor, ``[..., options of producer, of consumer]`` each."""
        return split_between(*self.tensor(at), made, read)[0]

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
def _least(above: Above, between: Between, pair: tuple[Options, Options], ways: int) -> Above:
    factors = plain(between, pair, ways)
    if divides_image(between, pair, ways).any():
        # Rows that both ends have may be fewer.
        factors = factors._replace(**dict.fromkeys(SHARED, np.zeros(1)))
    return Above(mapped(lambda product, factor: product * factor.min(), above.products, factors))


def outermost(graph: PlanGraph, convention: str, *, tied: bool = True) -> State:
    """Return the state above the outermost level.

    The gradient of a weight that several layers use is added up once where it is ``tied``, as it is not at uneven splits.
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
    amounts = split_inside(nest, sums, above, Offered.of([taken]))
    equal = (WHOLE, (1 / len(taken[1]),) * len(taken[1]))
    below = crossed(of_input(nest), (), above, equal, taken)[1]
    return _single(amounts), below


@lru_cache(maxsize=4096)
def crossed(
    between: Between, parts: Parts, above: Above, made: Taken, read: Taken
) -> tuple[tuple[Received, ...], tuple[Above, ...]]:
    """Return the transfers of a tensor at a split, and what it leaves of the tensor to each group; arguments as below."""
    ends = (Offered.of([made]), Offered.of([read]))
    amounts, own = split_between(between, parts, above, *ends)
    rows = np.stack([np.broadcast_to(factor, own.both.shape).reshape(-1) for factor in own], axis=1)
    products = map(Factors._make, (rows * above.products).tolist())
    digit = digit_of(between, (ends[0].labels[0], ends[1].labels[0]), (made[1], read[1]))
    each = zip(above.parted(digit, len(made[1])), products, strict=True)
    below = tuple([one._replace(products=own) for one, own in each])
    return _single(amounts), below


def _single(amounts: Sequence[Received]) -> tuple[Received, ...]:
    """Return the transfers of a single option, with the elements of each group as numbers."""
    return tuple([own._replace(elements=tuple(own.elements.reshape(-1).tolist())) for own in amounts])


def split_inside(nest: Nest, sums: Sums, above: Above, offered: Offered) -> list[Received]:
    """Return the elements that each group receives to add up ``sums`` inside a layer, which has the sizes that the splits above leave.

    Each group adds up its share of a result and gets the other shares; rows beside a border have one owner.
    """
    terms = at_work(offered.cut({COPIES}), offered.shares, apart=sums.apart)
    each = _summing(terms, terms, offered.shares)
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


def split_between(
    between: Between, parts: Parts, above: Above, made: Offered, read: Offered
) -> tuple[list[Received], Factors]:
    """Return the transfers of a tensor between two layers, and the factors of each group, given what the levels above leave of it.

    The shapes are ``[groups, ..., options of producer, of consumer]`` of each transfer, and of factors with the groups behind these.
    """
    own = fractions_of(between, made, read, above)
    shares = (made.shares[..., :, None, :], read.shares[..., None, :, :])
    pair = (made.options[0], read.options[0])
    ways = max(2, *(choice.devices(1) for choice in pair))
    sums = mapped(lambda factor: factor.sum(axis=-1, keepdims=True), own)
    found = []
    for part in parts:
        elements = np.moveaxis(_of_groups(part, own, sums, above.products, shares), -1, 0)
        kind = collective_of(between, pair, ways, part.manner)
        found.append(Received(part.phase, part.tensor, kind, elements, part.inside))
    return found, own


def _of_groups(
    part: Part, own: Factors, sums: Factors, above: Products, shares: tuple[Costs, Costs]
) -> Costs:
    """Return the elements of a transfer that each group receives, ``[..., options of producer, of consumer, groups]``."""
    total = np.maximum(received(part, above, sums), 0.0)
    first, last = part.changes[0], part.changes[-1]
    gets, before = getattr(own, first.gets), getattr(above, first.gets)
    if part.manner == "sums":
        each = _summing(gets, getattr(own, last.gets), shares[0], before, getattr(above, last.gets))
    elif first is last:
        each = before * gets - getattr(above, first.has) * getattr(own, first.has)
    else:
        # A group that needs a sum makes it, where it has a term.
        terms = _summing(own.need, own.kept, shares[1])
        each = np.where(own.both >= own.kept - RESIDUE, terms, own.kept - own.both)
    each = np.maximum(each, 0.0)
    each = np.where(each.sum(axis=-1, keepdims=True) > RESIDUE, each, own.kept)
    found = each * (total / np.maximum(each.sum(axis=-1, keepdims=True), RESIDUE))
    return np.where(found > RESIDUE * first.elements, found, 0.0)


def _summing(terms: Costs, left: Costs, owned: Costs, above: float = 1.0, after: float = 1.0) -> Costs:
    """Return what groups receive to add up terms of everything and to get what each needs of the sums."""
    total, parts = terms.sum(axis=-1, keepdims=True), left.sum(axis=-1, keepdims=True)
    owner = np.where(parts > 1.0 + RESIDUE, owned * (left > 0), left)
    return np.asarray(owner * (total - 1.0) * above + (left - owner) * after)
