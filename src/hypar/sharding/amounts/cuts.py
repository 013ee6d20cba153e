"""Ways to cut an image by several digits, and the factors of these."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.parts import averages
from hypar.sharding.amounts.transfers import Factors, mapped
from hypar.sharding.amounts.windows import WHOLE, Digits, Image, Rows
from hypar.sharding.dims import SPATIAL

if TYPE_CHECKING:
    from hypar.sharding.placement import Numbers


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
    need, hold, both, there, added = averages(image, digits, ways)
    terms = left = placed = met = np.ones_like(need)
    if any(own.terms is not None for known in digits for own in known):
        made = tuple([(dim, Rows(WHOLE, rows.made, rows.made, adds=False)) for dim, rows in image])
        of_terms = tuple([tuple([own.of_terms for own in known]) for known in digits])
        terms, left, met, placed, _ = averages(made, of_terms, ways)
    return Factors(need, hold, both, there, there, hold, terms, left, placed, met, added)


def unequal(digits: Digits) -> float:
    """Return how many times an equal share of an image its consumer has by the shares of the parts that are counted."""
    return math.prod(
        own.ways * own.of(1)[own.part] for own in digits if own.part is not None and own.read in SPATIAL
    )
