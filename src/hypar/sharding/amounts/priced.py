"""Costs of the transfers of the product form, at a rate for each collective."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.factors import factors_of, plain
from hypar.sharding.amounts.inside import added, computing
from hypar.sharding.amounts.products import least_received, received
from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.manners import CODE
from hypar.sharding.levels import WORKING

if TYPE_CHECKING:
    from hypar.network.ops.base import Einsum, Roles
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
    einsum: Einsum, options: Options, sizes: LocalSizes, level: Level, sums: Sums, rates: Rates
) -> dict[str, Costs]:
    """Return the costs of adding up a layer's partial sums: ``[tuples above, options]`` per item.

    Returns:
        ``update`` for weight gradients; ``sums`` for F_out, E_in, and the rows of E_in beside borders.
    """
    elements = added(einsum, options, sizes, level, sums)
    each, once = _added_weights(einsum.roles, options, level.ways, rates)
    found = elements * each
    if rates.together:
        found = found / _working(options, sizes, level)
    if once is not None:
        found += once * (elements > 0)
    return {"update": found[1], "sums": found[0] + found[2]}


@lru_cache(maxsize=4096)
def _added_weights(
    roles: Roles, options: Options, ways: int, rates: Rates
) -> tuple[Costs | float, Costs | None]:
    """Return the cost of an element and of a transfer, ``[TENSORS, 1, options]``: of sums, or of border rows alone."""
    summed = computing(roles, options, ways)[:, None, :, 1] > 0
    codes = np.where(summed, CODE["all_reduce"], CODE["neighbours"])
    return _taken(rates.per_element, codes), np.take(rates.once, codes) if any(rates.once) else None


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
    at_level = None if least else factors_of(ends, between, options, sizes[1], level.ways)
    total = None
    for part in parts:
        if at_level is None:
            elements = least_received(part, products, plain(between, options, level.ways).factors)
        else:
            elements = received(part, products, at_level.growth)
        own = rates[0] if part.inside else rates[1]
        each, once = _weights(between, options, level.ways, part.manner, own)
        costs = elements * each
        if own.together:
            costs = costs / _devices(part, options, sizes, level, least=least)
        if once is not None:
            costs = costs + once * (elements > RESIDUE * part.changes[0].elements)
        total = costs if total is None else total + costs
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


@lru_cache(maxsize=4096)
def _weights(
    between: Between, options: tuple[Options, Options], ways: int, manner: str, rates: Rates
) -> tuple[Costs | float, Costs | None]:
    """Return the cost of an element, and of a transfer if that costs anything, on the four axes."""
    codes = getattr(plain(between, options, ways).manners, manner)[None, :, None]
    return _taken(rates.per_element, codes), np.take(rates.once, codes) if any(rates.once) else None


def _taken(numbers: tuple[float, ...], codes: Codes) -> Costs | float:
    """Return the number for each code; one number if all are equal."""
    return numbers[0] if len({*numbers}) == 1 else np.asarray(np.take(numbers, codes))
