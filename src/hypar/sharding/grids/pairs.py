"""The devices on which shards of two layers' choices intersect, one for each distinct pair of shards."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.sharding.grids.layouts import Layout, Numbers


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
