"""The shards that devices have of the dims of tensors: which lie in those of another division, and what a device lacks of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.program.layout import shares_of
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import TINY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.ops.windows import Window
    from hypar.sharding.placement import Choice, Options

WHOLE_DIM = (0.0, 1.0)
"""The ends of a whole dim."""

Array = NDArray[Any]
"""What devices have: over the levels of an array, an axis for each, with one entry where it does not vary."""

Amount = float | NDArray[np.float64]
"""An amount on every device, or over the levels."""

Levels = tuple[tuple["Choice", str], ...]
"""For each level a choice, and its dim that divides a dim of a tensor."""


def _over(level: int, array: tuple[int, ...], each: Array) -> Array:
    """Return what the parts of a level have, ``[..., parts]``, over the levels."""
    return each.reshape(*each.shape[:-1], *[ways if at == level else 1 for at, ways in enumerate(array)])


@lru_cache(maxsize=16384)
def at_work(chosen: Options, array: tuple[int, ...]) -> Amount:
    """Return 1 for a device that works and 0 for another."""
    each = [shares_of(choice, ways)[1].astype(float) for choice, ways in zip(chosen, array, strict=True)]
    return _product(_over(level, array, own) for level, own in enumerate(each) if not own.all())


class Reach(NamedTuple):
    """The rows of an image that windows read across the borders of shards.

    Attributes:
        window: the window.
        rows: the rows of the image below the splits above.
    """

    window: Window
    rows: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The shards of a dim of a tensor.

    Attributes:
        content: a key that equal divisions share.
        numbers: the shard of the levels that each device has.
        ends: its first place and the one behind its last, as fractions of the dim, ``[2, ...]``.
        width: the fraction of the dim that it has.
        free: whether shards need not be consecutive, so that each has what its devices have of another tensor, if it fits.
    """

    content: tuple[object, ...]
    numbers: Array = field(compare=False)
    ends: Array = field(compare=False)
    width: Array = field(compare=False)
    free: bool


@lru_cache(maxsize=16384)
def cut_of(
    name: str,
    levels: Levels,
    array: tuple[int, ...],
    parts: tuple[tuple[float, float], ...],
    each: tuple[float, ...],
    reach: Reach | None = None,
    *,
    integral: bool = True,
) -> tuple[Cut | None, Amount]:
    """Return the shards of a dim of a tensor, None of a whole one, and the fraction of what the splits above leave.

    Args:
        name: its name in the tensor.
        levels: how the levels divide it.
        array: their ways.
        parts: the ends of the share that each uneven split above leaves, as fractions.
        each: its indices below these; of several tensors that are concatenated those of each, which is divided by itself.
        reach: the rows beyond its shard that a device reads; None if there are none.
        integral: whether indices are whole; a real number of them has no whole ones.
    """
    given = [shares_of(choice, ways)[0].get(dim) for (choice, dim), ways in zip(levels, array, strict=True)]
    shares = [_over(level, array, own.T) for level, own in enumerate(given) if own is not None]
    low, left = 0.0, 1.0
    for start, end in parts:
        low, left = low + left * start, left * (end - start)
    if not shares and left == 1:
        return None, 1.0
    numbers = np.zeros([1] * len(array), np.int64)
    for start, end in shares:
        degree = round(1 / (end - start).flat[0])
        numbers = numbers * degree + np.round(start * degree).astype(np.int64)
    total, every = sum(each), [_ends(size, shares, integral=integral) for size in each]
    ends = every[0] if len(each) == 1 else _ends(total, shares, integral=integral)
    if reach is not None:
        ends = _reached(low + left * ends / total, reach, total / left, reach.rows / left)
        width = (ends[1] - ends[0]) / left
    else:
        width = sum([own[1] - own[0] for own in every]) / (total or 1)
        ends = low + left * ends / (total or 1)
    if not integral:
        width = np.full_like(width, width.max())
    free = name not in SPATIAL
    key = tuple([(own.shape, np.round(own, 12).tobytes()) for own in (numbers, left * width, ends)])
    even = float(width.flat[0])
    return Cut(key, numbers, ends, left * width, free), even if (width == even).all() else width


def _ends(size: float, shares: list[Array], *, integral: bool) -> Array:
    """Return the first of some indices that each device has, and the one behind its last."""
    ends = np.array([[0.0], [size]])
    for start, end in shares:
        own = (ends[1] - ends[0]) * start, (ends[1] - ends[0]) * end
        if integral:
            own = np.floor(own[0] + TINY), np.floor(own[1] + TINY)
        ends = np.stack(np.broadcast_arrays(ends[0] + own[0], ends[0] + own[1]))
    return ends


def _reached(ends: Array, reach: Reach, made: float, read: float) -> Array:
    """Return the ends of the rows that windows read to make shards of their outputs, as fractions of the image."""
    first, last = reach.window.reads(*np.round(ends * made))
    found = np.stack([np.maximum(first, 0) / read, np.minimum(last, read) / read])
    return np.where(ends[1] <= ends[0], ends[0], found)


@lru_cache(maxsize=16384)
def _inside(part: Cut, whole: Cut) -> bool:
    """Return whether each device has its shard of one division in that of the other, if it has one."""
    numbers, around, own, its = np.broadcast_arrays(part.numbers, whole.numbers, part.width, whole.width)
    there = own > 0
    if not (part.free and whole.free):
        nested = (part.ends[0] >= whole.ends[0] - TINY) & (part.ends[1] <= whole.ends[1] + TINY)
        return bool(np.all(nested | ~there))
    pairs, first = np.unique(np.stack([numbers[there], around[there]]), axis=1, return_index=True)
    filled = np.bincount(pairs[1], own[there][first])[pairs[1]]
    alone = len(np.unique(pairs[0])) == pairs.shape[1]
    return alone and bool(np.all(filled <= its[there][first] + TINY))


Shards = tuple[tuple[str, Cut], ...]
"""The dims of a tensor that are divided."""


@lru_cache(maxsize=16384)
def within(part: Shards, whole: Shards) -> bool:
    """Return whether shards divide a tensor further that others have divided."""
    cuts = dict(part)
    return all(dim in cuts and _inside(cuts[dim], own) for dim, own in whole)


@lru_cache(maxsize=16384)
def lacking(read: Shards, made: Shards) -> float:
    """Return the largest part of its shard that a device lacks, as a fraction of the largest shard.

    Only of shards that differ by their unequal sizes alone, or of a single level: of others all devices lack as much, and share
    what several of them lack.
    """
    own, its = dict(read), dict(made)
    numbers = [{dim: cut.content[0] for dim, cut in cuts.items()} for cuts in (own, its)]
    single = all(cut.numbers.ndim == 1 for cuts in (own, its) for cut in cuts.values())
    if not single and numbers[0] != numbers[1]:
        return 0.0
    return float(np.max(missing(read, made))) / (float(np.max(_size(own.values()))) or 1.0)


@lru_cache(maxsize=16384)
def missing(read: Shards, made: Shards) -> Amount:
    """Return the fraction of a tensor that devices have in some shards and not in others."""
    own, its = dict(read), dict(made)
    both = [_shared(own[dim], its[dim]) if dim in own else its[dim].width for dim in its]
    both += [own[dim].width for dim in own if dim not in its]
    return _size(own.values()) - _product(both)


def _size(cuts: Iterable[Cut]) -> Amount:
    return _product(cut.width for cut in cuts)


def _product(each: Iterable[Array]) -> Amount:
    found: Amount = math.prod(each, start=1.0)
    return found


def _shared(one: Cut, other: Cut) -> Array:
    """Return how much of each device's shard lies in its shard of another division."""
    if one.free and other.free and (_inside(one, other) or _inside(other, one)):
        return np.minimum(one.width, other.width)
    ends = np.minimum(one.ends[1], other.ends[1]) - np.maximum(one.ends[0], other.ends[0])
    return np.asarray(np.maximum(ends, 0.0))


Kinds = tuple[NDArray[np.intp], ...]
"""A device of each kind, by its place at each level."""


def kinds_of(amounts: Iterable[Amount]) -> Kinds:
    """Return a device of each kind, of which all have as much of everything."""
    key = np.zeros(1, np.int64)
    for own in {id(own): own for own in amounts if not isinstance(own, float)}.values():
        values, which = np.unique(own, return_inverse=True)
        both = key * len(values) + which.reshape(own.shape)
        key = np.unique(both, return_inverse=True)[1].reshape(both.shape)
    return np.unravel_index(np.unique(key, return_index=True)[1], key.shape)


def of_kinds(amount: Amount, kinds: Kinds) -> Amount:
    """Return an amount on the devices of each kind, ``[kinds]``."""
    if isinstance(amount, float):
        return amount
    places = [np.minimum(own, size - 1) for own, size in zip(kinds, amount.shape, strict=True)]
    return np.asarray(amount[tuple(places)])
