"""The rows of an image that windows read: those that several devices read, and those in the gaps between windows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.nest import Nest
    from hypar.ops.windows import Window
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.numbering import Numbers
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def windowed(nest: Nest) -> Mapping[str, float]:
    """Return the dims of which neighbouring shards read the same rows, and the fraction of F_in that two of them share."""
    sizes = nest.input_sizes
    return {dim: own.halo / sizes[dim] for dim, own in nest.windows.items() if sizes[dim] and own.halo}


@lru_cache(maxsize=4096)
def cut_windows(nest: Nest, options: Options) -> tuple[str, ...]:
    """Return the dims of ``windowed`` that some option divides."""
    return tuple(dim for dim in windowed(nest) if any(choice.degree(dim) > 1 for choice in options))


def beyond(nest: Nest, dim: str, degrees: Numbers, sizes: LocalSizes, *, apart: bool) -> Costs:
    """Return how much more than its shards of a dim each option reads, ``[tuples above, options]``.

    Below other levels a group has border rows as well, but where each level is counted by itself.
    """
    left = sizes.of(dim)
    rest = left if apart else left * rows_read(windowed(nest)[dim], left)
    return np.asarray(halo(windowed(nest)[dim], degrees, rest[:, None]))


def rows_read(border: float, left: Costs) -> Costs:
    """Return the rows that all shards read together, as a multiple of the rows, for the fraction of each shard.

    Examples:
        >>> rows_read(0.0625, np.array([1.0, 0.5, 0.25])).tolist()
        [1.0, 1.0625, 1.1875]
    """
    return np.asarray(1.0 + halo(border, np.rint(1.0 / left), 1.0))


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
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return short * (short + 1) / shards + (shards - 1 - short) * fraction


def read_before(window: Window, made: float, place: Any) -> Any:
    """Return the elements before a position that windows with gaps between them read, padding included."""
    number, within = np.divmod(place + window.padding, window.stride)
    return np.minimum(number * window.extent + np.minimum(within, window.extent), made * window.extent)


@lru_cache(maxsize=4096)
def fraction_read(nest: Nest) -> float:
    """Return the fraction of F_in that the windows of a layer read: below 1 if their stride leaves gaps.

    Examples:
        >>> from hypar import load_model
        >>> layer = next(one for one in load_model("resnet18").contracted.layers if one.name == "layer2.0.downsample.0")
        >>> fraction_read(layer.nest)
        0.25
    """
    found = 1.0
    for dim, window in nest.windows.items():
        size, made = nest.input_sizes[dim], nest.sizes[dim]
        if window.gaps and size and made != round(made):
            # An uneven split may leave a part of a row.
            found *= min(1.0, made * window.extent / size)
        elif window.gaps and size:
            first, last = (float(read_before(window, made, place)) for place in (0, size))
            found *= (last - first) / size
    return found
