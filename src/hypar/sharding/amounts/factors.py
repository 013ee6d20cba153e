"""The factors of one level, and the collectives of its transfers.

The factors of a grid are the products of those of its digits, of which each divides one dim, as if these were levels. Those of a
digit are the sums over equal shares.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.between import Between, Digit, Factors, Manners, Plain, mapped, names_at, numbers
from hypar.sharding.amounts.fractions import Offered, fractions_of
from hypar.sharding.amounts.rows import cut_windows, rest_of, with_halos
from hypar.sharding.numbering import digits_of, layout
from hypar.sharding.placement import COPIES, IDLE, WHOLE, cut, terms
from hypar.sharding.rates import CODE, COLLECTIVES, manners_of, undivided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.ops.nest import Nest
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Plain:
    """Return the factors of a level without halos."""
    found, count = digits_of([*options[0], *options[1]], ways), len(options[0])
    digits = tuple(Digit(own, labels[:count], labels[count:]) for own, labels in found)
    each = [_of_digit(between, own) for own in digits]
    # A level of one device has no digits.
    whole = [np.ones((count, 1, len(options[1])))] * len(Factors._fields)
    factors = reduce(lambda one, other: mapped(mul, one, other), each or [Factors._make(whole)])
    straight = tuple([own.kept != own.hold for own in each])
    return Plain(factors, _manners(between, options, ways, factors), digits, straight)


def _of_digit(between: Between, digit: Digit) -> Factors:
    """Return the factors of a digit, for each pair of options."""
    made, read = (dict.fromkeys(own) for own in digit[1:])
    found = _of_labels(between, digit.ways, tuple(made), tuple(read))
    rows, columns = (
        [[*known].index(label) for label in own] for known, own in zip((made, read), digit[1:], strict=True)
    )

    def taken(own: Costs) -> Costs:
        own = own[rows] if len(own) > 1 else own
        return own[:, :, columns] if own.shape[2] > 1 else own

    return mapped(taken, found)


@lru_cache(maxsize=4096)
def _of_labels(between: Between, ways: int, made: tuple[str, ...], read: tuple[str, ...]) -> Factors:
    """Return the factors of one digit, for each pair of what both ends divide by it: the sums over its equal shares."""

    def offered(own: tuple[str, ...]) -> Offered:
        options = [
            WHOLE if label == COPIES else cut("batch" if label == IDLE else label, ways) for label in own
        ]
        alone = np.arange(ways) == 0
        return Offered(
            tuple(options), np.array([alone if label == IDLE else [1 / ways] * ways for label in own])
        )

    found = fractions_of(between.read, between, offered(made), offered(read))
    return mapped(lambda own: own.sum(axis=-1)[:, None], found)


def factors_of_pair(
    reader: Nest, between: Between, pair: tuple[Choice, Choice], sizes: LocalSizes, ways: int
) -> tuple[Factors, dict[str, str]]:
    """Return the factors of one pair of choices below one tuple as numbers, and their collectives."""
    found = _plain_pair(between, pair, ways)
    if cut_windows(reader, (pair[1],)):
        here = factors_of(reader, between, ((pair[0],), (pair[1],)), sizes, ways)
        return numbers(here), found[1]
    return found


@lru_cache(maxsize=16384)
def _plain_pair(between: Between, pair: tuple[Choice, Choice], ways: int) -> tuple[Factors, dict[str, str]]:
    """Return the same without halos."""
    found = plain(between, ((pair[0],), (pair[1],)), ways)
    kinds = {name: COLLECTIVES[codes[0, 0]] for name, codes in found.manners._asdict().items()}
    return numbers(found.factors), kinds


def factors_of(
    reader: Nest,
    between: Between,
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
) -> Factors:
    """Return the factors of a level below the levels above, whose choices leave the consumer some sizes."""
    found = plain(between, options, ways)
    dims = cut_windows(reader, options[1])
    if not dims:
        return found.factors
    rests = {dim: sizes.of(dim) if between.apart else rest_of(reader, dim, sizes) for dim in dims}
    return with_halos(reader, between, options, found, rests)


def _terms(nest: Nest, choice: Choice, tensor: str) -> float:
    """Return the number of devices that have terms of each element."""
    return float(terms(nest, tensor, dict(choice.degrees)))


def _manners(between: Between, options: tuple[Options, Options], ways: int, factors: Factors) -> Manners:
    """Return the collectives of a level."""
    names, ends = names_at(between), (layout(options[0], ways), layout(options[1], ways))
    straight: NDArray[np.bool_] = np.broadcast_to(
        factors.kept != factors.hold, (len(options[0]), 1, len(options[1]))
    )[:, 0]
    forward, backward = (np.broadcast_to(codes, straight.shape) for codes in manners_of(*ends, names))
    sums = np.where(straight, CODE["reduce_scatter"], CODE["all_reduce"])
    whole = undivided(ends[0], [own for own, _ in names])[:, None] & ~straight
    added = np.where(whole, CODE["all_reduce"], CODE["reduce_scatter"])
    has_terms = np.array([_terms(between.read, choice, between.operand) > 1 for choice in options[1]])
    unlike = np.where(straight, CODE["all_to_all"], backward)
    return Manners(
        np.where(straight, CODE["neighbours"], forward),
        backward,
        sums,
        np.where(has_terms, added, unlike),
    )
