"""The elements that devices both need and hold, for all pairs of two layers' choices at once.

A dim with the same contribution on every device is a factor. The others are summed over the devices on which
their shards differ, given by ``device_pairs``. Cost: pairs of choices times those devices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.grids.layouts import ORDER, Layout, Numbers
from hypar.sharding.grids.pairs import DevicePairs, device_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.grids.bounds import Bounds, Intersections
    from hypar.solve.edge import Costs

CACHED = 2**14
"""Devices of pairs whose shards are multiplied at once."""

BLOCK = 2**22
"""Devices of pairs of choices that are processed at once."""


def shared_elements(made: Layout, read: Layout, factors: Sequence[Intersections]) -> Costs:
    """Return the elements that all devices both need and hold, ``[choices of made, choices of read]``."""
    product: Costs = np.ones((1, 1))
    uneven = []
    for one in factors:
        factor = _factor(made, read, one)
        if factor is None:
            uneven.append(one)
        else:
            product = product * factor
    if not uneven and made.spread and read.spread:
        # Evenly spread devices coincide at every common multiple of both distances; for powers of two these are
        # all devices of the smaller set, which is faster to compute.
        together = np.gcd if made.ways & (made.ways - 1) else np.minimum
        return together(made.working[:, None], read.working) * product
    (mine, rows), (theirs, columns) = (end.among or (end, slice(None)) for end in (made, read))
    return _summed(mine, theirs, tuple(uneven))[rows][:, columns] * product


@lru_cache(maxsize=64)
def _summed(made: Layout, read: Layout, uneven: tuple[Intersections, ...]) -> Costs:
    """Return the product of the intersections of some dims, summed over all devices that work for both.

    Args:
        made: the producer's layout.
        read: the consumer's layout.
        uneven: the dims.
    """
    tables = [one.shared.reshape(-1) for one in uneven]
    dims = tuple((one.made, one.read) for one in uneven)
    shape = (len(made.working), len(read.working))
    block = max(1, BLOCK // (shape[1] * made.ways))
    total = np.empty(shape)
    for first in range(0, shape[0], block):
        pairs = device_pairs(made, read, dims, first, min(first + block, shape[0]))
        total[first : first + block] = _sums(tables, pairs).reshape(-1, shape[1]) * pairs.times
    return total


def _sums(tables: Sequence[Costs], pairs: DevicePairs) -> Costs:
    """Return the sum of each pair over its distinct devices, in blocks that fit a core's cache."""
    count = len(pairs.starts)
    ends = np.append(pairs.starts, pairs.devices)
    step = max(1, count * CACHED // pairs.devices)
    found = np.empty(count)
    for first in range(0, count, step):
        last = min(first + step, count)
        here = slice(ends[first], ends[last])
        amounts = np.ones(ends[last] - ends[first])
        for table, rows in zip(tables, pairs.rows, strict=True):
            amounts *= table.take(rows[here], mode="clip")  # indices are in range; clip avoids a copy
        np.add.reduceat(amounts, ends[first:last] - ends[first], out=found[first:last])
    return found


def copies(layout: Layout, dims: Sequence[str | None]) -> Numbers:
    """Return the number of devices that hold each shard of a tensor of given dims, ``[choices]``."""
    found = layout.working
    for dim in dims:
        found = found // layout.degree(dim)
    return found


def boxes(layout: Layout, factors: Sequence[tuple[str | None, Bounds]]) -> Costs:
    """Return the elements of a tensor that all devices hold together, copies included, ``[choices]``."""
    total = copies(layout, [dim for dim, _ in factors]).astype(np.float64)
    for dim, bound in factors:
        total *= _whole(layout, dim, bound)
    return total


@lru_cache(maxsize=4096)
def _whole(layout: Layout, dim: str | None, bound: Bounds) -> Costs:
    """Return the elements of a dim in all its shards together, ``[choices]`` or 1."""
    if len(bound.amounts) == 1:
        return bound.amounts
    degrees = np.array(layout.of(dim))
    sums = np.add.reduceat(bound.amounts, np.cumsum(degrees) - degrees)
    return np.asarray(sums[np.searchsorted(degrees, layout.degree(dim))])


@lru_cache(maxsize=128)
def _factor(made: Layout, read: Layout, one: Intersections) -> Costs | None:
    """Return a dim's contribution, ``[choices, choices]`` or 1 of either, or None if devices differ in it."""
    shared = one.shared
    if shared.size == 1:
        return shared
    if shared.shape[1] == 1:
        return np.asarray(shared[made.first(one.made)]) if _even(shared[:, 0], made, one.made) else None
    if len(shared) == 1:
        return np.asarray(shared[:, read.first(one.read)]) if _even(shared[0], read, one.read) else None
    # Both grids number their first dim outermost, so a device has the same relative position in both.
    if not (one.made == one.read == ORDER[0] and made.spread and read.spread) or made.ordered or read.ordered:
        return None
    mine = _along(made.of(one.made), made.ways)[made.taken(one.made)]
    theirs = _along(read.of(one.read), read.ways)[read.taken(one.read)]
    values = shared[mine[:, None], theirs[None]]
    if (values != values[:, :, :1]).any():
        return None
    return np.asarray(shared[np.ix_(np.asarray(made.first(one.made)), np.asarray(read.first(one.read)))])


@lru_cache(maxsize=64)
def _along(degrees: tuple[int, ...], ways: int) -> Numbers:
    """Return the shard of the outermost dim at each position, for each degree, ``[degrees, ways]``."""
    own = np.array(degrees)[:, None]
    return np.asarray(np.cumsum(own, axis=0) - own + np.arange(ways) * own // ways)


def _even(amounts: Costs, layout: Layout, dim: str | None) -> bool:
    own = np.array(layout.of(dim))
    equal = amounts == np.repeat(amounts[np.cumsum(own) - own], own)
    return bool(equal[np.repeat(layout.taken(dim), own)].all())
