"""The image that is a tensor between two layers, and the digits by which these divide it.

Which rows a part holds, and which its windows read, follow from the bounds of all digits so far, so that no factor for each digit
says how they meet. Amounts are products of factors of equal shares without windows, times the ratios of the rows to these.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.ops.windows import Window
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.ops.nest import Nest

Shares = tuple[float, ...]

WHOLE = Window(kernel=1)
"""The window of a place that reads its own row."""


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

    @property
    def read(self) -> int:
        """The number of rows that windows read."""
        return int(np.count_nonzero(before(self)[-1]))


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
    """Return the fraction of an image that windows read: below 1 if their stride leaves gaps, or rows at the end."""
    return math.prod(rows.read / rows.size for _, rows in image)


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


@lru_cache(maxsize=1024)
def before(rows: Rows) -> Numbers:
    """Return how many of the places before each one read each row, ``[places + 1, 1 + rows]``; the first column is of no row."""
    taps = rows.window.taps(rows.size, np.arange(rows.places))
    found = np.zeros((rows.places + 1, rows.size + 1), np.int32)
    place, tap = np.nonzero(taps >= 0)
    found[place + 1, taps[place, tap] + 1] = 1
    return found.cumsum(axis=0, dtype=np.int32)
