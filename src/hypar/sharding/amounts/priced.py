"""Costs of the transfers of the product form, at a rate for each collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.factors import factors_of, plain
from hypar.sharding.amounts.inside import added
from hypar.sharding.amounts.products import least_received, received
from hypar.sharding.grids.layouts import layout
from hypar.sharding.levels import WORKING
from hypar.sharding.redistribution import COLLECTIVES

if TYPE_CHECKING:
    from hypar.network.contraction import CutLayer
    from hypar.network.ops.base import Einsum
    from hypar.sharding.amounts.factors import Between
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.amounts.products import Part, Products
    from hypar.sharding.grids.manners import Codes
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs

RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""


def added_costs(
    layer: CutLayer, options: Options, sizes: LocalSizes, level: Level, sums: Sums, rates: Rates
) -> dict[str, Costs]:
    """Return the costs of adding up a layer's partial sums: ``[tuples above, options]`` per item.

    Returns:
        ``update`` for weight gradients; ``sums`` for F_out, E_in, and the rows of E_in beside borders.
    """
    shape = (sizes.fractions.shape[1], len(options))
    found = {"update": np.zeros(shape), "sums": np.zeros(shape)}
    devices = _working(options, sizes, level) if rates.together else 1.0
    for one in added(layer, options, sizes, level, sums):
        codes = np.where(one.summed, COLLECTIVES.index("all_reduce"), COLLECTIVES.index("neighbours"))
        costs = one.elements * np.take(rates.per_element, codes) / devices
        if any(rates.once):
            costs = costs + np.take(rates.once, codes) * (one.elements > 0)
        found["update" if one.tensor == "weight" else "sums"] += costs
    return found


def moved_costs(
    between: Between,
    parts: tuple[Part, ...],
    products: Products,
    ends: tuple[Einsum, Einsum],
    options: tuple[Options, Options],
    sizes: tuple[LocalSizes, LocalSizes],
    level: Level,
    rates: tuple[Rates, Rates],
    *,
    least: bool = False,
) -> Costs:
    """Return the costs of a tensor's transfers at a level.

    Args:
        between: the tensor's dims at both ends.
        parts: its transfers.
        products: the products of the levels above.
        ends: producer and consumer.
        options: their options at the level.
        sizes: their sizes above the level.
        level: the level.
        rates: the rates inside layers and between them.
        least: whether the products are the least ones and a lower bound is to be returned.

    Returns:
        ``[tuples above, options of the producer, tuples above, options of the consumer]``.
    """
    found = plain(between, options, level.ways)
    factors = found.factors if least else factors_of(ends, between, options, sizes[1], level.ways)
    total: Costs | float = 0.0
    for part in parts:
        elements = (least_received if least else received)(part, products, factors)
        own = rates[0] if part.inside else rates[1]
        each, once = _weights(getattr(found.manners, part.manner), own)
        costs = elements * each
        if own.together:
            costs = costs / _devices(part, options, sizes, level, least=least)
        if once is not None:
            costs = costs + once * (elements > RESIDUE * part.changes[0].elements)
        total = total + costs
    return np.asarray(total)


def _devices(
    part: Part,
    options: tuple[Options, Options],
    sizes: tuple[LocalSizes, LocalSizes],
    level: Level,
    *,
    least: bool,
) -> Costs:
    """Return the number of devices that receive, on the four axes; for a lower bound the most."""
    end = int(part.forward)
    found = _working(options[end], sizes[end], level)
    if least:
        found = found.max(axis=0, keepdims=True)
    return found[None, None] if end else found[:, :, None, None]


def _working(options: Options, sizes: LocalSizes, level: Level) -> Costs:
    """Return the number of subgroups of the array that work, ``[tuples above, options]``."""
    above: Costs = level.groups * sizes.of(WORKING)
    return above[:, None] * layout(options, level.ways).working


def _weights(codes: Codes, rates: Rates) -> tuple[Costs | float, Costs | None]:
    """Return the cost of an element, and of a transfer if that costs anything, on the four axes."""
    each, once = _taken(rates.per_element, codes), None
    if any(rates.once):
        once = np.take(rates.once, codes)[None, :, None]
    return each, once


def _taken(numbers: tuple[float, ...], codes: Codes) -> Costs | float:
    if len({*numbers}) == 1:
        return numbers[0]
    return np.asarray(np.take(numbers, codes))[None, :, None]
