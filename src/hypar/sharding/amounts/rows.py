"""The rows of an image that several devices read, below the levels above."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.transfers import Border, halo

if TYPE_CHECKING:
    from hypar.network.einsum import Einsum
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def border_of(einsum: Einsum, dim: str) -> float:
    """Return the fraction of F_in that two neighbouring shards of a dim both read."""
    window = einsum.windows.get(dim)
    return 0.0 if window is None or not einsum.input_sizes[dim] else window.halo / einsum.input_sizes[dim]


@lru_cache(maxsize=4096)
def windowed(einsum: Einsum) -> tuple[str, ...]:
    """Return the dims in which neighbouring shards read the same rows."""
    return tuple(dim for dim in einsum.windows if border_of(einsum, dim))


@lru_cache(maxsize=4096)
def cut_windows(einsum: Einsum, options: Options) -> tuple[str, ...]:
    """Return the dims of ``windowed`` that some option divides."""
    return tuple(dim for dim in windowed(einsum) if any(choice.degree(dim) > 1 for choice in options))


def rest_of(einsum: Einsum, dim: str, sizes: LocalSizes) -> Costs:
    """Return the fraction of a dim's rows that one group reads on average, border rows included, ``[tuples]``."""
    left = sizes.of(dim)
    return left * rows_read(border_of(einsum, dim), left)


def rows_read(border: float, left: Costs) -> Costs:
    """Return the rows that all shards read together, as a multiple of the rows, for the fraction of each shard.

    Examples:
        >>> rows_read(0.0625, np.array([1.0, 0.5, 0.25])).tolist()
        [1.0, 1.0625, 1.1875]
    """
    shards = np.rint(1.0 / left)
    return np.asarray(1.0 + halo(Border("", border, shards, 1), 1.0))
