"""The rows of an image that the parts of some digits read, hold, and add up the error of, counted exactly.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.ops.windows import Window
from hypar.sharding.placement import COPIES, IDLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Shares = tuple[float, ...]

TINY = 1e-9
"""Fraction of a row within which a bound is whole; other bounds are those of the rows before them."""


class Rows(NamedTuple):
    """A dim of an image between two layers: the consumer's window, the producer's rows, the consumer's outputs."""

    window: Window
    size: int
    places: int


Image = tuple[tuple[str, Rows], ...]
"""The dims of an image, by their names in the tensor."""


class Digit(NamedTuple):
    """What both ends divide by a digit of a level, by an uneven split, or by the stages.

    Attributes:
        made: the producer's dim of the tensor, ``COPIES`` or ``IDLE``.
        read: the consumer's; not the same as the producer's but of the image.
        shares: the producer's shares of the parts, and the consumer's; a part of none does not work for that end.
    """

    made: str
    read: str
    shares: tuple[Shares, Shares]

    @classmethod
    def even(cls, ways: int, made: str, read: str) -> Digit:
        """Return a digit of equal shares."""
        first, equal = (1.0,) + (0.0,) * (ways - 1), (1 / ways,) * ways
        return cls(made, read, (first if made == IDLE else equal, first if read == IDLE else equal))


class Counts(NamedTuple):
    """Elements that all parts together have, of those that some output reads.

    Attributes:
        need: what they read.
        hold: what they hold.
        both: what they read and hold.
        owned: what has an owner that has a term of it and wants the sum.
        back: what they hold and add up the error of.
        sums: what they add up the error of: of parts that read a row the one most of whose copies hold it, or in which it lies deepest.
    """

    need: Any
    hold: Any
    both: Any
    owned: Any
    back: Any
    sums: Any


def tables(image: Image, digits: Sequence[tuple[Sequence[Digit], NDArray[np.int64]]]) -> Counts:
    """Return the ratios for many tuples of both ends at once, ``[made, read]``.

    Args:
        image: the image.
        digits: for each digit so far what pairs of choices divide by it, and the number of each pair of tuples, ``[made, read]``.
    """
    places, found = np.zeros((1, 1), np.int64), list[tuple[Digit, ...]]([()])
    for every, which in digits:
        kinds = dict[Digit | None, int]()
        taken = [kinds.setdefault(_of_image(image, own), len(kinds)) for own in every]
        numbers = places * len(kinds) + np.array(taken)[which]
        distinct, places = np.unique(numbers, return_inverse=True)
        places = places.reshape(numbers.shape)
        pairs = [divmod(number, len(kinds)) for number in distinct.tolist()]
        found = [(*found[above], *filter(None, [[*kinds][own]])) for above, own in pairs]
    return Counts(*np.array([ratios(image, own) for own in found]).T[:, places])


def _of_image(image: Image, digit: Digit) -> Digit | None:
    """Return a digit as it divides an image, if it does: equal for what has equal ratios."""
    made, read = (own if own in {COPIES, IDLE, *dict(image)} else "" for own in digit[:2])
    if {made, read} <= {"", COPIES, IDLE}:
        return None
    return digit._replace(made=made, read="" if read == COPIES else read)


@lru_cache(maxsize=2**16)
def ratios(image: Image, digits: tuple[Digit, ...]) -> Counts:
    """Return the counts for the parts of some digits, outermost first, relative to those of equal shares without windows."""
    names = tuple([dim for dim, _ in image])
    # Parts by a digit that divides neither what is made nor another dim have one owner together.
    alike = tuple(
        at
        for at, own in enumerate(digits)
        if own.made in {COPIES, IDLE} and own.read in {COPIES, IDLE, *names}
    )
    each = [np.ones((3, 1)), *[_of_others(own, names) for own in digits]]
    need, hold, both = (reduce(np.multiply.outer, own)[0] for own in zip(*each, strict=True))
    owned = both.max(axis=alike, keepdims=True)
    rows = [_of_parts(*own, digits, both[..., None] > 0, alike) for own in image]
    found = zip(*rows, (need, hold, both, owned, both, need), strict=True)
    return Counts(*[float((math.prod(own) * weight).mean()) for *own, weight in found])


@lru_cache(maxsize=4096)
def _of_others(digit: Digit, image: tuple[str, ...]) -> Any:
    """Return what each part needs, holds, and both of other dims than an image's, 1 on average, ``[3, parts]``."""
    whole = {COPIES, IDLE, *image}
    hold, need = (
        np.sign(own) if dim in whole else own for dim, own in zip(digit[:2], digit.shares, strict=True)
    )
    found = np.array([need, hold, np.multiply(need, hold)])
    # No part of the stages has both.
    return found / np.maximum(found.mean(axis=1, keepdims=True), TINY)


def _of_parts(
    dim: str, rows: Rows, digits: tuple[Digit, ...], works: Any, alike: tuple[int, ...]
) -> list[Any]:
    """Return for each count what each part has of the rows as a multiple of its share, ``[*parts of each digit]``."""
    made, read = (tuple([own.shares[end] if own[end] == dim else (1.0,) for own in digits]) for end in (0, 1))
    have, *_ = _read(Rows(Window(kernel=1), rows.size, rows.size), made)
    need, same, deep = _read(rows, read)
    some = _first(rows)[-1] > 0
    have = have & some
    both = have & need
    copies = (both & works).sum(axis=tuple(at for at, ways in enumerate(need.shape[:-1]) if ways == 1))
    owner = ((deep > 0) * (same @ copies.reshape(-1, rows.size)) + deep).argmax(axis=0)
    own = need & (same[owner].T > 0).reshape(need.shape)
    works = works.any(axis=tuple(at for at in range(len(digits)) if at not in alike), keepdims=True)
    each = (need, have, both, (both & works).any(axis=alike, keepdims=True), have & own, own)
    return [mask.sum(axis=-1) * (math.prod(mask.shape[:-1]) / some.sum()) for mask in each]


@lru_cache(maxsize=4096)
def _read(rows: Rows, cuts: tuple[Shares, ...]) -> tuple[Any, Any, Any]:
    """Return which rows each part reads; of the parts in the order of their rows which read the same, ``[ordered, parts]``, and how deep.

    A row lies less than 1 deep in the rows of a part, and 0 outside them.
    """
    bounds: Any = np.array([0, rows.places])
    for shares in cuts:
        wide = (bounds[..., 1:] - bounds[..., :1]) * np.cumsum((0.0, *shares))
        ends = bounds[..., :1] + (wide + TINY).astype(np.int64)
        bounds = np.stack([ends[..., :-1], ends[..., 1:]], axis=-1)
    own = _first(rows)[bounds[..., 1]] > _first(rows)[bounds[..., 0]]
    pieces = own.reshape(-1, rows.size)
    ordered = np.array(sorted(pieces, key=bytes))
    deep = np.minimum(ordered.cumsum(axis=1), ordered[:, ::-1].cumsum(axis=1)[:, ::-1]) / (2 * rows.size)
    return own, (ordered[:, None] == pieces).all(axis=-1).astype(np.float32), deep * ordered


@lru_cache(maxsize=1024)
def _first(rows: Rows) -> Any:
    """Return how many of the first outputs read each row, ``[outputs and 1, rows]``."""
    taps = rows.window.taps(rows.size, np.arange(rows.places))
    found = np.zeros((rows.places + 1, rows.size + 1), np.int64)
    found[np.arange(rows.places)[:, None] + 1, taps] = 1
    return found[:, :-1].cumsum(axis=0)
