"""Which piece of a tensor each device has when a level divides several dims, and what two such pieces share.

A choice of degrees makes a grid of pieces. The devices that work are numbered through it, the first dim of
``ORDER`` outermost; with fewer devices than ways they are spread evenly over them, so that a coarser grid's
devices lie among those that have the same piece of a finer one. Everything is counted for all pairs of
two layers' choices at once: the elements that a device needs and holds are a box, and two boxes share the product
of what their sides share. Cost: pairs of choices times the devices at which their pieces differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.base import Window
    from hypar.placement import Choice
    from hypar.problem import Costs

Numbers = NDArray[np.int64]

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which devices are numbered through them, the outermost first."""

COPIES = "copies"
"""What divides the devices where every one of them does the whole layer: no dim, but a number of its own."""

BLOCK = 2**22
"""Devices of pairs of choices that are looked at at once."""


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Which piece of each dim each device has, for every choice of a layer.

    Attributes:
        ways: devices.
        working: how many of them work, ``[choices]``.
        degrees: for each divided dim the degrees that there are, rising.
        rows: for each divided dim the piece of each device, as a row of ``bounds``, ``[choices, ways]``.
        active: which devices work, ``[choices, ways]``.
    """

    ways: int
    working: Numbers
    degrees: dict[str, tuple[int, ...]]
    rows: dict[str, Numbers]
    active: NDArray[np.bool_]
    spread: bool = field(default=True)

    def of(self, dim: str | None) -> tuple[int, ...]:
        """The degrees of a dim; one of 1 where no choice divides it."""
        return self.degrees.get(dim or "", (1,))

    def row(self, dim: str | None) -> Numbers:
        """The pieces of a dim, ``[choices, ways]``; all the first where no choice divides it."""
        found = self.rows.get(dim or "")
        return np.zeros((len(self.working), self.ways), np.int64) if found is None else found

    def degree(self, dim: str | None) -> Numbers:
        """The degree of a dim in each choice."""
        starts = np.cumsum([0, *self.of(dim)[:-1]])
        return np.array(self.of(dim))[np.searchsorted(starts, self.row(dim)[:, 0], side="right") - 1]


@lru_cache(maxsize=512)
def layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """The pieces of a layer's choices."""
    working = np.array([choice.devices(ways) for choice in choices])
    device = np.arange(ways)
    turn = -(-device * working[:, None] // ways)
    active = turn * ways // working[:, None] == device
    left, degrees, rows = working[:, None].copy(), {}, {}
    for dim in (*ORDER, COPIES):
        own = np.array(
            [choice.degree(dim) if dim != COPIES or choice.degrees else ways for choice in choices]
        )
        if own.max() > 1:
            degrees[dim] = tuple(sorted({*own.tolist()}))
            starts = {degree: sum(degrees[dim][:at]) for at, degree in enumerate(degrees[dim])}
            left //= own[:, None]
            first = np.array([starts[degree] for degree in own.tolist()])
            rows[dim] = first[:, None] + turn // left % own[:, None]
    return Layout(ways, working, degrees, rows, active, bool((ways % working == 0).all()))


class Bounds(NamedTuple):
    """Where pieces of a dim begin and end: for each degree, rising, each of its pieces."""

    low: Costs
    high: Costs


@lru_cache(maxsize=4096)
def bounds(degrees: tuple[int, ...], size: float, whole: bool) -> Bounds:
    """A dim in pieces, as even as can be.

    Args:
        degrees: numbers of pieces.
        size: elements of the dim.
        whole: whether a piece has whole elements.
    """
    starts = np.concatenate([np.arange(degree) / degree for degree in degrees])
    ends = np.concatenate([np.arange(1, degree + 1) / degree for degree in degrees])
    if whole:
        return Bounds(*(np.floor(part * size + 1e-9) for part in (starts, ends)))
    return Bounds(starts * size, ends * size)


def reach(made: Bounds, window: Window | None, size: float) -> Bounds:
    """What pieces of an output read of an input dim: their windows, without the padding."""
    if window is None:
        return made
    low = np.clip(made.low * window.stride - window.padding, 0, size)
    high = np.clip((made.high - 1) * window.stride - window.padding + window.extent, 0, size)
    empty = made.high <= made.low
    return Bounds(np.where(empty, 0, low), np.where(empty, 0, np.maximum(high, low)))


class Side(NamedTuple):
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
    """A dim of which pieces are held and needed."""
    low = np.maximum(held.low[:, None], needed.low)
    high = np.minimum(held.high[:, None], needed.high)
    return Side(made, read, np.maximum(high - low, 0.0))


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
    shape = (len(made.working), len(read.working))
    block = max(1, BLOCK // (shape[1] * made.ways))
    dims = tuple((one.made, one.read) for one in uneven)
    total = np.empty(shape)
    for first in range(0, shape[0], block):
        meeting = _meeting(made, read, dims, first, min(first + block, shape[0]))
        amounts = meeting.times.astype(np.float64)
        for one, index in zip(uneven, meeting.rows, strict=True):
            amounts *= one.shared.reshape(-1).take(index)
        total[first : first + block] = np.add.reduceat(amounts, meeting.starts).reshape(-1, shape[1])
    total *= product
    return total


def boxes(layout: Layout, sides: Sequence[tuple[str | None, Bounds]]) -> Costs:
    """Elements that all devices have of a tensor, ``[choices]``; copies count each."""
    total = layout.working.astype(np.float64)
    for dim, bound in sides:
        degrees = np.array(layout.of(dim))
        sums = np.add.reduceat(bound.high - bound.low, np.cumsum([0, *layout.of(dim)[:-1]]))
        total *= (sums / degrees)[np.searchsorted(degrees, layout.degree(dim))]
    return total


def _factor(made: Layout, read: Layout, one: Side) -> Costs | None:
    """What a dim contributes at every device alike, ``[choices, choices]`` or 1 of either; None if that differs."""
    rows, columns = made.row(one.made)[:, 0], read.row(one.read)[:, 0]
    found: Costs = one.shared[np.ix_(rows, columns)]
    if one.shared.size == 1:
        return one.shared
    degrees = (made.of(one.made), read.of(one.read))
    if len(one.shared) == 1 or one.shared.shape[1] == 1:
        return found if _even(one.shared.reshape(-1), degrees[len(one.shared) == 1]) else None
    # Both grids count through their first dim outermost, so a device is as far along in both.
    if not (one.made == one.read == ORDER[0] and made.spread and read.spread):
        return None
    place = np.arange(made.ways)
    along = [
        np.stack([sum(own[:at]) + place * degree // made.ways for at, degree in enumerate(own)])
        for own in degrees
    ]
    values = one.shared[along[0][:, None], along[1][None]]
    return found if not np.ptp(values, axis=2).any() else None


def _even(amounts: Costs, degrees: tuple[int, ...]) -> bool:
    """Whether all pieces of a degree are equal."""
    starts = np.cumsum([0, *degrees[:-1]])
    least, most = np.minimum.reduceat(amounts, starts), np.maximum.reduceat(amounts, starts)
    return bool((least == most).all())


class _Meeting(NamedTuple):
    """The devices that work for both of a pair of choices, those with equal pieces once.

    Attributes:
        starts: where each pair's devices begin.
        times: how many devices each stands for.
        rows: for each dim the row of a ``Side`` times its width, plus the column.
    """

    starts: Numbers
    times: NDArray[np.int16]
    rows: tuple[NDArray[np.int32], ...]


@lru_cache(maxsize=8)
def _meeting(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...], first: int, last: int
) -> _Meeting:
    """The devices of the pairs of some of the producer's choices with all of the consumer's."""
    both = made.active[first:last, None] & read.active[None]
    times = np.ones(1, np.int16)
    bits = _significant(made, read, dims)
    if bits is None:
        kept = np.flatnonzero(both.reshape(-1))
        times = np.ones(len(kept), np.int16)
    else:
        mine, theirs = bits
        rest = (made.ways - 1) & ~(mine[first:last, None] | theirs)
        kept = np.flatnonzero((both & ((np.arange(made.ways) & rest[:, :, None]) == 0)).reshape(-1))
        working = np.minimum(made.working[first:last, None], read.working).reshape(-1)
        free = rest.reshape(-1) & -(made.ways // working)
        times = (1 << _ones(made.ways)[free]).astype(np.int16)[kept // made.ways]
    pair, device = np.divmod(kept, made.ways)
    row, column = np.divmod(pair, len(read.working))
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    index = tuple(
        (
            made.row(mine)[row + first, device] * sum(read.of(theirs)) + read.row(theirs)[column, device]
        ).astype(np.int32)
        for mine, theirs in dims
    )
    return _Meeting(starts, times, index)


def _significant(
    made: Layout, read: Layout, dims: tuple[tuple[str | None, str | None], ...]
) -> tuple[Numbers, Numbers] | None:
    """The bits of a device's number on which its pieces of some dims depend; None where it is not of bits."""
    if made.ways & (made.ways - 1) or not (made.spread and read.spread):
        return None
    return (
        _bits(made, {mine for mine, _ in dims}),
        _bits(read, {theirs for _, theirs in dims}),
    )


def _bits(layout: Layout, dims: set[str | None]) -> Numbers:
    """For each choice the bits of a device's number that say its pieces of some dims."""
    block, found = np.full(len(layout.working), layout.ways), np.zeros(len(layout.working), np.int64)
    for dim in layout.degrees:
        below = block // layout.degree(dim)
        if dim in dims:
            found |= block - below
        block = below
    return found


@lru_cache(maxsize=8)
def _ones(ways: int) -> Numbers:
    """How many bits of each number below some ways are one."""
    return np.array([number.bit_count() for number in range(ways)])
