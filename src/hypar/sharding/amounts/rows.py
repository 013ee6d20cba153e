"""The rows of an image that several devices read, below the levels above."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.sharding.amounts.between import names_at

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors, Plain
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.numbering import Numbers
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def border_of(nest: Nest, dim: str) -> float:
    """Return the fraction of F_in that two neighbouring shards of a dim both read."""
    window = nest.windows.get(dim)
    return 0.0 if window is None or not nest.input_sizes[dim] else window.halo / nest.input_sizes[dim]


@lru_cache(maxsize=4096)
def windowed(nest: Nest) -> tuple[str, ...]:
    """Return the dims in which neighbouring shards read the same rows."""
    return tuple(dim for dim in nest.windows if border_of(nest, dim))


@lru_cache(maxsize=4096)
def cut_windows(nest: Nest, options: Options) -> tuple[str, ...]:
    """Return the dims of ``windowed`` that some option divides."""
    return tuple(dim for dim in windowed(nest) if any(choice.degree(dim) > 1 for choice in options))


def beyond(nest: Nest, dim: str, degrees: Numbers, rest: Costs) -> Costs:
    """Return how much more than its shards of a dim each option reads below some rests of it, ``[tuples above, options]``."""
    found = np.zeros((len(rest), len(degrees)))
    for degree in {*degrees.tolist()} - {1}:
        found[:, degrees == degree] = halo(border_of(nest, dim), degree, rest)[:, None]
    return found


def rest_of(nest: Nest, dim: str, sizes: LocalSizes) -> Costs:
    """Return the fraction of a dim's rows that one group reads on average, border rows included, ``[tuples]``."""
    left = sizes.of(dim)
    return left * rows_read(border_of(nest, dim), left)


def rows_read(border: float, left: Costs) -> Costs:
    """Return the rows that all shards read together, as a multiple of the rows, for the fraction of each shard.

    Examples:
        >>> rows_read(0.0625, np.array([1.0, 0.5, 0.25])).tolist()
        [1.0, 1.0625, 1.1875]
    """
    shards = np.rint(1.0 / left)
    return np.asarray(1.0 + halo(border, shards, 1.0))


def with_halos(
    nest: Nest, between: Between, options: tuple[Options, Options], found: Plain, rests: dict[str, Costs]
) -> Factors:
    """Add the rows beyond shards: a device lacks those of a digit by which the producer does not divide the same dim."""
    factors = found.factors
    need, both = factors.need, np.ones((1, 1, 1))
    for own, dim in names_at(between):
        if dim not in rests:
            continue
        rest = rests[dim]
        need = need * (1.0 + beyond(nest, dim, degrees_of(options[1], dim), rest))
        # Digits by which the producer divides the dim as well bring it none of the rows beyond.
        met, before, degrees = np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(len(options[1]), np.int64)
        for digit, straight in zip(found.digits, found.straight, strict=True):
            degrees = degrees * np.where(np.array(digit.read) == dim, digit.ways, 1)
            more = beyond(nest, dim, degrees, rest)
            apart = (np.array(digit.made) != own)[:, None, None] & ~straight
            met, before = met + np.where(apart, more - before, 0.0), more
        both = both * met
    owned = np.minimum(factors.owned * both, 1.0)
    return factors._replace(need=need, both=factors.both * both, owned=owned)


def degrees_of(options: Options, dim: str | None) -> Numbers:
    """Return the degree of a dim in each option."""
    return np.array([choice.degree(dim or "") for choice in options])


def halo(border: float, shards: Any, size: Any) -> Any:
    """Return the fraction of a group's F_in that its devices together read beyond their own shards.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to shards - 1 of min(i / shards, halo / 2))``.

    Args:
        border: the fraction of the whole F_in that the windows of two neighbouring shards both read.
        shards: the number of shards, or an array of numbers.
        size: the fraction of the dim that the levels above leave: a number, or an array over their choices.
    """
    fraction = np.minimum(border / size, 1.0)
    if isinstance(shards, int) and shards == 2:
        return fraction  # the value of the sum in by far the most frequent case
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return short * (short + 1) / shards + (shards - 1 - short) * fraction
