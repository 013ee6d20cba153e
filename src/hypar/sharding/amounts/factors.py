"""The factors of one level, and the collectives of its transfers.

The factors of a grid are the products of those of its digits, of which each divides one dim, as if these were levels. Those of a
digit are the sums over equal shares.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.between import Factors, mapped, names_at
from hypar.sharding.amounts.fractions import Offered, fractions_of
from hypar.sharding.amounts.rows import beyond, cut_windows
from hypar.sharding.grids.manners import CODE, back, forth, undivided
from hypar.sharding.numbering import digits_of, layout
from hypar.sharding.placement import COPIES, IDLE, WHOLE, cut, terms
from hypar.sharding.rates import COLLECTIVES

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.grids.manners import Codes
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs, Indices

Labels = tuple[str, ...]
"""What options divide by a digit: a dim, ``COPIES`` or ``IDLE``."""


class Digit(NamedTuple):
    """A digit of the numbers of a level's devices.

    Attributes:
        ways: its values.
        made: what each option of the producer divides by it.
        read: what each option of the consumer divides.
        factors: its factors, for each pair of options.
    """

    ways: int
    made: Labels
    read: Labels
    factors: Factors


@lru_cache(maxsize=4096)
def _digits(between: Between, options: tuple[Options, Options], ways: int) -> tuple[Digit, ...]:
    """Return the digits of a level."""
    found = []
    for own, labels in digits_of([*options[0], *options[1]], ways):
        ends = (labels[: len(options[0])], labels[len(options[0]) :])
        made, read = (tuple(dict.fromkeys(end)) for end in ends)
        rows, columns = (np.array([*map(of.index, end)]) for of, end in zip((made, read), ends, strict=True))

        def taken(factor: Costs, rows: Indices = rows, columns: Indices = columns) -> Costs:
            factor = factor[rows] if len(factor) > 1 else factor
            return factor[:, :, columns] if factor.shape[2] > 1 else factor

        found.append(Digit(own, *ends, mapped(taken, _of_labels(between, own, made, read))))
    return tuple(found)


@lru_cache(maxsize=4096)
def _of_labels(between: Between, ways: int, made: Labels, read: Labels) -> Factors:
    """Return the factors of one digit, for each pair of what both ends divide by it: the sums over its equal shares."""
    alone, even = (1.0, *(0.0,) * (ways - 1)), (1 / ways,) * ways
    ends = (
        Offered.of(
            (WHOLE if label == COPIES else cut(label, ways), alone if label == IDLE else even)
            for label in end
        )
        for end in (made, read)
    )
    return mapped(lambda own: own.sum(axis=-1)[:, None], fractions_of(between.read, between, *ends))


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Factors:
    """Return the factors of a level without halos."""
    # A level of one device has no digits.
    whole = Factors._make([np.ones((len(options[0]), 1, len(options[1])))] * len(Factors._fields))
    each = [digit.factors for digit in _digits(between, options, ways)] or [whole]
    return reduce(lambda one, other: mapped(mul, one, other), each)


def factors_of(
    reader: Nest, between: Between, options: tuple[Options, Options], sizes: LocalSizes, ways: int
) -> Factors:
    """Return the factors of a level below the levels above, whose choices leave the consumer some sizes."""
    factors, dims = plain(between, options, ways), cut_windows(reader, options[1])
    if not dims:
        return factors
    need, both = factors.need, np.ones((1, 1, 1))
    for own, dim in names_at(between):
        if dim not in dims:
            continue
        # Digits by which the producer divides the dim as well bring it none of the rows beyond its shards.
        met, before, degrees = np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(len(options[1]), np.int64)
        for digit in _digits(between, options, ways):
            degrees = degrees * np.where(np.array(digit.read) == dim, digit.ways, 1)
            more = beyond(reader, dim, degrees, sizes, apart=between.apart)
            straight = digit.factors.kept != digit.factors.hold
            lacks = (np.array(digit.made) != own)[:, None, None] & ~straight
            met, before = met + np.where(lacks, more - before, 0.0), more
        need, both = need * (1.0 + before), both * met
    owned = np.minimum(factors.owned * both, 1.0)
    return factors._replace(need=need, both=factors.both * both, owned=owned)


def factors_of_pair(
    reader: Nest, between: Between, pair: tuple[Choice, Choice], sizes: LocalSizes, ways: int
) -> Factors:
    """Return the factors of one pair of choices below one tuple as numbers."""
    found = factors_of(reader, between, ((pair[0],), (pair[1],)), sizes, ways)
    return Factors._make([factor.item() for factor in found])


@lru_cache(maxsize=4096)
def collectives_of(between: Between, options: tuple[Options, Options], ways: int, manner: str) -> Codes:
    """Return the collectives of a transfer at a level, as indices into ``COLLECTIVES``, on the axes of factors."""
    factors, names = plain(between, options, ways), names_at(between)
    made, read = layout(options[0], ways), layout(options[1], ways)
    straight = factors.kept != factors.hold
    if manner == "sums":
        return np.where(straight, CODE["reduce_scatter"], CODE["all_reduce"])
    if manner == "forward":
        return np.where(straight, CODE["neighbours"], forth(made, read, names)[:, None])
    backward = back(made, read, names, bytes(1))[:, None]
    if manner == "backward":
        return backward
    whole = undivided(made, [own for own, _ in names])[:, None, None] & ~straight
    added = np.where(whole, CODE["all_reduce"], CODE["reduce_scatter"])
    has_terms = np.asarray(terms(between.read, between.operand, read.chosen)) > 1
    return np.where(has_terms, added, np.where(straight, CODE["all_to_all"], backward))


def collective_of(between: Between, pair: tuple[Choice, Choice], ways: int, manner: str) -> str:
    """Return the name of the collective of one pair of choices."""
    return COLLECTIVES[collectives_of(between, ((pair[0],), (pair[1],)), ways, manner).item()]
