"""The rows of an image that the parts of some digits read, hold, and add up the error of, counted exactly.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.ops.windows import Window
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypar.ops.nest import Nest

Shares = tuple[float, ...]

Numbers = NDArray[np.int64]

Array = NDArray[np.float64]

WHOLE = Window(kernel=1)
"""The window of a place that reads its own row."""

TINY = 1e-9
"""Fraction of a row within which a bound is whole; other bounds are those of the rows before them."""


class Rows(NamedTuple):
    """A dim of an image between two layers.

    Attributes:
        window: the consumer's window.
        size: its inputs.
        places: its outputs.
        made: the producer's outputs.
        adds: whether the consumer adds up the error; otherwise its terms go to the producer.
    """

    window: Window
    size: int
    places: int
    made: int = 0
    adds: bool = True


Image = tuple[tuple[str, Rows], ...]
"""The dims of an image, by their names in the tensor."""


@lru_cache(maxsize=4096)
def image_of(
    nest: Nest,
    operand: str,
    shape: Iterable[tuple[str, float]],
    made: Nest | None = None,
    *,
    adds: bool = True,
) -> Image:
    """Return the image that a layer reads; of a device group, whose sizes may be real numbers, the next whole one."""
    reads = {dim: op for op, dim in nest.names[operand].items()}
    found = []
    for dim, size in shape:
        window = nest.windows.get(reads.get(dim, "")) if operand == "input" else None
        places = size if window is None else nest.sizes[reads[dim]]
        if dim in SPATIAL:
            before = round(made.sizes.get(dim, size)) if made else 0
            found.append((dim, Rows(window or WHOLE, round(size), max(1, round(places)), before, adds)))
    return tuple(found)


@lru_cache(maxsize=4096)
def fraction_read(image: Image) -> float:
    """Return the fraction of an image that windows read: below 1 if their stride leaves gaps, or rows at the end.

    Examples:
        >>> from hypar.ops.windows import Window
        >>> fraction_read((("height", Rows(Window(kernel=1, stride=2), 56, 28)),))
        0.5
    """
    return float(math.prod(np.count_nonzero(_before(rows)[-1]) / rows.size for _, rows in image))


class Digit(NamedTuple):
    """What both ends divide by a digit of a level, by an uneven split, or by the stages.

    Attributes:
        ways: the number of parts.
        made: the producer's dim of the tensor, ``COPIES`` or ``IDLE``; empty for one that is not of the image.
        read: the consumer's.
        terms: of a sum that goes straight to the consumer what its terms are divided by.
        shares: the producer's shares of the parts, and the consumer's; a part of none does not work for that end. None for equal ones.
        part: the only part that is counted; None for all.
    """

    ways: int
    made: str
    read: str
    terms: str | None = None
    shares: tuple[Shares, Shares] | None = None
    part: int | None = None

    @property
    def parts(self) -> list[Digit]:
        """The digit of which each part alone is counted."""
        return [self._replace(part=part) for part in range(self.ways)]

    def of(self, end: int) -> Shares:
        """Return the shares of an end, 0 for the producer."""
        if self.shares is not None:
            return self.shares[end]
        return (1.0, *(0.0,) * (self.ways - 1)) if self[1 + end] == IDLE else (1 / self.ways,) * self.ways

    def along(self, dim: str) -> Digit:
        """Return the digit as it divides one dim of an image."""
        if dim not in self[1:3]:
            return Digit(self.ways, "", "")
        made = self.made if self.made in {COPIES, IDLE} else ""
        ends = (
            "here" if self.made == dim else made,
            "here" if self.read == dim else IDLE * (self.read == IDLE),
        )
        return Digit(self.ways, *ends, None, self.shares)

    def weighted(self, image: tuple[str, ...]) -> Digit:
        """Return the digit as it divides other dims than those of an image; with nothing to tell where all parts have the same."""
        if {*image}.isdisjoint(self[1:3]) or not (self.shares or IDLE in self[1:3]):
            return Digit(self.ways, "", "")
        ends = ("here" if end in image else end for end in self[1:3])
        return Digit(self.ways, *ends, None, self.shares)


Digits = tuple[Digit, ...]

Kinds = tuple[Digits, ...]
"""For each digit what ways to cut an image may divide by it."""


def unequal(digits: Digits) -> float:
    """Return how many times an equal share of an image its consumer has by the shares of the parts that are counted."""
    return math.prod(
        own.ways * own.of(1)[own.part] for own in digits if own.part is not None and own.read in SPATIAL
    )


UNDIVIDED = Digit(1, "", "")
"""A digit of a single part."""


class Cuts(NamedTuple):
    """How the tuples of both ends above a level cut an image.

    Attributes:
        image: the image.
        digits: for each digit what tuples may divide by it.
        ways: which of these each way to cut the image does, ``[ways, digits]``.
        number: the way of each pair of tuples, ``[made, 1, read]``.
    """

    image: Image
    digits: tuple[Digits, ...] = ()
    ways: NDArray[np.int64] = np.zeros((1, 0), np.int64)
    number: NDArray[np.int64] = np.zeros((1, 1, 1), np.int64)

    @classmethod
    def of(cls, image: Image, digits: Digits) -> Cuts:
        """Return the cuts of one pair of tuples."""
        return cls(image, tuple([(own,) for own in digits]), np.zeros((1, len(digits)), np.int64))

    def below(self, every: Digits, which: NDArray[np.int64]) -> Cuts:
        """Return the cuts below a digit.

        Args:
            every: what pairs of tuples divide by it.
            which: which of these each pair does, ``[made, 1, read]``.
        """
        numbers = self.number * len(every) + which
        distinct, number = np.unique(numbers, return_inverse=True)
        above, own = np.divmod(distinct, len(every))
        ways = np.concatenate([self.ways[above], own[:, None]], axis=1)
        return Cuts(self.image, (*self.digits, every), ways, number.reshape(numbers.shape))

    @property
    def divided(self) -> Digits:
        """What the first way to cut the image divides of it."""
        each = (every[own] for every, own in zip(self.digits, self.ways[0].tolist(), strict=True))
        return tuple([own for own in each if own.made or own.read])

    @property
    def counts(self) -> Array:
        """The factors relative to those of equal shares without windows, of each pair of tuples, ``[factors, made, 1, read]``."""
        return _counted(self.image, self.digits, self.ways.tobytes())[:, self.number]


UNCUT = Cuts(())
"""The cuts of what is no image."""


def change(before: Array, after: Array) -> Array:
    """Return by how much counts are multiplied; nothing is left of nothing."""
    found = np.zeros(np.broadcast_shapes(before.shape, after.shape))
    return np.divide(after, before, out=found, where=before != 0.0)


@lru_cache(maxsize=2**16)
def ratios(image: Image, digits: Digits) -> Array:
    """Return the factors of the parts of some digits, outermost first, relative to those of equal shares without windows.

    An error is added up by one of the parts that read a row: by the one most of whose copies hold it, or in which it lies deepest.
    """
    return Cuts.of(image, digits).counts.reshape(-1)


@lru_cache(maxsize=1024)
def _counted(image: Image, digits: tuple[Digits, ...], ways: bytes) -> Array:
    """Return the same for some ways to cut an image, ``[factors, ways]``."""
    digits = digits or ((UNDIVIDED,),)
    every = np.frombuffer(ways or bytes(8), np.int64).reshape(-1, len(digits))
    need, hold, both, there, added = _means(image, digits, every)
    placed = met = one = np.ones(len(every))
    if any(own.terms is not None for known in digits for own in known):
        made = tuple([(dim, Rows(WHOLE, rows.made, rows.made, adds=False)) for dim, rows in image])
        terms = [
            tuple(
                [
                    own._replace(
                        read=own.made if own.terms is None else own.terms,
                        shares=own.shares and (own.shares[0],) * 2,
                    )
                    for own in known
                ]
            )
            for known in digits
        ]
        _, _, met, placed, _ = _means(made, terms, every)
    return np.array([need, hold, both, there, there, hold, one, one, placed, met, added])


def _means(image: Image, digits: Sequence[Digits], ways: Numbers) -> Array:
    """Return what the parts need, hold, and have of both, the errors that are where they lie, and are added up, ``[5, ways]``.

    Dims of which no digit divides two are counted by themselves; sums of whole rows are exact in any order.
    """
    names, sizes = tuple([dim for dim, _ in image]), [every[0].ways for every in digits]
    adds = any(rows.adds for _, rows in image)
    columns = [
        _column(partial(_along, rows), partial(Digit.along, dim=dim), digits, ways) for dim, rows in image
    ]
    columns.append(_column(partial(_others, adds), partial(Digit.weighted, image=names), digits, ways))
    means = np.prod([own.scale[:, own.which] for own in columns], axis=0)
    shared = np.sum([own.matters[own.which] for own in columns], axis=0) > 1
    shared |= [every[0].part is not None for every in digits]
    first, which = _distinct(shared)
    for group, together in enumerate(shared[first].tolist()):
        members = np.flatnonzero(which == group)
        alone = tuple([2 + at for at, own in enumerate(together) if not own])
        found = np.ones((5, len(members), *[1 if 2 + at in alone else own for at, own in enumerate(sizes)]))
        for own in columns:
            distinct, of = np.unique(own.which[members], return_inverse=True)
            found *= own.found[:, distinct].sum(axis=alone, keepdims=True)[:, of]
        found /= math.prod(sizes[at - 2] for at in alone) ** len(columns)
        means[:, members] *= _average(found, digits, adds=adds)
    return means


def _average(found: Array, digits: Sequence[Digits], *, adds: bool) -> Array:
    """Return the means of the parts that are counted."""
    axes, counted = tuple(range(2, found.ndim)), found
    for axis, (own, *_) in zip(axes, digits, strict=True):
        counted = counted if own.part is None else counted.take([own.part], axis=axis)
    means: Array = counted.mean(axis=axes)
    if counted is not found and not adds:
        # Groups own what they have as they have it.
        both, owned = found[2:4].mean(axis=axes)
        means[3] = owned * np.divide(means[2], both, out=np.zeros_like(both), where=both > 0)
    return means


class _Column(NamedTuple):
    """What parts have of one dim of an image, or of the other dims of the tensor, by distinct ways to cut it.

    Attributes:
        found: whole rows, ``[counts, distinct, *digits]``.
        scale: what makes them multiples of equal shares, ``[counts, distinct]``.
        matters: the digits by which parts differ, ``[distinct, digits]``.
        which: the distinct way of each way to cut the image.
    """

    found: Array
    scale: Array
    matters: NDArray[np.bool_]
    which: Numbers


def _column(
    counted: Callable[[Kinds, bytes], tuple[Array, Array]],
    reduced: Callable[[Digit], Digit],
    digits: Sequence[Digits],
    ways: Numbers,
) -> _Column:
    """Return one column, counted without the digits by which parts do not differ."""
    divided = [[*map(reduced, every)] for every in digits]
    kinds = sorted({own for every in divided for own in every}, key=str)
    places = [np.array([*map(kinds.index, every)]) for every in divided]
    each = np.stack([own[at] for own, at in zip(places, ways.T, strict=True)], axis=1)
    first, which = _distinct(each)
    each, sizes = each[first], np.array([every[0].ways for every in digits])
    matters = np.array([own != Digit(own.ways, "", "") for own in kinds])[each]
    # Those that matter come last.
    order = np.argsort(matters, axis=1, kind="stable")
    lengths = np.take_along_axis(np.where(matters, sizes, 1), order, axis=1)
    each = np.take_along_axis(np.where(matters, each, -1), order, axis=1)
    strides, start = np.empty_like(lengths), np.empty(len(each), np.int64)
    inner = np.cumprod(np.c_[lengths, np.ones_like(start)][:, :0:-1], axis=1)[:, ::-1]
    np.put_along_axis(strides, order, inner * (lengths > 1), axis=1)
    found, scale, total = [], np.empty((5, len(each))), 0
    begins, group_of = _distinct(lengths)
    for group in range(len(begins)):
        members = np.flatnonzero(group_of == group)
        distinct, of = _distinct(each[members])
        counts, scales = counted(*_used(kinds, each[members[distinct]]))
        start[members] = total + of * counts.shape[2]
        scale[:, members] = scales[:, of]
        found.append(counts.reshape(5, -1))
        total += found[-1].shape[1]
    at_part = start[:, None] + strides @ np.indices(sizes).reshape(len(sizes), -1)
    shape = (5, len(each), *sizes.tolist())
    return _Column(np.concatenate(found, axis=1)[:, at_part].reshape(shape), scale, matters, which)


def _distinct(rows: Numbers | NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Return the first of equal rows of small numbers, in ascending order, and which of these each row is."""
    small = np.ascontiguousarray(rows, np.int32 if rows.dtype != bool else None)
    _, first, which = np.unique(
        small.view(f"V{small[0].nbytes}").reshape(-1), return_index=True, return_inverse=True
    )
    return first, which.reshape(-1)


def _used(kinds: Sequence[Digit], each: Numbers) -> tuple[Kinds, bytes]:
    """Return for each digit that matters the kinds that some ways use of it, and which of these each way does."""
    every, places = list[Digits](), []
    for at in each.T:
        used, own = np.unique(at, return_inverse=True)
        if used[0] >= 0:
            every.append(tuple([kinds[kind] for kind in used.tolist()]))
            places.append(own.reshape(-1))
    return tuple(every), np.stack(places, axis=1).tobytes() if places else b""


def _by_digits(kinds: Kinds, numbers: bytes) -> Numbers:
    """Return ways as an array, ``[ways, digits]``; one without digits."""
    return np.frombuffer(numbers, np.int64).reshape(-1, len(kinds)) if kinds else np.zeros((1, 0), np.int64)


def _outer(of: Callable[[Digit], Any], kinds: Kinds, ways: Numbers) -> Array:
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
def _others(adds: bool, kinds: Kinds, numbers: bytes) -> tuple[Array, Array]:
    """Return what the parts of some ways have of other dims than an image's; as below."""
    found = _outer(partial(_of_others, adds=adds), kinds, _by_digits(kinds, numbers)).swapaxes(0, 1)
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
def _along(rows: Rows, kinds: Kinds, numbers: bytes) -> tuple[Array, Array]:
    """Return the rows of a dim that the parts of some ways have, ``[counts, ways, parts]``, and the scales, ``[counts, ways]``."""
    ways, before = _by_digits(kinds, numbers), _before(rows)
    parts = math.prod(every[0].ways for every in kinds)
    (first, last), (low, high) = (
        _bounds(size, end, kinds, ways) for end, size in ((1, rows.places), (0, rows.size))
    )
    working = _outer(lambda own: [np.minimum(own.of(0), own.of(1)) > 0], kinds, ways).reshape(-1) > 0
    # Pieces are the distinct rows that parts read.
    _, at, interval = np.unique(first * (rows.places + 1) + last, return_index=True, return_inverse=True)
    need = before[first[at]] != before[last[at]]
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
        for each in (before[-1:] > 0, pieces, there.reshape(-1, rows.size + 1))
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

    scales = np.ones((5, 1)) * _outer(shares, kinds, ways)[..., 0].T / max(of_some[0, -1], 1)
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
    if digit[1 + end] != "here":
        return (0.0,) * digit.ways, (1.0,) * digit.ways
    marks = np.cumsum((0.0, *digit.of(end)))
    return marks[:-1], marks[1:]


@lru_cache(maxsize=1024)
def _before(rows: Rows) -> Numbers:
    """Return how many of the places before each one read each row, ``[places + 1, 1 + rows]``; the first column is of no row."""
    taps = rows.window.taps(rows.size, np.arange(rows.places))
    found = np.zeros((rows.places + 1, rows.size + 1), np.int32)
    place, tap = np.nonzero(taps >= 0)
    found[place + 1, taps[place, tap] + 1] = 1
    return found.cumsum(axis=0, dtype=np.int32)
