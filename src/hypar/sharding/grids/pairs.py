"""The devices at which the pieces of two layers' choices meet, those with equal pieces once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.sharding.grids.layouts import Layout, Numbers


FEW = 2**17
"""Devices of pairs whose pieces are kept ready for use."""


class Meeting(NamedTuple):
    """The devices that work for both of a pair of choices, those with equal pieces once.

    Attributes:
        devices: how many there are, of all pairs.
        starts: where each pair's devices begin.
        times: how many devices each of a pair's stands for, ``[choices, choices]`` or 1.
        rows: for each dim the row of a ``Side`` times its width, plus the column.
    """

    devices: int
    starts: Numbers
    times: Numbers
    rows: tuple[NDArray[np.integer], ...]


@lru_cache(maxsize=12)
def meeting(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...], first: int, last: int
) -> Meeting:
    """The devices of the pairs of some of the producer's choices with all of the consumer's."""
    both = made.active[first:last, None] & read.active[None]
    bits = _significant(made, read, dims)
    times = np.ones((1, 1), np.int64)
    if bits is not None:
        rest = ~(bits[0][first:last, None] | bits[1]) & (made.ways - 1)
        # Narrow numbers take less memory, where they hold all devices.
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
        # Numbers as wide as an address are taken at once, narrow ones spare memory where they are many.
        few, small = len(kept) < FEW, sum(made.of(mine)) * width <= np.iinfo(np.int16).max
        wide: type[np.signedinteger] = np.intp if few else np.int16 if small else np.int32
        own = (_rows(made, mine, first, last) * width).astype(wide).take(place)
        rows.append(own + _rows(read, theirs, 0, len(read.working)).astype(wide).take(column))
    return Meeting(len(kept), starts, times, tuple(rows))


def _rows(layout: Layout, dim: str | None, first: int, last: int) -> Numbers:
    """The piece of a dim of each device, choice after choice."""
    if dim not in layout.rows:
        return np.zeros((last - first) * layout.ways, np.int64)
    return layout.rows[dim][first:last].reshape(-1)


def _significant(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...]
) -> tuple[Numbers, Numbers] | None:
    """The bits of a device's number on which its pieces of some dims depend; None where it is not of bits."""
    if made.ways & (made.ways - 1) or not (made.spread and read.spread):
        return None
    return _bits(made, {mine for mine, _ in dims}), _bits(read, {theirs for _, theirs in dims})


def _bits(layout: Layout, dims: set[str | None]) -> Numbers:
    """For each choice the bits of a device's number that say its pieces of some dims."""
    block, found = np.full(len(layout.working), layout.ways), np.zeros(len(layout.working), np.int64)
    for dim, degree in layout.parts.items():
        below = block // degree
        if dim in dims:
            found |= block - below
        block = below
    return found


@lru_cache(maxsize=8)
def _ones(ways: int) -> Numbers:
    """How many bits of each number below some ways are one."""
    return np.array([number.bit_count() for number in range(ways)])
