"""The elements of the transfers of one plan, and of the sums inside layers for all their choices."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.cuts import Cuts, unequal
from hypar.sharding.amounts.factors import (
    Above,
    apart_of,
    below,
    collective_of,
    factors_of,
    halo,
    input_of,
    of_input,
)
from hypar.sharding.amounts.transfers import RESIDUE, SHARED, Factors, mapped, phase_of, received, windowed
from hypar.sharding.amounts.windows import fraction_read
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.placement import WHOLE, Options, layout, terms, working

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Between, Part, Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.solve.edge import Costs


SEAM = -1
"""In place of a level: the stages, whose parts have one end of a tensor each."""

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

    Args:
        nest: the layer.
        sums: the sums that are added up inside it.
        array: the ways of each level.
        chosen: its choices.
        above: what the splits above the outermost level leave of its input; None for all.
    """
    found, receivers, left = [], working(chosen, array), WHOLE_LAYER
    above = above or input_of(nest)
    for level, choice in zip(levels_of(array, 1), chosen, strict=True):
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

    Args:
        between: the tensor's dims at both ends.
        parts: its transfers.
        array: the ways of each level.
        chosen: the choices of producer and consumer.
        above: what the levels above the outermost one leave of the tensor; None for what is no image there.
        outside: for two layers in different stages, the number of levels outside the stages; those inside hand on what arrived.
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
                total[at, row] = shards * here * halo(border, grids.degree(dim), own.of(dim)[:, None])
        elif own_sums.input and not least:
            _, inner = factors_of(of_input(nest), ((WHOLE,), options), level.ways, above)
            old, new = above.factors, inner.factors
            both = here * (new.need + new.added) - old.need - old.added - 2.0 * (here - 1.0)
            total[at, 0] += shards * np.where(abs(both[0]) > RESIDUE, both[0], 0.0)
    return total


@lru_cache(maxsize=4096)
def computing(roles: Nest, options: Options, ways: int) -> Costs:
    """Return the devices that compute each element of each tensor, and the copies of it that are received as terms.

    Returns:
        ``[tensors, options, 2]``; no copies are received of the results of an op that multiplies nothing.
    """
    own = layout(options, ways)
    found = np.zeros((len(roles.names), len(options), 2))
    for row, tensor in enumerate(roles.names):
        found[row, :, 0] = own.working
        for dim in roles.names[tensor]:
            found[row, :, 0] /= own.degree(dim)
        found[row, :, 1] = 2.0 * (terms(roles, tensor, own) - 1.0)
    return found


def elements_of(nest: Nest, sums: Sums, above: Cuts | None = None) -> Costs:
    """Return the elements of each tensor, none of those whose sums are not added up inside the layer.

    Of the rows of an input a group of an uneven split is taken to have an equal share, as their ratios say what it has.
    """
    above = above or input_of(nest).cuts
    rows = 1.0 if sums.apart else fraction_read(above.image) / (unequal(above.divided) or 1.0)
    read = nest.input_elements * rows if sums.input else 0.0
    made = (sums.as_read if sums.apart else nest.elements("output")) if sums.output else 0.0
    weight = nest.elements("weight") if sums.weight else 0.0
    others = [[nest.elements(tensor) if sums.input else 0.0] for tensor in nest.others]
    return np.array([[read], [weight], [made], *others], dtype=np.float64)
