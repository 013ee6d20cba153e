"""The rows of an image that several devices read, below the levels above."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.transfers import halo

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.levels import LocalSizes
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


def beyond(nest: Nest, dim: str, options: Options, rest: Costs) -> Costs:
    """Return how much more than its shards of a dim each option reads below some rests of it, ``[tuples above, options]``."""
    found = np.zeros((len(rest), len(options)))
    for column, choice in enumerate(options):
        if choice.degree(dim) > 1:
            found[:, column] = halo(border_of(nest, dim), choice.degree(dim), rest)
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
