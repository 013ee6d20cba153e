"""The shards that devices have of a tensor: which lie in those of another division, and what a device lacks of them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.dims import SPATIAL

if TYPE_CHECKING:
    from hypar.ops.windows import Window

TINY = 1e-9
"""Difference below which the ends of two shards are equal."""

WHOLE_DIM = (0.0, 1.0)
"""The ends of a whole dim."""

Rows = NDArray[np.float64]
"""The ends of each device's shard of a dim as fractions of it, ``[devices, 2]``; NaN on an idle device."""


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

    @property
    def divides(self) -> bool:
        """Whether a device has less than the whole dim."""
        return math.prod(self.ways) > 1 or any(part != WHOLE_DIM for part in self.parts)

    @property
    def even(self) -> bool:
        """Whether all devices work, are numbered through, and have shards of equal size."""
        return not (self.numbers or self.size)

    @property
    def shares(self) -> list[float]:
        """The size of the share that each split above leaves, as fractions of the whole dim."""
        return [*accumulate((end - start for start, end in self.parts), mul, initial=1.0)]

    def inside(self, whole: Cut, *, free: bool = False) -> bool:
        """Return whether each device's shard lies in its shard by another division of the same dim.

        Args:
            whole: the other division.
            free: whether shards need not be consecutive, so that each has what its devices have of the other tensor, if it fits.
        """
        below = all(its in (own, WHOLE_DIM) for own, its in zip(self.parts, whole.parts, strict=True))
        numbered = bool(self.numbers or whole.numbers)
        if not below and (numbered or self.each or whole.each or self.ways != whole.ways):
            return False
        if self.each != whole.each:
            # Channels need not be consecutive: a reader takes those that its device has.
            return self.ways == whole.ways and _no_more(_widths(self), _widths(whole))
        if not numbered and any(own % its for own, its in zip(self.ways, whole.ways, strict=True)):
            return False
        if below and self.even and whole.even:
            return True
        pair = self, whole
        if below and not (numbered or self.reach or whole.reach):
            pair = self._replace(parts=()), whole._replace(parts=())
        own, around = _pairs(*pair)
        if free and not below:
            fit = _no_more(self.shares, whole.shares)
            return fit and _no_more(own[:, 1] - own[:, 0], around[:, 1] - around[:, 0])
        return _fits(own, around) if free and numbered else _nested(own, around)


def _no_more(own: object, other: object) -> bool:
    """Return whether no number is larger than the other one."""
    return bool(np.all(np.asarray(own) <= np.asarray(other) + TINY))


def _nested(own: Rows, around: Rows) -> bool:
    """Return whether every shard lies between the ends of the other one, or is empty."""
    lies = (own[:, 0] >= around[:, 0] - TINY) & (own[:, 1] <= around[:, 1] + TINY)
    return bool(np.all(lies | (own[:, 1] <= own[:, 0])))


def _fits(part: Rows, whole: Rows) -> bool:
    """Return whether all shards of the devices that have one of another division fit it, and none belongs to two of these."""
    pairs = np.unique(np.concatenate([part, whole], axis=1), axis=0)
    left: dict[tuple[float, float], float] = {}
    for start, end, *around in pairs.tolist():
        key = around[0], around[1]
        left[key] = left.get(key, key[1] - key[0]) - (end - start)
    return len(pairs) == len(np.unique(pairs[:, :2], axis=0)) and min(left.values(), default=0.0) >= -TINY


def _array(*cuts: Cut) -> tuple[int, ...]:
    """Return the ways of each level by which the devices of divisions are told apart."""
    numbers = next((cut.numbers for cut in cuts if cut.numbers), ())
    return tuple(map(len, numbers)) or tuple(map(max, zip(*(cut.ways for cut in cuts), strict=True)))


def _pairs(one: Cut, other: Cut) -> tuple[Rows, Rows]:
    """Return both shards of each device that works for both."""
    array = _array(one, other)
    own, its = rows(one, array), rows(other, array)
    both = ~np.isnan(own[:, 0] + its[:, 0])
    return own[both], its[both]


@lru_cache(maxsize=4096)
def rows(cut: Cut, array: tuple[int, ...]) -> Rows:
    """Return the ends of each device's shard of a dim.

    Args:
        cut: the division.
        array: the ways of each level: of one without numbers a multiple of the degree there.
    """
    size, works = float(cut.size or math.prod(cut.ways)), np.ones(1, bool)
    ends = np.array([[0.0, size]])
    for ways, devices, given in zip(cut.ways, array, cut.numbers or repeat(()), strict=False):
        numbers = np.array(given) if given else np.arange(devices) * ways // devices
        before, own = ends[:, None, :1], np.stack([numbers, numbers + 1], axis=1)
        ends = (before + (ends[:, None, 1:] - before) * own // ways).reshape(-1, 2)
        works = np.logical_and.outer(works, numbers >= 0).reshape(-1)
    low, width = 0.0, 1.0
    for start, end in cut.parts:
        low, width = low + width * start, width * (end - start)
    found = low + width * ends / size
    if cut.reach is not None:
        found = _reached(found, cut.reach, size / width, cut.reach.rows / width)
    return np.where(works[:, None], found, np.nan)


def _reached(ends: Rows, reach: Reach, made: float, read: float) -> Rows:
    """Return the ends of the rows that windows read to make shards of their outputs, as fractions of the image."""
    first, last = reach.window.reads(*np.round(ends * made).T)
    found = np.stack([np.maximum(first, 0) / read, np.minimum(last, read) / read], axis=1)
    return np.where(ends[:, 1:] <= ends[:, :1], ends[:, :1], found)


def on_devices(cut: Cut, array: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the size of each device's shard of a share of a dim, as a fraction of it, ``[devices]``."""
    each = [*filter(None, cut.each)] or [cut.size]
    found = np.zeros(math.prod(array))
    for size in each:
        ends = rows(cut._replace(size=size, each=()), array)
        found += (size or 1) * np.nan_to_num(ends[:, 1] - ends[:, 0])
    return found / ((sum(each) or 1) * cut.shares[-1])


def _widths(cut: Cut) -> NDArray[np.float64]:
    """Return the size of each shard of a share of a dim, as a fraction of it."""
    return on_devices(Cut(cut.ways, cut.size, (), each=cut.each), cut.ways)


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
    every, cuts, missing = [cut for _, cut in (*read, *made)], dict(made), 0.0
    divided = {dim for dim, cut in (*read, *made) if max(cut.ways, default=1) > 1}
    numbered = any(cut.numbers for cut in every)
    unlike = any(cut.size for cut in every) and len(divided) > 1
    if numbered or (unlike and all(len(cut.ways) == 1 and not cut.reach for cut in every)):
        array = _array(*every)
        return _lacking_of_level(dict(read), cuts, array) if len(array) == 1 else 0.0
    if {dim: cut.ways for dim, cut in read} != {dim: cut.ways for dim, cut in made}:
        return 0.0
    for dim, cut in read:
        if cut.each != cuts[dim].each:
            own, other = _widths(cut), _widths(cuts[dim])
            lacks = np.maximum(0.0, own - other)
        elif cut != cuts[dim]:
            needed, have = _pairs(cut, cuts[dim])
            own = needed[:, 1] - needed[:, 0]
            lacks = own - _shared(needed, have)
        else:
            continue
        missing += float(np.max(lacks / np.where(own > 0, own, np.inf), initial=0.0))
    return min(missing, 1.0)


def _lacking_of_level(read: dict[str, Cut], made: dict[str, Cut], array: tuple[int, ...]) -> float:
    """Return the largest part of its shard that a device of one level lacks, as a fraction of the largest shard."""
    sizes, there = np.ones((2, *array))
    for dim in {**read, **made}:
        needed, have = (
            rows(own[dim], array) if dim in own else np.array([WHOLE_DIM] * array[0]) for own in (read, made)
        )
        mine, theirs = (own[:, 1] - own[:, 0] for own in (needed, have))
        fits = dim not in SPATIAL and dim in read and dim in made
        fits = fits and _fits(*reversed(_pairs(read[dim], made[dim])))
        sizes *= np.nan_to_num(mine)
        there *= np.nan_to_num(np.minimum(mine, theirs) if fits else _shared(needed, have))
    return float(np.max(sizes - there)) / (float(np.max(sizes)) or 1.0)


def _shared(own: Rows, other: Rows) -> NDArray[np.float64]:
    """Return how much of each shard lies in the other one."""
    ends = np.minimum(own[:, 1], other[:, 1]) - np.maximum(own[:, 0], other[:, 0])
    return np.asarray(np.maximum(ends, 0.0))
