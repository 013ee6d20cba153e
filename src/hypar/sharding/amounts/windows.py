"""The rows of an image that the parts of some digits read, hold, and add up the error of, counted exactly.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache, partial, reduce
from itertools import accumulate, compress, pairwise, product
from operator import and_, mul, or_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.ops.windows import Window
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.ops.nest import Nest

Shares = tuple[float, ...]

WHOLE = Window(kernel=1)
"""The window of a place that reads its own row."""

MOST = 2**12
"""Ways to cut an image that are counted at once."""

TINY = 1e-9
"""Fraction of a row within which a bound is whole; other bounds are those of the rows before them."""


class Rows(NamedTuple):
    """A dim of an image between two layers: the consumer's window, its inputs, its outputs; and the producer's outputs."""

    window: Window
    size: int
    places: int
    made: int = 0


Image = tuple[tuple[str, Rows], ...]
"""The dims of an image, by their names in the tensor."""


@lru_cache(maxsize=4096)
def image_of(nest: Nest, operand: str, shape: Iterable[tuple[str, float]], made: Nest | None = None) -> Image:
    """Return the image that a layer reads; of a device group, whose sizes may be real numbers, the next whole one."""
    reads = {dim: op for op, dim in nest.names[operand].items()}
    found = []
    for dim, size in shape:
        window = nest.windows.get(reads.get(dim, "")) if operand == "input" else None
        places = size if window is None else nest.sizes[reads[dim]]
        if dim in SPATIAL:
            before = round(made.sizes.get(dim, size)) if made else 0
            found.append((dim, Rows(window or WHOLE, round(size), max(1, round(places)), before)))
    return tuple(found)


@lru_cache(maxsize=4096)
def fraction_read(image: Image) -> float:
    """Return the fraction of an image that windows read: below 1 if their stride leaves gaps, or rows at the end.

    Examples:
        >>> from hypar.ops.windows import Window
        >>> fraction_read((("height", Rows(Window(kernel=1, stride=2), 56, 28)),))
        0.5
    """
    return math.prod(reduce(or_, _taps(rows)).bit_count() / rows.size for _, rows in image)


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
        even = not self.shares and IDLE not in self[1:3]
        return (
            Digit(self.ways, "", "")
            if even or not {*image} & {*self[1:3]}
            else self._replace(terms=None, part=None)
        )


Digits = tuple[Digit, ...]


def unequal(digits: Digits) -> float:
    """Return how many times an equal share of an image its consumer has by the shares of the parts that are counted."""
    return math.prod(
        own.ways * own.of(1)[own.part] for own in digits if own.part is not None and own.read in SPATIAL
    )


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
    def counts(self) -> NDArray[np.float64]:
        """The factors relative to those of equal shares without windows, of each pair of tuples, ``[factors, made, 1, read]``."""
        return _counted(self.image, self.digits, self.ways.tobytes())[:, self.number]


UNCUT = Cuts(())
"""The cuts of what is no image."""


def change(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much counts are multiplied; nothing is left of nothing."""
    found = np.zeros(np.broadcast_shapes(before.shape, after.shape))
    return np.divide(after, before, out=found, where=before != 0.0)


@lru_cache(maxsize=2**16)
def ratios(image: Image, digits: Digits) -> NDArray[np.float64]:
    """Return the factors of the parts of some digits, outermost first, relative to those of equal shares without windows.

    An error is added up by one of the parts that read a row: by the one most of whose copies hold it, or in which it lies deepest.
    """
    return Cuts.of(image, digits).counts.reshape(-1)


@lru_cache(maxsize=1024)
def _counted(image: Image, digits: tuple[Digits, ...], ways: bytes) -> NDArray[np.float64]:
    """Return the same for some ways to cut an image, ``[factors, ways]``."""
    every = np.frombuffer(ways, np.int64).reshape(-1, len(digits)) if digits else np.zeros((1, 0), np.int64)
    parts = np.split(every, range(MOST, len(every), MOST))
    need, hold, both, owned, back, added = np.concatenate(
        [_means(image, digits, own) for own in parts], axis=1
    )
    placed = met = one = np.ones(len(every))
    if any(own.terms is not None for known in digits for own in known):
        made = tuple([(dim, Rows(WHOLE, rows.made, rows.made)) for dim, rows in image])
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
        _, _, met, placed, _, _ = np.concatenate([_means(made, terms, own) for own in parts], axis=1)
    return np.array([need, hold, both, back, owned, hold, one, one, placed, met, added])


def _means(image: Image, digits: Sequence[Digits], ways: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what the parts need, hold, have of both, own, hold and add up, and add up on average, ``[6, ways]``."""
    shape = [every[0].ways for every in digits]
    found = np.ones((6, len(ways), math.prod(shape)))
    names = tuple([dim for dim, _ in image])
    each_of: list[tuple[Callable[[Digit], Digit], Callable[..., Any], Any]] = [
        *((partial(Digit.along, dim=dim), _spread, rows) for dim, rows in image),
        (partial(Digit.weighted, image=names), _weights, names),
    ]
    for reduced, parts_of, about in each_of:
        column, kinds = np.zeros(len(ways), np.int64), list[list[Digit]]()
        places = np.empty_like(ways)
        for at, every in enumerate(digits):
            known: dict[Digit, int] = {}
            place = np.array([known.setdefault(reduced(own), len(known)) for own in every])
            kinds.append([*known])
            places[:, at] = place[ways[:, at]]
            column = column * len(known) + places[:, at]
        _, first, which = np.unique(column, return_index=True, return_inverse=True)
        rows = [
            tuple([of[own] for of, own in zip(kinds, row, strict=True)]) for row in places[first].tolist()
        ]
        found *= np.array([parts_of(about, own) for own in rows])[which].swapaxes(0, 1)
    means: NDArray[np.float64] = found.mean(axis=-1)
    if any(every[0].part is not None for every in digits):
        parts = product(*[[every[0].part in {None, at} for at in range(every[0].ways)] for every in digits])
        means = found[..., np.array([*map(all, parts)])].mean(axis=-1)
        # Groups own what they have as they have it.
        both = found[2].mean(axis=-1)
        means[3] = found[3].mean(axis=-1) * np.divide(means[2], both, out=np.zeros_like(both), where=both > 0)
    return means


@lru_cache(maxsize=4096)
def _spread(rows: Rows, digits: Digits) -> NDArray[np.float64]:
    """Return what each part has of a dim, ``[6, parts]``."""
    array = _along(rows, tuple([own for own in digits if "here" in own[1:3]]))
    shape = [own.ways for own in digits]
    wide = [own.ways if "here" in own[1:3] else 1 for own in digits]
    return np.broadcast_to(array.reshape(6, *wide), (6, *shape)).reshape(6, -1)


@lru_cache(maxsize=4096)
def _weights(image: tuple[str, ...], digits: Digits) -> NDArray[np.float64]:
    """Return what each part needs, holds and so on of other dims than an image's, ``[6, parts]``."""
    found = np.ones((6, 1))
    for digit in digits:
        need, hold, both = np.array(_of_others(digit, image))
        owned = both if _alone(digit) else np.full_like(both, both.max())
        each = np.array([need, hold, both, owned, both, need])
        found = (found[:, :, None] * each[:, None]).reshape(6, -1)
    return found


def _alone(digit: Digit) -> bool:
    """Return whether parts have owners of their own, and not one together as where nothing that is made is divided."""
    return digit.made not in {COPIES, IDLE}


@lru_cache(maxsize=4096)
def _of_others(digit: Digit, image: tuple[str, ...]) -> list[list[float]]:
    """Return what each part needs, holds, and both of other dims than an image's, as a multiple of an equal share, ``[3, parts]``."""
    hold, need = (
        [float(share > 0) if dim in {COPIES, IDLE, *image} else share * digit.ways for share in digit.of(end)]
        for end, dim in enumerate(digit[1:3])
    )
    found = [need, hold, [*map(mul, need, hold)]]
    if IDLE in digit[1:3]:
        # Factors count idle devices; and no part of the stages has both.
        found = [[one * len(own) / max(sum(own), TINY) for one in own] for own in found]
    return found


@lru_cache(maxsize=4096)
def _along(rows: Rows, digits: Digits) -> NDArray[np.float64]:
    """Return for each count what each part has of a dim, ``[6, parts of each digit]``, as a multiple of its share; of owned ones its owner."""
    taps = _taps(rows)
    some, shape = reduce(or_, taps), [own.ways for own in digits]
    have = [held & some for held in _pieces(_taps(Rows(WHOLE, rows.size, rows.size)), digits, 0)]
    need = _pieces(taps, digits, 1)
    works = product(*[[min(each) > 0 for each in zip(own.of(0), own.of(1), strict=True)] for own in digits])
    both, at_work = [*map(and_, have, need)], [*map(all, works)]
    holders = dict[int, Counter[int]]()
    for (piece, held), number in Counter(compress(zip(need, have, strict=True), at_work)).items():
        holders.setdefault(piece, Counter())[held] = number
    adding = _owners(rows.size, {piece: holders.get(piece, Counter()) for piece in need})
    own = [adding[piece] for piece in need]
    owned: Any = np.array(
        [one * working for one, working in zip(both, at_work, strict=True)], object
    ).reshape(shape)
    for at in range(len(digits)):
        owned = owned if _alone(digits[at]) else np.bitwise_or.reduce(owned, axis=at, keepdims=True)
    of_owner = np.broadcast_to(owned, shape).reshape(-1).tolist()
    made, read = ([part[1 + end] == "here" for part in digits] for end in (0, 1))
    either = [*map(or_, made, read)]
    counts = (need, have, both, of_owner, [*map(and_, have, own)], own)
    cuts = (read, made, either, [*map(and_, either, map(_alone, digits))], either, read)
    each = [[mask.bit_count() for mask in masks] for masks in counts]
    shares = [math.prod(compress(shape, cut)) / max(some.bit_count(), 1) for cut in cuts]
    return np.reshape(np.array(each) * np.array(shares)[:, None], (6, *shape))


def _owners(size: int, holders: Mapping[int, Counter[int]]) -> dict[int, int]:
    """Return the rows that each piece adds up, for how often parts that read a piece hold some rows."""
    pieces = sorted(holders)
    once = twice = 0
    for piece in pieces:
        once, twice = once | piece, twice | (once & piece)
    found = {piece: piece & ~twice for piece in pieces}

    def worth(piece: int, row: int) -> tuple[int, int]:
        """Return how many hold a row, and how deep it lies in a piece."""
        deep = min((piece >> row).bit_count(), (piece & ((2 << row) - 1)).bit_count())
        return sum(number for held, number in holders[piece].items() if held >> row & 1), deep

    for row in range(size):
        if twice >> row & 1:
            found[max([own for own in pieces if own >> row & 1], key=partial(worth, row=row))] |= 1 << row
    return found


def _pieces(taps: Sequence[int], digits: Digits, end: int) -> list[int]:
    """Return the rows of each part, for those of each place of a dim."""
    found = [taps]
    for own in digits:
        bounds = [(0.0, 1.0)] * own.ways
        if own[1 + end] == "here":
            bounds = [*pairwise(accumulate(own.of(end), initial=0.0))]
        found = [
            piece[int(len(piece) * low + TINY) : int(len(piece) * high + TINY)]
            for piece in found
            for low, high in bounds
        ]
    return [reduce(or_, piece, 0) for piece in found]


@lru_cache(maxsize=1024)
def _taps(rows: Rows) -> tuple[int, ...]:
    """Return the rows that each output reads, the first one as the highest bit."""
    taps = rows.window.taps(rows.size, np.arange(rows.places)).tolist()
    return tuple([reduce(or_, [1 << (rows.size - 1 - tap) for tap in own if tap >= 0], 0) for own in taps])
