"""Which piece of a tensor each device has when a level divides several dims, and what two such pieces share.

A choice of degrees makes a grid of pieces. The devices that work are numbered through it, the first dim of
``ORDER`` outermost; with fewer devices than ways they are spread evenly over them, so that a coarser grid's
devices lie among those that have the same piece of a finer one. Everything is counted for all pairs of
two layers' choices at once: the elements that a device needs and holds are a box, and two boxes share the product
of what their sides share. Cost: pairs of choices times the devices at which their pieces differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.errors import TableLimitError
from hypar.placement import Choice, grids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.base import Window
    from hypar.problem import Costs

Numbers = NDArray[np.int64]

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which devices are numbered through them, the outermost first."""

COPIES = "copies"
"""What divides the devices where every one of them does the whole layer: no dim, but a number of its own."""

_ROWS = {dim: row for row, dim in enumerate((*ORDER, COPIES))}

FEW = 2**17
"""Devices of pairs whose pieces are kept ready for use."""

CACHED = 2**14
"""Devices of pairs whose pieces are multiplied at once."""

BLOCK = 2**22
"""Devices of pairs of choices that are looked at at once."""

MOST_SHARED = 2**27
"""Entries of a ``Side``: a gigabyte."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Layout:
    """Which piece of each dim each device has, for every choice of a layer.

    Attributes:
        ways: devices.
        working: how many of them work, ``[choices]``.
        parts: for each divided dim its degree in each choice, ``[choices]``.
        degrees: for each divided dim the degrees that there may be, rising.
        rows: for each divided dim the piece of each device, as a row of ``bounds``, ``[choices, ways]``.
        active: which devices work, ``[choices, ways]``.
        spread: whether the number of devices that work always divides the ways.
        among: of what larger layout these choices are some, and which; None where of none.
    """

    ways: int
    working: Numbers
    parts: dict[str, Numbers]
    degrees: dict[str, tuple[int, ...]]
    rows: dict[str, Numbers]
    active: NDArray[np.bool_]
    spread: bool
    among: tuple[Layout, Numbers] | None = None

    def of(self, dim: str | None) -> tuple[int, ...]:
        """The degrees of a dim; one of 1 where no choice divides it."""
        return self.degrees.get(dim or "", (1,))

    def first(self, dim: str | None) -> Numbers | int:
        """The piece of a dim that the first device has, ``[choices]``; 0 where no choice divides it."""
        return self.rows[dim][:, 0] if dim in self.rows else 0

    def degree(self, dim: str | None) -> Numbers | int:
        """The degree of a dim in each choice, ``[choices]``; 1 where no choice divides it."""
        return self.parts.get(dim or "", 1)

    def taken(self, dim: str | None) -> NDArray[np.bool_]:
        """Which of the degrees of a dim some choice has."""
        return _taken(self, dim)


@lru_cache(maxsize=2048)
def _taken(layout: Layout, dim: str | None) -> NDArray[np.bool_]:
    """As ``Layout.taken``."""
    had = {*np.atleast_1d(layout.degree(dim)).tolist()}
    return np.array([degree in had for degree in layout.of(dim)])


@lru_cache(maxsize=512)
def layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """The pieces of a layer's choices.

    Choices that are most of a whole grid are looked up in it, so that layers that lack a few share its work.
    """
    divided = {dim for choice in choices for dim, degree in choice.degrees if degree > 1}
    dims = tuple(dim for dim in ORDER if dim in divided)
    if len(dims) > 1 and ways & (ways - 1) == 0:
        index = _whole_grid(dims, ways)
        if tuple(index) == choices:
            return _layout(choices, ways)
        if len(choices) > len(index) // 2 and all(choice in index for choice in choices):
            return _some_of(_layout(tuple(index), ways), np.array([index[choice] for choice in choices]))
    return _layout(choices, ways)


@lru_cache(maxsize=64)
def _whole_grid(dims: tuple[str, ...], ways: int) -> dict[Choice, int]:
    """Every power of two of every dim, at most the ways together."""
    powers = tuple(2**power for power in range(ways.bit_length()))
    return {found.choice: at for at, found in enumerate(grids(dims, powers, ways))}


def _some_of(whole: Layout, which: Numbers) -> Layout:
    """Some choices of a layout."""
    return Layout(
        ways=whole.ways,
        working=whole.working[which],
        parts={dim: degree[which] for dim, degree in whole.parts.items()},
        degrees=whole.degrees,
        rows={dim: rows[which] for dim, rows in whole.rows.items()},
        active=whole.active[which],
        spread=whole.spread,
        among=(whole, which),
    )


@lru_cache(maxsize=512)
def _layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """As ``layout``, by itself."""
    own: Numbers = np.ones((len(ORDER) + 1, len(choices)), np.int64)
    for column, choice in enumerate(choices):
        for dim, degree in choice.degrees or ((COPIES, ways),):
            own[_ROWS[dim], column] = degree
    parts = {dim: own[row] for dim, row in _ROWS.items() if own[row].max() > 1}
    working: Numbers = own.prod(axis=0)
    device = np.arange(ways)
    turn = -(-device * working[:, None] // ways)
    left, degrees, rows = working[:, None].copy(), {}, {}
    for dim, each in parts.items():
        degrees[dim] = tuple(sorted({*each.tolist()}))
        starts = np.cumsum([0, *degrees[dim]])[np.searchsorted(degrees[dim], each)]
        left //= each[:, None]
        rows[dim] = starts[:, None] + turn // left % each[:, None]
    return Layout(
        ways=ways,
        working=working,
        parts=parts,
        degrees=degrees,
        rows=rows,
        active=turn * ways // working[:, None] == device,
        spread=bool((ways % working == 0).all()),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Bounds:
    """Where pieces of a dim begin and end: for each degree, rising, each of its pieces.

    Attributes:
        low: where each begins.
        high: where each ends.
        amounts: how many elements each has.
        window: where windows leave gaps between each other, the window; ``low`` and ``high`` count windows then.
    """

    low: Costs
    high: Costs
    amounts: Costs
    window: Window | None = None

    def below(self, places: Costs) -> Costs:
        """Elements of each piece below some places, ``[places, pieces]``."""
        if self.window is None:
            return _within(places[:, None], self.low, self.high) - self.low
        windows, within = np.divmod(places + self.window.padding, self.window.stride)
        read = windows * self.window.extent + np.minimum(within, self.window.extent)
        low, high = self.low * self.window.extent, self.high * self.window.extent
        return _within(read[:, None], low, high) - low


def _within(places: Costs, low: Costs | float, high: Costs | float) -> Costs:
    """As ``np.clip``, which takes longer to call than to do."""
    return np.asarray(np.minimum(np.maximum(places, low), high))


@lru_cache(maxsize=4096)
def bounds(degrees: tuple[int, ...], size: float, whole: bool) -> Bounds:
    """A dim in pieces, as even as can be.

    Args:
        degrees: numbers of pieces.
        size: elements of the dim.
        whole: whether a piece has whole elements.
    """
    low = np.concatenate([np.arange(degree) / degree for degree in degrees]) * size
    high = np.concatenate([np.arange(1, degree + 1) / degree for degree in degrees]) * size
    if whole:
        low, high = np.floor(low + 1e-9), np.floor(high + 1e-9)
    return Bounds(low, high, high - low)


def reach(made: Bounds, window: Window, size: float) -> Bounds:
    """What pieces of an output read of an input dim: their windows, from first to last tap, without the padding."""
    if window.stride > window.extent:
        gaps = Bounds(made.low, made.high, made.amounts, window)
        ends = gaps.below(np.array([0.0, size]))
        return replace(gaps, amounts=ends[1] - ends[0])
    low = _within(made.low * window.stride - window.padding, 0, size)
    high = _within((made.high - 1) * window.stride - window.padding + window.extent, 0, size)
    high = np.where(made.high <= made.low, low, np.maximum(high, low))
    return Bounds(low, high, high - low)


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """One dim of a tensor, as both its ends divide it.

    Attributes:
        made: the op dim of the producer; None where it does not divide it.
        read: the op dim of the consumer.
        shared: elements that a piece of the one and a piece of the other share, ``[rows of made, rows of read]``.
    """

    made: str | None
    read: str | None
    shared: Costs


def side(made: str | None, read: str | None, held: Bounds, needed: Bounds) -> Side:
    """A dim of which pieces are held and needed.

    Raises:
        TableLimitError: there are too many pieces of it.
    """
    entries = len(held.low) * len(needed.low)
    if entries > MOST_SHARED:
        size = f"{len(held.low):,} by {len(needed.low):,} pieces of {made or read}"
        message = f"grids of {size} would take {entries:,} entries; allowed: {MOST_SHARED:,}"
        raise TableLimitError(f"{message}, so levels of fewer ways", entries, MOST_SHARED)
    return Side(made, read, needed.below(held.high) - needed.below(held.low))


def overlap(made: Layout, read: Layout, sides: Sequence[Side]) -> Costs:
    """Elements that all devices both need and hold, ``[choices of made, choices of read]``."""
    product: Costs = np.ones((1, 1))
    uneven = []
    for one in sides:
        factor = _factor(made, read, one)
        if factor is None:
            uneven.append(one)
        else:
            product = product * factor
    if not uneven and made.spread and read.spread:
        # Devices spread evenly over the ways meet at every multiple of both distances; of powers of two, at all of
        # the fewer ones, which is quicker said.
        together = np.gcd if made.ways & (made.ways - 1) else np.minimum
        return together(made.working[:, None], read.working) * product
    (mine, rows), (theirs, columns) = (end.among or (end, slice(None)) for end in (made, read))
    return _summed(mine, theirs, tuple(uneven))[rows][:, columns] * product


@lru_cache(maxsize=96)
def _summed(made: Layout, read: Layout, uneven: tuple[Side, ...]) -> Costs:
    """The product of what the pieces of some dims share, summed over all devices that work for both.

    Args:
        made: the producer's pieces.
        read: the consumer's.
        uneven: the dims.
    """
    tables = [one.shared.reshape(-1) for one in uneven]
    dims = tuple((one.made, one.read) for one in uneven)
    shape = (len(made.working), len(read.working))
    block = max(1, BLOCK // (shape[1] * made.ways))
    total = np.empty(shape)
    for first in range(0, shape[0], block):
        meeting = _meeting(made, read, dims, first, min(first + block, shape[0]))
        total[first : first + block] = _sums(tables, meeting).reshape(-1, shape[1]) * meeting.times
    return total


def _sums(tables: Sequence[Costs], meeting: _Meeting) -> Costs:
    """The same for each pair, every device counted once; as many pairs at once as stay in a core's cache."""
    count = len(meeting.starts)
    ends = np.append(meeting.starts, meeting.devices)
    step = max(1, count * CACHED // meeting.devices)
    found = np.empty(count)
    for first in range(0, count, step):
        last = min(first + step, count)
        here = slice(ends[first], ends[last])
        amounts = np.ones(ends[last] - ends[first])
        for table, rows in zip(tables, meeting.rows, strict=True):
            amounts *= table.take(rows[here], mode="clip")  # they are in range; to say so spares a copy
        np.add.reduceat(amounts, ends[first:last] - ends[first], out=found[first:last])
    return found


def copies(layout: Layout, dims: Sequence[str | None]) -> Numbers:
    """How many devices have each piece of a tensor of some dims, ``[choices]``."""
    found = layout.working
    for dim in dims:
        found = found // layout.degree(dim)
    return found


def boxes(layout: Layout, sides: Sequence[tuple[str | None, Bounds]]) -> Costs:
    """Elements that all devices have of a tensor, ``[choices]``; copies count each."""
    total = copies(layout, [dim for dim, _ in sides]).astype(np.float64)
    for dim, bound in sides:
        total *= _whole(layout, dim, bound)
    return total


@lru_cache(maxsize=4096)
def _whole(layout: Layout, dim: str | None, bound: Bounds) -> Costs:
    """Elements of a dim that its pieces have together, ``[choices]`` or 1."""
    if len(bound.amounts) == 1:
        return bound.amounts
    degrees = np.array(layout.of(dim))
    sums = np.add.reduceat(bound.amounts, np.cumsum(degrees) - degrees)
    return np.asarray(sums[np.searchsorted(degrees, layout.degree(dim))])


@lru_cache(maxsize=256)
def _factor(made: Layout, read: Layout, one: Side) -> Costs | None:
    """What a dim contributes at every device alike, ``[choices, choices]`` or 1 of either; None if that differs."""
    shared = one.shared
    if shared.size == 1:
        return shared
    if shared.shape[1] == 1:
        return np.asarray(shared[made.first(one.made)]) if _even(shared[:, 0], made, one.made) else None
    if len(shared) == 1:
        return np.asarray(shared[:, read.first(one.read)]) if _even(shared[0], read, one.read) else None
    # Both grids count through their first dim outermost, so a device is as far along in both.
    if not (one.made == one.read == ORDER[0] and made.spread and read.spread):
        return None
    mine = _along(made.of(one.made), made.ways)[made.taken(one.made)]
    theirs = _along(read.of(one.read), read.ways)[read.taken(one.read)]
    values = shared[mine[:, None], theirs[None]]
    if (values != values[:, :, :1]).any():
        return None
    return np.asarray(shared[np.ix_(np.asarray(made.first(one.made)), np.asarray(read.first(one.read)))])


@lru_cache(maxsize=64)
def _along(degrees: tuple[int, ...], ways: int) -> Numbers:
    """For each degree of the outermost dim the piece of every place among the ways, ``[degrees, ways]``."""
    own = np.array(degrees)[:, None]
    return np.asarray(np.cumsum(own, axis=0) - own + np.arange(ways) * own // ways)


def _even(amounts: Costs, layout: Layout, dim: str | None) -> bool:
    """Whether all pieces of each degree that some choice has are equal."""
    own = np.array(layout.of(dim))
    equal = amounts == np.repeat(amounts[np.cumsum(own) - own], own)
    return bool(equal[np.repeat(layout.taken(dim), own)].all())


class _Meeting(NamedTuple):
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
def _meeting(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...], first: int, last: int
) -> _Meeting:
    """The devices of the pairs of some of the producer's choices with all of the consumer's."""
    both = made.active[first:last, None] & read.active[None]
    bits = _significant(made, read, dims)
    times = np.ones((1, 1), np.int64)
    if bits is not None:
        rest = ~(bits[0][first:last, None] | bits[1]) & (made.ways - 1)
        both &= (np.arange(made.ways, dtype=np.int16) & rest.astype(np.int16)[:, :, None]) == 0
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
        kind: type[np.signedinteger] = np.intp if few else np.int16 if small else np.int32
        own = (_rows(made, mine, first, last) * width).astype(kind).take(place)
        rows.append(own + _rows(read, theirs, 0, len(read.working)).astype(kind).take(column))
    return _Meeting(len(kept), starts, times, tuple(rows))


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
