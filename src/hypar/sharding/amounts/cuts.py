"""The digits by which two layers divide an image, and what parts read, hold, and add up the error of.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.amounts.transfers import EVERY_ROW, OUTERMOST, Factors, Image, Rows, before, mapped
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, TINY, Numbers
from hypar.solve.edge import Costs

Mask = NDArray[np.bool_]


Shares = tuple[float, ...]


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
    def of_terms(self) -> Digit:
        """The digit as it divides the terms of a sum, and the places to which that goes."""
        shares = self.shares and (self.shares[0],) * 2
        return self._replace(read=self.made if self.terms is None else self.terms, shares=shares)

    def of(self, end: int) -> Shares:
        """Return the shares of an end, 0 for the producer."""
        if self.shares is not None:
            return self.shares[end]
        return (1.0, *(0.0,) * (self.ways - 1)) if self[1 + end] == IDLE else (1 / self.ways,) * self.ways

    def within(self, dims: tuple[str, ...]) -> Digit:
        """Return the digit with ``here`` for some dims of an image; one by which no parts differ if it divides none of these."""
        if {*dims}.isdisjoint(self[1:3]):
            return Digit(self.ways, "", "")
        made, read = ("here" if end in dims else end if end in {COPIES, IDLE} else "" for end in self[1:3])
        return Digit(self.ways, made, read, None, self.shares)

    def weighted(self, dims: tuple[str, ...]) -> Digit:
        """Return the same for the other dims of the tensor, of which parts of equal shares have the same."""
        return self.within(dims if self.shares or IDLE in self[1:3] else ())


Digits = tuple[Digit, ...]


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
    ways: Numbers = np.zeros((1, 0), np.int64)
    number: Numbers = np.zeros((1, 1, 1), np.int64)

    @classmethod
    def of(cls, image: Image, digits: Digits) -> Cuts:
        """Return the cuts of one pair of tuples."""
        return cls(image, tuple([(own,) for own in digits]), np.zeros((1, len(digits)), np.int64))

    def below(self, every: Digits, which: Numbers) -> Cuts:
        """Return the cuts below a digit.

        Args:
            every: what pairs of tuples divide by it.
            which: which of these each pair does, ``[made, 1, read]``.
        """
        numbers = self.number * len(every) + which
        found = np.bincount(numbers.reshape(-1)) > 0
        above, own = np.divmod(np.flatnonzero(found), len(every))
        ways = np.concatenate([self.ways[above], own[:, None]], axis=1)
        return Cuts(self.image, (*self.digits, every), ways, (np.cumsum(found) - 1)[numbers])

    @property
    def divided(self) -> Digits:
        """What the first way to cut the image divides of it."""
        each = (every[own] for every, own in zip(self.digits, self.ways[0].tolist(), strict=True))
        return tuple([own for own in each if own.made or own.read])

    @property
    def factors(self) -> Factors:
        """The factors relative to those of equal shares without windows, of each pair of tuples, ``[made, 1, read]``."""
        return mapped(lambda own: own[self.number], _counted(self.image, self.digits, self.ways.tobytes()))


class Above(NamedTuple):
    """What the levels above leave of a tensor.

    Attributes:
        products: the products of their factors.
        image: the image that it is, if it is one.
        digits: what they divide of it.
    """

    products: Factors = OUTERMOST
    image: Image = ()
    digits: Digits = ()

    @property
    def cuts(self) -> Cuts:
        """The image with its only cuts."""
        return Cuts.of(self.image, self.digits)

    def parted(self, digit: Digit | None, groups: int) -> list[Above]:
        """Return what a split leaves of the image to each group."""
        parts = [digit._replace(part=part) for part in range(groups)] if digit else ()
        return [self._replace(digits=(*self.digits, part)) for part in parts] or [self] * groups


def unequal(digits: Digits) -> float:
    """Return how many times an equal share of an image its consumer has by the shares of the parts that are counted."""
    return math.prod(
        own.ways * own.of(1)[own.part] for own in digits if own.part is not None and own.read in SPATIAL
    )


def change(before: Any, after: Any) -> Any:
    """Return by how much factors are multiplied; nothing is left of nothing."""
    found = np.zeros(np.broadcast_shapes(np.shape(before), np.shape(after)))
    return np.divide(after, before, out=found, where=np.not_equal(before, 0.0))


@lru_cache(maxsize=2**16)
def ratios(image: Image, digits: Digits) -> Factors:
    """Return the factors of the parts of some digits, outermost first, relative to those of equal shares without windows.

    An error is added up by one of the parts that read a row: by the one most of whose copies hold it, or in which it lies deepest.
    """
    return mapped(lambda own: own.item(), Cuts.of(image, digits).factors)


@lru_cache(maxsize=1024)
def _counted(image: Image, digits: tuple[Digits, ...], ways: bytes) -> Factors:
    """Return the same for some ways to cut an image, ``[ways]``."""
    if not digits:
        return Factors(*[np.ones(1)] * len(Factors._fields))
    need, hold, both, there, added = _averages(image, digits, ways)
    terms = left = placed = met = np.ones_like(need)
    if any(own.terms is not None for known in digits for own in known):
        made = tuple([(dim, Rows(EVERY_ROW, rows.made, rows.made, adds=False)) for dim, rows in image])
        of_terms = tuple([tuple([own.of_terms for own in known]) for known in digits])
        terms, left, met, placed, _ = _averages(made, of_terms, ways)
    return Factors(need, hold, both, there, there, hold, terms, left, placed, met, added)


def _averages(image: Image, digits: tuple[Digits, ...], ways: bytes) -> Costs:
    """Return what the parts of some ways to cut an image have on average, as multiples of equal shares, ``[counts, ways]``.

    The counts are what they need, hold, and have of both, what there is of errors where they lie, and what is added up. Sums
    of whole rows are exact in any order.
    """
    adds, whole = any(rows.adds for _, rows in image), math.prod(rows.read for _, rows in image)
    columns = [(partial(Digit.within, dims=(dim,)), partial(_along, rows)) for dim, rows in image]
    others = partial(Digit.weighted, dims=tuple([dim for dim, _ in image]))
    every = [
        _column(*own, digits, np.frombuffer(ways, np.int64).reshape(-1, len(digits)))
        for own in (*columns, (others, partial(_others, adds)))
    ]
    sizes = np.array([counts.shape[2:] for counts, _ in every])
    only = [own.part for own, *_ in digits]
    # A digit that divides one column is summed there.
    alone = [(own > 1).sum() == 1 and part is None for own, part in zip(sizes.T, only, strict=True)]
    axes = tuple(2 + np.flatnonzero(alone))
    found = reduce(mul, (own.sum(axis=axes, keepdims=True)[:, which] for own, which in every))
    parts = math.prod(own for own, part in zip(sizes.max(axis=0).tolist(), only, strict=True) if part is None)
    return np.asarray(_summed(found, only, adds=adds) / (parts * max(whole, 1)))


def _column(
    reduced: Callable[[Digit], Digit],
    counted: Callable[[tuple[Digits, ...], bytes], Costs],
    digits: Sequence[Digits],
    ways: Numbers,
) -> tuple[Costs, Numbers]:
    """Return what the parts of the distinct ways to cut one dim of an image, or the other dims of the tensor, have of it.

    Returns:
        The counts, ``[counts, distinct, *digits]``, of one part for a digit by which none differ; and which of these each way has.
    """
    kinds, each = list[Digits](), np.empty_like(ways)
    for at, every in enumerate(digits):
        divided = [*map(reduced, every)]
        own = tuple(dict.fromkeys(divided))
        each[:, at] = np.array([*map(own.index, divided)])[ways[:, at]]
        same = own == (Digit(own[0].ways, "", ""),) and every[0].part is None
        kinds.append((Digit(1, "", ""),) if same else own)
    first, which = _distinct(each)
    counts = counted(tuple(kinds), each[first].tobytes())
    return counts.reshape(*counts.shape[:2], *[own.ways for own, *_ in kinds]), which


def _summed(found: Costs, only: Sequence[int | None], *, adds: bool) -> Costs:
    axes = tuple(range(2, found.ndim))
    counted = [slice(None) if own is None else slice(own, own + 1) for own in only]
    sums: Costs = found[(..., *counted)].sum(axis=axes)
    if {*only} != {None} and not adds:
        # Groups own what they have as they have it.
        both, owned = found[2:4].sum(axis=axes)
        sums[3] = owned * np.divide(sums[2], both, out=np.zeros_like(both), where=both > 0)
    return sums


def _distinct(rows: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return the first of equal rows, in ascending order of their bytes, and which of these each row is."""
    rows = np.ascontiguousarray(rows)
    keys = rows.view(f"V{rows[0].nbytes}").reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _outer(of: Callable[[Digit], Any], kinds: tuple[Digits, ...], ways: Numbers) -> Costs:
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
def _others(adds: bool, kinds: tuple[Digits, ...], numbers: bytes) -> Costs:
    """Return what the parts of some ways have of other dims than an image's, ``[counts, ways, parts]``."""
    ways = np.frombuffer(numbers, np.int64).reshape(-1, len(kinds))
    return _outer(partial(_of_others, adds=adds), kinds, ways).swapaxes(0, 1)


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
def _along(rows: Rows, kinds: tuple[Digits, ...], numbers: bytes) -> Costs:
    """Return the rows of a dim that the parts of some ways have, times the parts that divide these, ``[counts, ways, parts]``."""
    ways, earlier = np.frombuffer(numbers, np.int64).reshape(-1, len(kinds)), before(rows)
    parts = math.prod(every[0].ways for every in kinds)
    ends = (1, rows.places), (0, rows.size)
    (first, last), (low, high) = (_bounds(size, end, kinds, ways) for end, size in ends)
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
    rows_of = [
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

    counts: Costs = np.array(rows_of, np.float64).reshape(5, len(ways), parts)
    return counts * _outer(shares, kinds, ways).swapaxes(0, 1)


def _together(having: Mask, kinds: tuple[Digits, ...], ways: Numbers) -> Mask:
    """Return what owners have: all parts together of digits that divide nothing that is made."""
    for at, every in enumerate(kinds):
        shared = ~np.array([*map(_alone, every)])[ways[:, at]]
        outer = math.prod(own[0].ways for own in kinds[:at])
        parts = having.reshape(len(ways), outer, every[0].ways, -1)
        parts[shared] = parts[shared].any(axis=2, keepdims=True)
    return having


def _adding(pieces: Mask, way: Numbers, of: Numbers, held: tuple[Numbers, Numbers], working: Mask) -> Mask:
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
    found: Mask = pieces & (worth == best[way])
    return found


def _bounds(size: int, end: int, kinds: tuple[Digits, ...], ways: Numbers) -> tuple[Numbers, Numbers]:
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
