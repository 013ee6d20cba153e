"""The elements that devices both need and hold, for all pairs of two layers' choices at once.

A dim with the same contribution on every device is a factor. The others are summed over the devices on which
their shards differ, given by ``device_pairs``. Cost: pairs of choices times those devices.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.grids.layouts import ORDER, Layout, Numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.sharding.grids.bounds import Bounds, Intersections
    from hypar.sharding.grids.layouts import Layout, Numbers
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


FEW = 2**17
"""Devices of pairs below which indices are kept as wide as an address."""


class DevicePairs(NamedTuple):
    """The devices that work for both choices of a pair, one for each distinct pair of shards.

    Attributes:
        devices: number of devices, over all pairs.
        starts: index of each pair's first device.
        times: number of devices that each device of a pair represents, ``[choices, choices]`` or 1.
        rows: for each dim the row of an ``Intersections`` table times its width, plus the column.
    """

    devices: int
    starts: Numbers
    times: Numbers
    rows: tuple[NDArray[np.integer], ...]


@lru_cache(maxsize=12)
def device_pairs(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...], first: int, last: int
) -> DevicePairs:
    """Return the devices of the pairs of a range of the producer's choices with all of the consumer's."""
    both = made.active[first:last, None] & read.active[None]
    bits = _significant(made, read, dims)
    times = np.ones((1, 1), np.int64)
    if bits is not None:
        rest = ~(bits[0][first:last, None] | bits[1]) & (made.ways - 1)
        # Narrow numbers take less memory, if they can hold every device number.
        kind: type[np.signedinteger] = np.int16 if made.ways <= np.iinfo(np.int16).max else np.int64
        every = np.arange(made.ways).astype(kind)
        both &= (every & rest.astype(kind)[:, :, None]) == 0
        working = np.minimum(made.working[first:last, None], read.working)
        times = 1 << _ones(made.ways)[rest & -(made.ways // working)]
    kept = np.flatnonzero(both.reshape(-1)).astype(np.int32)
    row, column = np.divmod(kept, np.int32(len(read.working) * made.ways))
    device = kept % np.int32(made.ways)
    place = row * np.int32(made.ways) + device
    starts = np.flatnonzero(device == 0)  # the first device works for every choice
    rows = []
    for mine, theirs in dims:
        width = sum(read.of(theirs))
        # Address-wide numbers index without conversion; narrow numbers save memory if there are many.
        few, small = len(kept) < FEW, sum(made.of(mine)) * width <= np.iinfo(np.int16).max
        wide: type[np.signedinteger] = np.intp if few else np.int16 if small else np.int32
        own = (_rows(made, mine, first, last) * width).astype(wide).take(place)
        rows.append(own + _rows(read, theirs, 0, len(read.working)).astype(wide).take(column))
    return DevicePairs(len(kept), starts, times, tuple(rows))


def _rows(layout: Layout, dim: str | None, first: int, last: int) -> Numbers:
    if dim not in layout.rows:
        return np.zeros((last - first) * layout.ways, np.int64)
    return layout.rows[dim][first:last].reshape(-1)


def _significant(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...]
) -> tuple[Numbers, Numbers] | None:
    """Return the bits of a device number that determine its shards of given dims; None if no bits do."""
    if made.ways & (made.ways - 1) or not (made.spread and read.spread) or made.ordered or read.ordered:
        return None
    return _bits(made, {mine for mine, _ in dims}), _bits(read, {theirs for _, theirs in dims})


def _bits(layout: Layout, dims: set[str | None]) -> Numbers:
    """Return for each choice the bits of a device number that determine its shards of given dims."""
    block, found = np.full(len(layout.working), layout.ways), np.zeros(len(layout.working), np.int64)
    for dim, degree in layout.chosen.items():
        below = block // degree
        if dim in dims:
            found |= block - below
        block = below
    return found


@lru_cache(maxsize=8)
def _ones(ways: int) -> Numbers:
    return np.array([number.bit_count() for number in range(ways)])
