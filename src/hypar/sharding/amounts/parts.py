"""What the parts of some digits read, hold, and add up the error of, of the rows of an image, counted exactly."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.windows import Digit, Digits, Image, Rows, before
from hypar.sharding.placement import COPIES, IDLE, Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hypar.solve.edge import Costs

TINY = 1e-9
"""Fraction of a row within which a bound is whole; other bounds are those of the rows before them."""

Kinds = tuple[Digits, ...]
"""For each digit what ways to cut an image may divide by it."""


def averages(image: Image, digits: tuple[Digits, ...], ways: bytes) -> Costs:
    """Return what the parts of some ways to cut an image have on average, as multiples of equal shares, ``[counts, ways]``.

    The counts are what they need, hold, and have of both, what there is of errors where they lie, and what is added up. Sums
    of whole rows are exact in any order.
    """
    adds, whole = any(rows.adds for _, rows in image), math.prod(rows.read for _, rows in image)
    columns, groups = _columns(tuple([dim for dim, _ in image]), digits, ways)
    of_rows = [partial(_along, rows) for _, rows in image]
    each = [own.found(of) for own, of in zip(columns, [*of_rows, partial(_others, adds)], strict=True)]
    scales = [scale[:, own.which] for own, (_, scale) in zip(columns, each, strict=True)]
    means: Costs = np.prod(scales, axis=0)
    for group in groups:
        found = np.ones(1)
        for (counts, _), (distinct, of) in zip(each, group.columns, strict=True):
            found = found * counts[:, distinct].sum(axis=group.alone, keepdims=True)[:, of]
        sums, parts = _summed(found / group.times, digits, adds=adds)
        means[:, group.members] *= sums
        means[:, group.members] /= parts * max(whole, 1)
    return means


def _summed(found: Costs, digits: Sequence[Digits], *, adds: bool) -> tuple[Costs, int]:
    """Return the sums of the parts that are counted, and the number of these."""
    axes, counted = tuple(range(2, found.ndim)), found
    for axis, (own, *_) in zip(axes, digits, strict=True):
        counted = counted if own.part is None else counted.take([own.part], axis=axis)
    sums: Costs = counted.sum(axis=axes)
    if counted is not found and not adds:
        # Groups own what they have as they have it.
        both, owned = found[2:4].sum(axis=axes)
        sums[3] = owned * np.divide(sums[2], both, out=np.zeros_like(both), where=both > 0)
    return sums, math.prod(counted.shape[2:])


class _Column(NamedTuple):
    """The distinct ways to cut one dim of an image, or the other dims of the tensor, without the digits by which no parts differ.

    Attributes:
        ways: for each number of parts the kinds of each digit, and which of them each way has.
        first: in the counts of all of these the place of each part of the distinct ways, ``[distinct, *digits]``.
        number: the place of each distinct way among all of these.
        which: the distinct way of each way to cut the image.
    """

    ways: list[tuple[Kinds, bytes]]
    first: Numbers
    number: Numbers
    which: Numbers

    def found(self, counted: Callable[[Kinds, bytes], tuple[Costs, Costs]]) -> tuple[Costs, Costs]:
        """Return the counts of the distinct ways, ``[counts, distinct, *digits]``, and their scales, ``[counts, distinct]``."""
        counts, scales = zip(*[counted(*own) for own in self.ways], strict=True)
        every = np.concatenate([own.reshape(len(own), -1) for own in counts], axis=1)
        return every[:, self.first], np.concatenate(scales, axis=1)[:, self.number]


class _Group(NamedTuple):
    """Ways to cut an image of which the same digits divide several columns; of the others each column is summed by itself.

    Attributes:
        members: the ways.
        alone: the axes of the other digits.
        times: how many times sums count what a column has without another one's digits.
        columns: for each column the distinct ways among these, and which of them each way has.
    """

    members: Numbers
    alone: tuple[int, ...]
    times: int
    columns: list[tuple[Numbers, Numbers]]


@lru_cache(maxsize=256)
def _columns(
    image: tuple[str, ...], digits: tuple[Digits, ...], numbers: bytes
) -> tuple[list[_Column], list[_Group]]:
    """Return the columns of some ways to cut an image of some dims, whatever its rows, and the ways that share digits."""
    ways = np.frombuffer(numbers, np.int64).reshape(-1, len(digits))
    sizes = [own[0].ways for own in digits]
    reduced = [*[partial(Digit.along, dim=dim) for dim in image], partial(Digit.weighted, image=image)]
    columns, matter = zip(*[_column(own, digits, ways) for own in reduced], strict=True)
    shared = np.sum(matter, axis=0) > 1
    shared |= [own[0].part is not None for own in digits]
    groups, (first, which) = [], _distinct(shared)
    for group, together in enumerate(shared[first].tolist()):
        members = np.flatnonzero(which == group)
        each = [np.unique(own.which[members], return_inverse=True) for own in columns]
        alone = tuple([2 + at for at, own in enumerate(together) if not own])
        times = math.prod(sizes[at - 2] for at in alone) ** len(columns)
        groups.append(_Group(members, alone, times, each))
    return [*columns], groups


def _column(
    reduced: Callable[[Digit], Digit], digits: Sequence[Digits], ways: Numbers
) -> tuple[_Column, NDArray[np.bool_]]:
    """Return one column, and by which digits its parts differ, ``[ways, digits]``."""
    divided = [[*map(reduced, every)] for every in digits]
    kinds = sorted({own for every in divided for own in every}, key=str)
    places = [np.array([*map(kinds.index, every)]) for every in divided]
    each = np.stack([own[at] for own, at in zip(places, ways.T, strict=True)], axis=1, dtype=np.int16)
    first, which = _distinct(each)
    each, sizes = each[first], np.array([every[0].ways for every in digits])
    matters = np.array([own != Digit(own.ways, "", "") for own in kinds])[each]
    # Those that matter come last.
    order = np.argsort(matters, axis=1, kind="stable")
    lengths = np.take_along_axis(np.where(matters, sizes, 1), order, axis=1)
    each = np.take_along_axis(np.where(matters, each, -1), order, axis=1)
    strides, start = np.empty_like(lengths), np.empty((2, len(each)), np.int64)
    inner = np.cumprod(lengths[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(strides, order, inner // lengths * (lengths > 1), axis=1)
    found, total = [], np.zeros((2, 1), np.int64)
    begins, group_of = _distinct(lengths)
    for group, parts in enumerate(inner[begins, 0].tolist()):
        members = np.flatnonzero(group_of == group)
        distinct, of = _distinct(each[members])
        found.append(_used(kinds, each[members[distinct]]))
        start[:, members] = total + of * np.array([[parts], [1]])
        total += len(distinct) * np.array([[parts], [1]])
    at_part = start[0][:, None] + strides @ np.indices(sizes.tolist()).reshape(len(sizes), -1)
    return _Column(found, at_part.reshape(-1, *sizes), start[1], which), matters[which]


def _distinct(rows: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return the first of equal rows, in ascending order of their bytes, and which of these each row is."""
    rows = np.ascontiguousarray(rows)
    keys = rows.view(f"V{rows[0].nbytes}").reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _used(kinds: Sequence[Digit], each: NDArray[np.integer]) -> tuple[Kinds, bytes]:
    """Return for each digit that matters the kinds that some ways use of it, and which of these each way does."""
    every, places = list[Digits](), []
    for at in each.T:
        used, own = np.unique(at, return_inverse=True)
        if used[0] >= 0:
            every.append(tuple([kinds[kind] for kind in used.tolist()]))
            places.append(own.reshape(-1))
    return tuple(every) or ((Digit(1, "", ""),),), np.stack(
        places or [np.zeros(1, np.int64)], axis=1
    ).tobytes()


def _outer(of: Callable[[Digit], Any], kinds: Kinds, ways: Numbers) -> Costs:
    """Return the products of what the parts of each digit have, ``[ways, counts, parts]``."""
    found = np.ones((len(ways), 1, 1))
    for every, at in zip(kinds, ways.T, strict=True):
        found = found[..., None] * np.array([of(own) for own in every], float)[at, :, None]
        found = found.reshape(*found.shape[:2], -1)
    return found


def _alone(digit: Digit) -> bool:
    """Return whether parts have owners of their own, and not one together as where nothing that is made is divided."""
    return digit.made not in {COPIES, IDLE}


@lru_cache(maxsize=1024)
def _others(adds: bool, kinds: Kinds, numbers: bytes) -> tuple[Costs, Costs]:
    """Return what the parts of some ways have of other dims than an image's; as below."""
    found = _outer(
        partial(_of_others, adds=adds), kinds, np.frombuffer(numbers, np.int64).reshape(-1, len(kinds))
    ).swapaxes(0, 1)
    return np.ones((5, 1, 1)) * found, np.ones((5, found.shape[1]))


def _of_others(digit: Digit, *, adds: bool) -> list[list[float]]:
    """Return what each part has of other dims than an image's, as a multiple of an equal share, ``[5, parts]``."""
    hold, need = (
        [float(share > 0) if dim in {COPIES, IDLE, "here"} else share * digit.ways for share in digit.of(end)]
        for end, dim in enumerate(digit[1:3])
    )
    found = [need, hold, [*map(mul, need, hold)]]
    if IDLE in digit[1:3]:
        # Factors count idle devices; and no part of the stages has both.
        found = [[one * len(own) / max(sum(own), TINY) for one in own] for own in found]
    need, hold, both = found
    return [need, hold, both, both if adds or _alone(digit) else [max(both)] * digit.ways, need]


@lru_cache(maxsize=1024)
def _along(rows: Rows, kinds: Kinds, numbers: bytes) -> tuple[Costs, Costs]:
    """Return the rows of a dim that the parts of some ways have, ``[counts, ways, parts]``, and the scales, ``[counts, ways]``."""
    ways, earlier = np.frombuffer(numbers, np.int64).reshape(-1, len(kinds)), before(rows)
    parts = math.prod(every[0].ways for every in kinds)
    (first, last), (low, high) = (
        _bounds(size, end, kinds, ways) for end, size in ((1, rows.places), (0, rows.size))
    )
    working = _outer(lambda own: [np.minimum(own.of(0), own.of(1)) > 0], kinds, ways).reshape(-1) > 0
    # Pieces are the distinct rows that parts read.
    _, at, interval = np.unique(first * (rows.places + 1) + last, return_index=True, return_inverse=True)
    need = earlier[first[at]] != earlier[last[at]]
    at, piece = _distinct(np.packbits(need, axis=1))
    pieces, of = need[at], piece[interval.reshape(-1)]
    if rows.adds:
        way = np.arange(len(ways)).repeat(parts)
        _, at, own = np.unique(way * len(pieces) + of, return_index=True, return_inverse=True)
        there = _adding(pieces[of[at]], way[at], own.reshape(-1), (low, high), working)
    else:
        own = np.arange(len(of))
        there = _together((pieces[of] & working[:, None]).reshape(len(ways), parts, -1), kinds, ways)
    of_some, of_need, of_there = (
        each.cumsum(axis=1, dtype=np.int32)
        for each in (earlier[-1:] > 0, pieces, there.reshape(-1, rows.size + 1))
    )
    counts = [
        of_need[of, -1],
        of_some[0, high] - of_some[0, low],
        of_need[of, high] - of_need[of, low],
        of_there[own, high] - of_there[own, low],
        of_there[own, -1],
    ]

    def shares(own: Digit) -> list[list[int]]:
        made, read = own.made == "here", own.read == "here"
        either = made or read
        cuts = (read, made, either, either and (rows.adds or _alone(own)), read)
        return [[own.ways if cut else 1] for cut in cuts]

    scales = np.ones((5, 1)) * _outer(shares, kinds, ways)[..., 0].T
    return np.array(counts, np.float64).reshape(5, len(ways), parts), scales


def _together(having: NDArray[np.bool_], kinds: Kinds, ways: Numbers) -> NDArray[np.bool_]:
    """Return what owners have: all parts together of digits that divide nothing that is made."""
    for at, every in enumerate(kinds):
        shared = ~np.array([*map(_alone, every)])[ways[:, at]]
        outer = math.prod(own[0].ways for own in kinds[:at])
        parts = having.reshape(len(ways), outer, every[0].ways, -1)
        parts[shared] = parts[shared].any(axis=2, keepdims=True)
    return having


def _adding(
    pieces: NDArray[np.bool_],
    way: Numbers,
    of: Numbers,
    held: tuple[Numbers, Numbers],
    working: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return the rows that each piece of a way adds up: those that most parts that read it hold, then that lie deepest in it."""
    count, width = len(pieces), pieces.shape[1] + 1
    starts, ends = (
        np.bincount((of * width + bound + 1)[working], minlength=count * width).reshape(count, width)
        for bound in held
    )
    holders = (starts - ends).cumsum(axis=1)[:, :-1]
    rows = pieces.cumsum(axis=1)
    worth = holders * width + np.minimum(rows, rows[:, -1:] - rows + 1)
    # Of equals the first one.
    worth = pieces * (worth * count + np.arange(count, 0, -1)[:, None])
    best = np.maximum.reduceat(worth, np.flatnonzero(np.diff(way, prepend=-1)))
    found: NDArray[np.bool_] = pieces & (worth == best[way])
    return found


def _bounds(size: int, end: int, kinds: Kinds, ways: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first of the places of each part, and the one behind its last, ``[ways x parts]``."""
    first, last = np.zeros(len(ways), np.int64), np.full(len(ways), size)
    for every, at in zip(kinds, ways.T, strict=True):
        marks = np.array([_marks(own, end) for own in every])[at]
        marks = marks.repeat(len(first) // len(ways), axis=0)
        first, last = (
            (first[:, None] + ((last - first)[:, None] * own + TINY).astype(np.int64)).reshape(-1)
            for own in (marks[:, 0], marks[:, 1])
        )
    return first, last


def _marks(digit: Digit, end: int) -> tuple[Any, Any]:
    """Return where the parts of a digit start and end, as fractions."""
    ends = np.cumsum((0.0, *digit.of(end)))
    return (ends[:-1], ends[1:]) if digit[1 + end] == "here" else (0.0 * ends[1:], 0.0 * ends[1:] + 1.0)
