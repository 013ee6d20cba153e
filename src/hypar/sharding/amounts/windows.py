"""The rows of an image that the parts of some digits read, hold, and add up the error of, counted exactly.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import product
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

Bounds = NDArray[np.int64]

WHOLE = Window(kernel=1)
"""The window of a place that reads its own row."""

MOST = 2**12
"""Ways to cut an image that are counted at once."""

CELLS = 2**22
"""Rows of parts that are counted at once."""

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
        even = not self.shares and IDLE not in self[1:3]
        return (
            Digit(self.ways, "", "")
            if even or not {*image} & {*self[1:3]}
            else self._replace(terms=None, part=None)
        )


Digits = tuple[Digit, ...]

Kinds = list[list[Digit]]
"""For each digit what ways to cut an image may divide by it."""


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
    found, names = np.ones((len(ways), 6, 1)), tuple([dim for dim, _ in image])
    each_of: list[tuple[Callable[[Digit], Digit], Callable[[Kinds, Bounds], NDArray[np.float64]]]] = [
        *((partial(Digit.along, dim=dim), partial(_along, rows)) for dim, rows in image),
        (partial(Digit.weighted, image=names), partial(_outer, partial(_of_others, image=names))),
    ]
    for reduced, parts_of in each_of:
        column, kinds = np.zeros(len(ways), np.int64), list[list[Digit]]()
        places = np.empty_like(ways)
        for at, every in enumerate(digits):
            known: dict[Digit, int] = {}
            place = np.array([known.setdefault(reduced(own), len(known)) for own in every])
            kinds.append([*known])
            places[:, at] = place[ways[:, at]]
            column = column * len(known) + places[:, at]
        _, first, which = np.unique(column, return_index=True, return_inverse=True)
        found = found * parts_of(kinds, places[first])[which]
    means: NDArray[np.float64] = found.mean(axis=-1)
    if any(every[0].part is not None for every in digits):
        parts = product(*[[every[0].part in {None, at} for at in range(every[0].ways)] for every in digits])
        means = found[..., np.array([*map(all, parts)])].mean(axis=-1)
        # Groups own what they have as they have it.
        both = found[:, 2].mean(axis=-1)
        times = np.divide(means[:, 2], both, out=np.zeros_like(both), where=both > 0)
        means[:, 3] = found[:, 3].mean(axis=-1) * times
    return means.T


def _outer(of: Callable[[Digit], Any], kinds: Kinds, ways: Bounds) -> NDArray[np.float64]:
    """Return the products of what the parts of each digit have, ``[ways, counts, parts]``."""
    found = np.ones((len(ways), 1, 1))
    for every, at in zip(kinds, ways.T, strict=True):
        found = found[..., None] * np.array([of(own) for own in every], float)[at, :, None]
        found = found.reshape(*found.shape[:2], -1)
    return found


def _alone(digit: Digit) -> bool:
    """Return whether parts have owners of their own, and not one together as where nothing that is made is divided."""
    return digit.made not in {COPIES, IDLE}


def _of_others(digit: Digit, image: tuple[str, ...]) -> list[list[float]]:
    """Return what each part has of other dims than an image's, as a multiple of an equal share, ``[6, parts]``."""
    hold, need = (
        [float(share > 0) if dim in {COPIES, IDLE, *image} else share * digit.ways for share in digit.of(end)]
        for end, dim in enumerate(digit[1:3])
    )
    found = [need, hold, [*map(mul, need, hold)]]
    if IDLE in digit[1:3]:
        # Factors count idle devices; and no part of the stages has both.
        found = [[one * len(own) / max(sum(own), TINY) for one in own] for own in found]
    need, hold, both = found
    return [need, hold, both, both if _alone(digit) else [max(both)] * digit.ways, both, need]


def _along(rows: Rows, kinds: Kinds, ways: Bounds) -> NDArray[np.float64]:
    """Return what each part has of a dim, as a multiple of its share; of owned rows its owner, ``[ways, counts, parts]``."""
    parts = math.prod(every[0].ways for every in kinds)
    most = max(1, CELLS // (parts * (rows.size + 1)))
    if len(ways) > most:
        every = np.split(ways, range(most, len(ways), most))
        return np.concatenate([_along(rows, kinds, own) for own in every])
    before = _before(rows)
    (first, last), (low, high) = (
        _bounds(size, end, kinds, ways) for end, size in ((1, rows.places), (0, rows.size))
    )
    working = _outer(lambda own: [np.minimum(own.of(0), own.of(1)) > 0], kinds, ways).reshape(-1) > 0
    some, need = before[-1:] > 0, before[first] != before[last]
    # Pieces are the distinct rows that parts of one way read.
    way = np.arange(len(ways)).repeat(parts)
    bits = np.hstack([way.astype(">u4").view(np.uint8).reshape(-1, 4), np.packbits(need, axis=1)])
    _, found, of = np.unique(bits.view(f"S{bits.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    pieces, owned = need[found], need & working[:, None]
    for at, every in enumerate(kinds):
        shared = np.array([not _alone(own) for own in every])[ways[:, at]]
        together = owned.reshape(len(ways), math.prod(own[0].ways for own in kinds[:at]), every[0].ways, -1)
        together[shared] = together[shared].any(axis=2, keepdims=True)
    adding = _adding(pieces, way[found], of, (low, high), working)
    of_some, of_need, of_owned, of_adding = (
        own.cumsum(axis=1, dtype=np.int32) for own in (some, pieces, owned, adding)
    )
    part = np.arange(len(need))
    counts = [
        of_need[of, -1],
        of_some[0, high] - of_some[0, low],
        of_need[of, high] - of_need[of, low],
        of_owned[part, high] - of_owned[part, low],
        of_adding[of, high] - of_adding[of, low],
        of_adding[of, -1],
    ]

    def shares(own: Digit) -> list[list[int]]:
        made, read = own.made == "here", own.read == "here"
        either = made or read
        cuts = (read, made, either, either and _alone(own), either, read)
        return [[own.ways if cut else 1] for cut in cuts]

    each = np.stack([own.reshape(len(ways), -1) for own in counts], axis=1)
    return each * (_outer(shares, kinds, ways) / max(some.sum(), 1))


def _adding(
    pieces: NDArray[np.bool_],
    way: Bounds,
    of: Bounds,
    held: tuple[Bounds, Bounds],
    working: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return the rows that each piece of a way adds up: those that most parts that read it hold, then that lie deepest in it."""
    count, width = len(pieces), pieces.shape[1] + 1
    starts, ends = (
        np.bincount(of * width + bound + 1, working, count * width).reshape(count, width) for bound in held
    )
    holders = (starts - ends).cumsum(axis=1)[:, :-1]
    rows = pieces.cumsum(axis=1)
    worth = holders * width + np.minimum(rows, rows[:, -1:] - rows + 1)
    # Of equals the first one.
    worth = pieces * (worth * count + np.arange(count, 0, -1)[:, None])
    best = np.maximum.reduceat(worth, np.flatnonzero(np.diff(way, prepend=-1)))
    found: NDArray[np.bool_] = pieces & (worth == best[way])
    return found


def _bounds(size: int, end: int, kinds: Kinds, ways: Bounds) -> tuple[Bounds, Bounds]:
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
def _before(rows: Rows) -> Bounds:
    """Return how many of the places before each one read each row, ``[places + 1, 1 + rows]``; the first column is of no row."""
    taps = rows.window.taps(rows.size, np.arange(rows.places))
    found = np.zeros((rows.places + 1, rows.size + 1), np.int32)
    place, tap = np.nonzero(taps >= 0)
    found[place + 1, taps[place, tap] + 1] = 1
    return found.cumsum(axis=0, dtype=np.int32)
