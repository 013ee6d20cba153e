"""The rows of an image that the parts of some digits read, hold, and add up the error of, counted exactly.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import lru_cache, partial, reduce
from itertools import accumulate, compress, pairwise, product
from operator import and_, mul, or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.ops.windows import Window
from hypar.sharding.amounts.between import Factors, mapped
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.ops.nest import Nest

Shares = tuple[float, ...]

WHOLE = Window(kernel=1)
"""The window of a place that reads its own row."""

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
        made: the producer's dim of the tensor, ``COPIES`` or ``IDLE``; empty for one that is not of the image.
        read: the consumer's.
        shares: the producer's shares of the parts, and the consumer's; a part of none does not work for that end.
        part: the only part that is counted; None for all.
        terms: of a sum that goes straight to the consumer what its terms are divided by.
    """

    made: str
    read: str
    shares: tuple[Shares, Shares]
    part: int | None = None
    terms: str | None = None

    @property
    def parts(self) -> list[Digit]:
        """The digit of which each part alone is counted."""
        return [self._replace(part=part) for part in range(len(self.shares[0]))]


def even(ways: int, made: str, read: str) -> tuple[Shares, Shares]:
    """Return equal shares of a digit for both ends; an idle one has everything in the first part."""
    first, equal = (1.0,) + (0.0,) * (ways - 1), (1 / ways,) * ways
    return first if made == IDLE else equal, first if read == IDLE else equal


Digits = tuple[Digit, ...]


def unequal(digits: Digits) -> float:
    """Return how many times an equal share of an image its consumer has by the shares of the parts that are counted."""
    each = ((own.shares[1], own.part) for own in digits if own.part is not None and own.read in SPATIAL)
    return math.prod(len(shares) * shares[part] for shares, part in each)


class Cuts(NamedTuple):
    """How the tuples of both ends above a level cut an image.

    Attributes:
        image: the image.
        digits: the digits of each way to cut it.
        number: which of these each pair of tuples has, ``[made, 1, read]``.
    """

    image: Image
    digits: tuple[Digits, ...] = ((),)
    number: NDArray[np.int64] = np.zeros((1, 1, 1), np.int64)

    def below(self, every: Sequence[Digit | None], which: NDArray[np.int64]) -> Cuts:
        """Return the cuts below a digit.

        Args:
            every: what pairs of tuples divide by it; None for nothing of the image.
            which: which of these each pair does, ``[made, 1, read]``.
        """
        numbers = self.number * len(every) + which
        distinct, number = np.unique(numbers, return_inverse=True)
        pairs = [divmod(one, len(every)) for one in distinct.tolist()]
        digits = [(*self.digits[above], *filter(None, [every[own]])) for above, own in pairs]
        return Cuts(self.image, tuple(digits), number.reshape(numbers.shape))

    @property
    def counts(self) -> Factors:
        """The ratios of each pair of tuples, ``[made, 1, read]``."""
        every = [ratios(self.image, own) for own in self.digits]
        return mapped(lambda *own: np.array(own)[self.number], *every)


def change(before: Factors, after: Factors) -> Factors:
    """Return by how much counts are multiplied; nothing is left of nothing."""
    with np.errstate(invalid="ignore"):
        return mapped(lambda old, new: np.nan_to_num(np.divide(new, old)), before, after)


@lru_cache(maxsize=2**16)
def ratios(image: Image, digits: Digits) -> Factors:
    """Return the factors of the parts of some digits, outermost first, relative to those of equal shares without windows.

    An error is added up by one of the parts that read a row: by the one most of whose copies hold it, or in which it lies deepest.
    """
    need, hold, both, owned, back, added = _counted(image, digits)
    placed = met = 1.0
    if any(own.terms is not None for own in digits):
        made = tuple([(dim, Rows(WHOLE, rows.made, rows.made)) for dim, rows in image])
        each = [Digit(own.made, str(own.terms), (own.shares[0],) * 2, own.part) for own in digits]
        _, _, met, placed, _, _ = _counted(made, tuple(each))
    return Factors._make([need, hold, both, back, owned, hold, 1.0, 1.0, placed, met, added])


def _counted(image: Image, digits: Digits) -> list[float]:
    """Return what the parts need, hold, have of both, own, hold and add up, and add up."""
    names = {dim for dim, _ in image}
    digits = tuple([own for own in digits if names & {*own[:2]}])
    if len(image) > 1 and all(len(names & {*own[:2]}) == 1 for own in digits):
        # No digit divides both dims.
        return [*map(math.prod, zip(*[_counted((own,), digits) for own in image], strict=True))]
    every = _in_all(image, tuple([own._replace(part=None, terms=None) for own in digits]))
    counted = product(*[[own.part in {None, at} for at in range(len(own.shares[0]))] for own in digits])
    chosen = [*map(all, counted)]
    found = [sum(compress(own, chosen)) / sum(chosen) for own in every]
    # Groups own what they have as they have it.
    both, owned = (sum(every[at]) / len(every[at]) for at in (2, 3))
    return [*found[:3], owned * (found[2] / both if both else 0.0), *found[4:]]


@lru_cache(maxsize=2**14)
def _in_all(image: Image, digits: Digits) -> list[list[float]]:
    """Return the counts of each part; of owned ones for each owner."""
    names = {dim for dim, _ in image}
    weights = [_of_others(own, names) for own in digits]
    need, hold, both = ([*map(math.prod, product(*[own[kind] for own in weights]))] for kind in range(3))
    # Parts by a digit that divides neither what is made nor another dim have one owner together.
    alone = [own.made not in {COPIES, IDLE} or own.read not in {COPIES, IDLE, *names} for own in digits]
    ways = [len(own.shares[0]) for own in digits]
    owners = [*product(*[range(own) if one else (0,) * own for own, one in zip(ways, alone, strict=True)])]
    places: dict[tuple[int, ...], float] = defaultdict(float)
    for owner, weight in zip(owners, both, strict=True):
        places[owner] = max(places[owner], weight)
    rows = [_of_parts(*own, digits, [weight > 0 for weight in both], owners, alone) for own in image]
    found = zip(*rows, (need, hold, both, [*places.values()], both, need), strict=True)
    return [[*map(math.prod, zip(*own, strict=True))] for own in found]


def _of_others(digit: Digit, image: Collection[str]) -> list[list[float]]:
    """Return what each part needs, holds, and both of other dims than an image's, as a multiple of an equal share, ``[3, parts]``."""
    hold, need = (
        [float(share > 0) if dim in {COPIES, IDLE, *image} else share * len(shares) for share in shares]
        for dim, shares in zip(digit[:2], digit.shares, strict=True)
    )
    found = [need, hold, [*map(mul, need, hold)]]
    if IDLE in digit[:2]:
        # Factors count idle devices; and no part of the stages has both.
        found = [[one * len(own) / max(sum(own), TINY) for one in own] for own in found]
    return found


def _of_parts(
    dim: str,
    rows: Rows,
    digits: Digits,
    works: list[bool],
    owners: list[tuple[int, ...]],
    alone: list[bool],
) -> list[list[float]]:
    """Return for each count what each part, or each owner, has of the rows as a multiple of its share."""
    taps = _taps(rows)
    some = reduce(or_, taps)
    have = [held & some for held in _pieces(_taps(Rows(WHOLE, rows.size, rows.size)), digits, 0, dim)]
    need = _pieces(taps, digits, 1, dim)
    both = [*map(and_, have, need)]
    holders: dict[int, Counter[int]] = defaultdict(Counter)
    owned: dict[tuple[int, ...], int] = defaultdict(int)
    for piece, held, shared, working, owner in zip(need, have, both, works, owners, strict=True):
        holders[piece][held] += working
        owned[owner] |= shared * working
    adding = _owners(rows.size, holders)
    own = [adding[piece] for piece in need]
    made, read = ([part[end] == dim for part in digits] for end in (0, 1))
    either = [*map(or_, made, read)]
    counts = (need, have, both, [*owned.values()], [*map(and_, have, own)], own)
    cuts = (read, made, either, [*map(and_, either, alone)], either, read)
    shares = [
        math.prod(len(part.shares[0]) for part, one in zip(digits, cut, strict=True) if one)
        / max(some.bit_count(), 1)
        for cut in cuts
    ]
    return [[mask.bit_count() * share for mask in masks] for masks, share in zip(counts, shares, strict=True)]


def _owners(size: int, holders: dict[int, Counter[int]]) -> dict[int, int]:
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


def _pieces(taps: Sequence[int], digits: Digits, end: int, dim: str) -> list[int]:
    """Return the rows of each part, for those of each place of a dim."""
    found = [taps]
    for own in digits:
        bounds = [(0.0, 1.0)] * len(own.shares[end])
        if own[end] == dim:
            bounds = [*pairwise(accumulate(own.shares[end], initial=0.0))]
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
