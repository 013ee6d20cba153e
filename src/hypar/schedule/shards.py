"""The shards that devices have of a tensor: which lie in those of another division, and what a device lacks of them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, starmap
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.dims import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.ops.windows import Window

TINY = 1e-9
"""Difference below which the ends of two shards are equal."""

WHOLE_DIM = (0.0, 1.0)
"""The ends of a whole dim."""


class Reach(NamedTuple):
    """The rows of an image that windows read across the borders of shards.

    Attributes:
        window: the window.
        rows: the rows of the image below the splits above.
    """

    window: Window
    rows: int


class Cut(NamedTuple):
    """A dim of a tensor that is divided.

    Attributes:
        ways: the degree of each level. Of equally many shards of other levels, devices have other ones.
        size: its indices where the shards are not of equal size; otherwise 0. Of a dim of another size, as that of a
            flattened image, uneven shards have other elements.
        parts: the ends of the share that each uneven split above leaves, as fractions.
        numbers: the shard that each device of a level has, -1 for an idle one; nothing where devices are numbered through
            the shards of all levels.
        reach: the rows beyond its shard that a device reads; None if there are none.
        each: the channels of tensors that are concatenated, each divided by itself; nothing where that makes no difference.
    """

    ways: tuple[int, ...]
    size: int
    parts: tuple[tuple[float, float], ...]
    numbers: tuple[tuple[int, ...], ...] = ()
    reach: Reach | None = None
    each: tuple[int, ...] = ()

    def inside(self, whole: Cut, *, free: bool = False) -> bool:
        """Return whether each device's shard lies in its shard by another division of the same dim.

        Args:
            whole: the other division.
            free: whether shards need not be consecutive, so that each has what its devices have of the other tensor, if it fits.
        """
        if any(others not in (own, WHOLE_DIM) for own, others in zip(self.parts, whole.parts, strict=True)):
            return self._inside_other_shares(whole, free=free)
        if self.each != whole.each:
            # Channels need not be consecutive: a reader takes those that its device has.
            return self.ways == whole.ways and all(
                own <= other + TINY for own, other in zip(_widths(self), _widths(whole), strict=True)
            )
        if self.numbers or whole.numbers:
            return _fits(self, whole) if free else all(starmap(_nested, _pairs(self, whole)))
        return self._inside_of(whole)

    def _inside_other_shares(self, whole: Cut, *, free: bool) -> bool:
        """Return whether each shard lies in another one, or fits it if they are free, below other shares of the splits above."""
        if self.numbers or whole.numbers or self.each or whole.each or self.ways != whole.ways:
            return False
        pairs = [*zip(of_whole(self, self.ways), of_whole(whole, whole.ways), strict=True)]
        if not free:
            return all(map(_nested, *zip(*pairs, strict=True)))
        widths = zip(_shares(self), _shares(whole), strict=True)
        return all(
            own <= other + TINY for own, other in [*widths, *(tuple(map(_size, pair)) for pair in pairs)]
        )

    def _inside_of(self, whole: Cut) -> bool:
        """Return whether each shard lies in another one, of devices that all work and are numbered alike."""
        if any(own % others for own, others in zip(self.ways, whole.ways, strict=True)):
            return False
        if not self.size and not whole.size:
            return True
        if self.reach or whole.reach:
            return all(map(_nested, of_whole(self, self.ways), of_whole(whole, self.ways)))
        return all(map(_nested, _ends(self, self.ways), _ends(whole, self.ways)))


Ends = tuple[float, float]


def _widths(cut: Cut) -> list[float]:
    """Return the size of each shard of a share of a dim, as a fraction of it."""
    each = cut.each or (cut.size or math.prod(cut.ways),)
    found = [_ends(cut._replace(size=size), cut.ways) for size in each]
    return [
        sum(size * _size(ends) for size, ends in zip(each, own, strict=True)) / sum(each)
        for own in zip(*found, strict=True)
    ]


def _pairs(own: Cut, other: Cut) -> Iterator[tuple[Ends, Ends]]:
    """Yield both shards of each device that works for both."""
    for pair in zip(_by_device(own, other), _by_device(other, own), strict=True):
        if pair[0] is not None and pair[1] is not None:
            yield pair[0], pair[1]


def _fits(part: Cut, whole: Cut) -> bool:
    """Return whether all shards of the devices that have one of another division fit it, and none belongs to two of these."""
    pairs = {*_pairs(part, whole)}
    left = {around: _size(around) for _, around in pairs}
    for own, around in pairs:
        left[around] -= _size(own)
    return len(pairs) == len({own for own, _ in pairs}) and all(size >= -TINY for size in left.values())


def _nested(own: tuple[float, float], around: tuple[float, float]) -> bool:
    """Return whether a shard lies between the ends of another one, or is empty."""
    return own[1] <= own[0] or (own[0] >= around[0] - TINY and own[1] <= around[1] + TINY)


Shards = tuple[tuple[str, Cut], ...]
"""The dims of a tensor that are divided."""


@lru_cache(maxsize=4096)
def within(part: Shards, whole: Shards, *, later: bool = False) -> bool:
    """Return whether shards divide a tensor further that others have divided.

    Args:
        part: the shards.
        whole: the others.
        later: whether the others are chosen later, among the elements that devices have, as far as dims allow.
    """
    cuts = dict(part)
    return all(dim in cuts and cuts[dim].inside(own, free=later and dim not in SPATIAL) for dim, own in whole)


@lru_cache(maxsize=4096)
def lacking(read: Shards, made: Shards) -> float:
    """Return the largest fraction of its shard that a device lacks, as a fraction of the largest shard.

    Only of shards that differ by their unequal sizes alone, or of a single level of which devices are idle, divide a grid, or have
    shards of unequal size: of others all devices lack as much, and share what several of them lack.
    """
    read, made = _numbered(read, made)
    grid = next((cut for _, cut in (*read, *made) if cut.numbers), None)
    if grid is not None:
        return _lacking_of_grid(read, made, grid) if len(grid.numbers) == 1 else 0.0
    cuts, lacking = dict(made), 0.0
    alike = ({dim: cut.ways for dim, cut in own} for own in (read, made))
    if next(alike) != next(alike):
        return 0.0
    for dim, cut in read:
        if cut != cuts[dim] and cut.each != cuts[dim].each:
            widths = zip(_widths(cut), _widths(cuts[dim]), strict=True)
            lacking += max((max(0.0, own - other) / own for own, other in widths if own), default=0.0)
        elif cut != cuts[dim]:
            ends = zip(of_whole(cut, cut.ways), of_whole(cuts[dim], cut.ways), strict=True)
            lacking += max(
                (_beyond(own, around) / _size(own) for own, around in ends if _size(own)), default=0.0
            )
    return min(lacking, 1.0)


def _numbered(*divisions: Shards) -> tuple[Shards, ...]:
    """Return divisions with the shard of each device, where a single level divides unlike dims, or one into unequal shards."""
    cuts = [cut for shards in divisions for _, cut in shards]
    dims = {dim for shards in divisions for dim, cut in shards if max(cut.ways, default=1) > 1}
    unequal = any(cut.size for cut in cuts) and len(dims) > 1
    if not unequal or any(cut.numbers or cut.reach or len(cut.ways) != 1 for cut in cuts):
        return divisions
    devices = max(ways for cut in cuts for ways in cut.ways)
    each = {1: ((0,) * devices,), devices: (tuple(range(devices)),)}
    return tuple(
        tuple((dim, cut._replace(numbers=each[cut.ways[0]])) for dim, cut in shards) for shards in divisions
    )


def _lacking_of_grid(read: Shards, made: Shards, grid: Cut) -> float:
    """Return the largest part of its shard that a device of a grid lacks, as a fraction of the largest shard."""
    cuts, others, (devices,) = dict(made), dict(read), grid.numbers
    sizes, there = [1.0] * len(devices), [1.0] * len(devices)
    for dim in {**others, **cuts}:
        own, other = others.get(dim), cuts.get(dim)
        fits = dim not in SPATIAL and own is not None and other is not None and _fits(other, own)
        needed, have = (_of_devices(cut, grid) for cut in (own, other))
        for device, (mine, theirs) in enumerate(zip(needed, have, strict=True)):
            sizes[device] *= 0.0 if mine is None else _size(mine)
            if mine is None or theirs is None:
                there[device] = 0.0
            elif fits:
                there[device] *= min(_size(mine), _size(theirs))
            else:
                there[device] *= _size(mine) - _beyond(mine, theirs)
    return max(size - part for size, part in zip(sizes, there, strict=True)) / (max(sizes) or 1.0)


def _of_devices(cut: Cut | None, grid: Cut) -> Sequence[Ends | None]:
    """Return the ends of each device's shard of a dim; the whole dim where nothing divides it."""
    return [WHOLE_DIM] * len(grid.numbers[0]) if cut is None else _by_device(cut, grid)


def _size(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def _beyond(own: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how much of a shard lies outside of another one."""
    return _size(own) - max(0.0, min(own[1], other[1]) - max(own[0], other[0]))


def of_whole(cut: Cut, finer: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the ends of each shard of a share of a dim, as fractions of the whole dim; arguments as below."""
    low, width = share_of(cut)
    found = [(low + width * start, low + width * end) for start, end in _ends(cut, finer)]
    return found if cut.reach is None else [_reached(cut, cut.reach, *own) for own in found]


def share_of(cut: Cut) -> tuple[float, float]:
    """Return the start of the share that the splits above leave, and its size, as fractions of the whole dim."""
    low, width = 0.0, 1.0
    for start, end in cut.parts:
        low, width = low + width * start, width * (end - start)
    return low, width


def _shares(cut: Cut) -> list[float]:
    """Return the size of the share that each split above leaves, as fractions of the whole dim."""
    return [*accumulate((end - start for start, end in cut.parts), mul)]


def _reached(cut: Cut, reach: Reach, start: float, end: float) -> tuple[float, float]:
    """Return the ends of the rows that windows read to make a shard of their outputs, as fractions of the image."""
    width = share_of(cut)[1]
    made, rows = cut.size / width, reach.rows / width
    if end <= start:
        return start, start
    first, last = reach.window.reads(round(start * made), round(end * made))
    return max(first, 0) / rows, min(last, rows) / rows


def _by_device(cut: Cut, other: Cut) -> list[tuple[float, float] | None]:
    """Return the ends of each device's shard as fractions of the whole dim; None for an idle device.

    Args:
        cut: the division.
        other: another one of the same devices, of which one has the shards of all devices by number.
    """
    devices = [len(own) for own in cut.numbers or other.numbers]
    numbers = cut.numbers or tuple(
        tuple(device * ways // count for device in range(count))
        for ways, count in zip(cut.ways, devices, strict=True)
    )
    shards, shard = of_whole(cut, cut.ways), [0]
    for ways, own in zip(cut.ways, numbers, strict=True):
        shard = [-1 if -1 in (at, one) else at * ways + one for at in shard for one in own]
    return [None if at < 0 else shards[at] for at in shard]


def on_devices(cut: Cut) -> list[float]:
    """Return the size of each device's shard of a share of a dim, as a fraction of it, where these may differ."""
    each, found = cut.each or (cut.size,), [0.0] * math.prod(map(len, cut.numbers))
    for size in filter(None, each) if cut.each else each:
        for device, ends in enumerate(_by_device(cut._replace(size=size, each=()), cut)):
            found[device] += 0.0 if ends is None else (size or 1) * _size(ends)
    whole = (sum(each) or 1) * share_of(cut)[1]
    return [own / whole for own in found]


def _ends(cut: Cut, finer: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the ends of the shard that each device has of a dim, as fractions of it.

    Args:
        cut: the division.
        finer: the degree of each level, a multiple of that of the division, by which devices are told apart.
    """
    size = cut.size or math.prod(cut.ways)
    pieces = [(0, size)]
    for ways, devices in zip(cut.ways, finer, strict=True):
        numbers = [device * ways // devices for device in range(devices)]
        pieces = [
            (start + (end - start) * number // ways, start + (end - start) * (number + 1) // ways)
            for start, end in pieces
            for number in numbers
        ]
    return [(start / size, end / size) for start, end in pieces]
