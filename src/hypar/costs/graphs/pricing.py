"""Costs of the transfers of the product form, at a rate for each collective."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from hypar.machine.setting import Rates
from hypar.ops.nest import Nest
from hypar.sharding.amounts.counted import added
from hypar.sharding.amounts.cuts import Cuts
from hypar.sharding.amounts.factors import collectives_of, computing
from hypar.sharding.amounts.transfers import RESIDUE, Between, Factors, Part, Products, Sums, received
from hypar.sharding.conventions import CODE, Codes
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import WORKING, Level, LocalSizes, Options, layout
from hypar.solve.edge import Costs, Indices

Weights = tuple[Costs | float, Costs | None]
"""Costs of an element, and of a transfer if that costs anything."""


class Column(NamedTuple):
    """Some tuples of a layer down to one level.

    Attributes:
        digit: the option of each at the level.
        prefix: the number of each among all tuples of the levels above and this one.
        parent: the place of each one's tuple above among those that the level above has.
    """

    digit: Indices
    prefix: Indices
    parent: Indices


Places = tuple[Column, Column]
"""The tuples of producer and consumer."""


def columns(widths: Sequence[int], kept: Indices | None = None) -> list[Column]:
    """Return some tuples down to each level.

    Args:
        widths: the number of options at each level, outermost first.
        kept: the tuples of all levels, ascending; None for all of them.
    """
    prefix = np.arange(int(np.prod(widths))) if kept is None else kept
    found = []
    for width in reversed(widths):
        above, digit = np.divmod(prefix, width)
        before, parent = np.unique(above, return_inverse=True)
        found.append(Column(digit, prefix, parent.reshape(-1)))
        prefix = before
    return found[::-1]


def descended(above: Any, places: Places) -> Any:
    """Return an array over pairs of tuples above a level for the pairs down to it; one entry where it is the same."""
    made, read = places
    if above.shape[0] > 1:
        above = above.take(made.parent, axis=0)
    return above.take(read.parent, axis=2) if above.shape[2] > 1 else above


def spread(factor: Any, places: Places | None) -> Any:
    """Return a factor ``[made, 1, read]`` of pairs of options for each pair of tuples; one entry where it is the same."""
    if places is None or not isinstance(factor, np.ndarray):
        return factor
    made, read = places
    if factor.shape[2] > 1:
        factor = factor.take(read.digit, axis=2)
    return factor.take(made.digit, axis=0) if len(factor) > 1 else factor


def added_costs(
    nests: Sequence[Nest],
    options: Options,
    sizes: Sequence[LocalSizes],
    level: Level,
    sums: Sequence[Sums],
    cuts: Sequence[Cuts],
    rates: Rates,
    *,
    bound: bool,
) -> dict[str, Costs]:
    """Return the costs of adding up the partial sums of layers of equal roles, with equal options, item by item.

    Returns:
        ``[layers, tuples above, options]`` per item: ``update`` for weight gradients; ``sums`` for F_out, the error of every input, and the
        rows of E_in beside borders.
    """
    elements = added(nests, options, sizes, level, sums, cuts, least=bound)
    devices = np.stack([_working(options, own, level) for own in sizes])[:, None] if rates.together else None
    lines = _added_weights(nests[0].unsized, options, level.ways, rates)
    found = least(elements, lines, devices)
    return {"update": found[:, 1], "sums": found[:, 0] + found[:, 2:].sum(axis=1)}


@lru_cache(maxsize=4096)
def _added_weights(roles: Nest, options: Options, ways: int, rates: Rates) -> list[Weights]:
    """Return the cost of an element and of a transfer, ``[tensors, 1, options]``: of sums, or of border rows alone.

    Returns:
        One for each line of the rates.
    """
    summed = computing(roles, options, ways)[:, None, :, 1] > 0
    codes = np.where(summed, CODE["all_reduce"], CODE["neighbours"])
    beside = np.full_like(codes[:1], CODE["neighbours"])
    return lines_of(rates, np.concatenate([codes, *[beside] * len(SPATIAL)]))


class Seen(NamedTuple):
    """A level, as the two layers of a tensor see it.

    Attributes:
        level: the level.
        between: the tensor's dims at both ends.
        options: the options of producer and consumer.
        sizes: their sizes above the level; those of the consumer twice where a level is counted by itself.
    """

    level: Level
    between: Between
    options: tuple[Options, Options]
    sizes: tuple[LocalSizes, LocalSizes]

    def devices(self, end: int, places: Places | None = None) -> Costs:
        """Return the number of subgroups of the array that work for an end, on the axes of factors or for pairs of tuples."""
        found = _working(self.options[end], self.sizes[end], self.level)
        if places is not None:
            found = found.reshape(1, -1)[:, places[end].prefix]
        return np.asarray(found[None] if end else found.T[:, :, None])


def level_costs(
    parts: tuple[Part, ...],
    products: Products,
    factors: Factors,
    seen: Seen,
    rates: tuple[Rates, Rates],
    places: Places | None = None,
    *,
    bound: Costs | None = None,
) -> Costs:
    """Return the costs of a tensor's transfers at a level, ``[made, tuples or tensors, read]``, or for each pair of tuples.

    Args:
        parts: the transfers; their elements may be those of some tensors.
        products: the products of the levels above, on the axes of factors or for each pair of tuples.
        factors: the factors of the level, on the same axes.
        seen: the level, as both layers see it.
        rates: the rates inside layers and between them.
        places: the pairs of tuples.
        bound: where the products are the least of all tuples above, and a lower bound is asked for: for which pairs there is one.
    """
    options, ways, found = seen.options, seen.level.ways, []
    for part in parts:
        own, end = rates[not part.inside], int(part.forward)
        elements = received(part, products, factors, least=bound is not None)
        elements = elements if bound is None else elements * bound
        lines = _weights(seen.between, options, ways, part.manner, own)
        wide = [(spread(each, places), spread(once, places)) for each, once in lines]
        devices = seen.devices(end, places) if own.together else None
        if bound is not None and devices is not None:
            devices = devices.max(axis=1, keepdims=True)
        found.append(least(elements, wide, devices, RESIDUE * part.changes[0].elements))
    total = reduce(add, found)
    ends = options if places is None else [own.prefix for own in places]
    shape = (len(ends[0]), 1, len(ends[1]))
    return np.asarray(np.broadcast_to(total, np.broadcast_shapes(np.shape(total), shape)))


def prices_of(rates: tuple[Rates, Rates]) -> tuple[float, float] | None:
    """Return the costs of an element inside layers and between two; None if they depend on more than their number."""
    inside, between = rates[0].price, rates[1].price
    return None if inside is None or between is None else (inside, between)


def _working(options: Options, sizes: LocalSizes, level: Level) -> Costs:
    """Return the number of subgroups of the array that work, ``[tuples above, options]``."""
    above: Costs = level.groups * sizes.of(WORKING)
    return above[:, None] * layout(options, level.ways).working


@lru_cache(maxsize=4096)
def _weights(
    between: Between, options: tuple[Options, Options], ways: int, manner: str, rates: Rates
) -> list[Weights]:
    """Return the cost of an element, and of a transfer if that costs anything, on the axes of factors, for each line."""
    return lines_of(rates, collectives_of(between, options, ways, manner))


def lines_of(rates: Rates, codes: Codes) -> list[Weights]:
    """Return the costs of an element and of a transfer for each line and code; lines of equal costs once."""
    found: list[Weights] = []
    known = set()
    # ``np.unique`` would load NumPy's masked arrays: some hundredths of a second.
    used = sorted({*codes.reshape(-1).tolist()})
    for line in rates.lines:
        own = tuple((line.per_element[code], line.once[code]) for code in used)
        if own not in known:
            known.add(own)
            once = np.take(line.once, codes) if rates.late else None
            found.append((_taken(line.per_element, codes), once))
    return found


def least(
    elements: Costs, lines: Sequence[Weights], devices: Costs | None = None, nothing: Costs | float = 0.0
) -> Costs:
    """Return the least cost of some elements by any line; what is no more than ``nothing`` has no fixed cost."""
    share = elements if devices is None else elements / devices
    each_line = (share * each if once is None else share * each + once for each, once in lines)
    costs = reduce(np.minimum, each_line)
    return costs if lines[0][1] is None else costs * (elements > nothing)


def _taken(numbers: tuple[float, ...], codes: Codes) -> Costs | float:
    """Return the number for each code; one number if all are equal."""
    return float(numbers[0]) if len({*numbers}) == 1 else np.asarray(np.take(numbers, codes))
