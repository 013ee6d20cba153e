"""Bounds of the shards of one dim, the input elements that windows read, and intersections of shards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import TableLimitError

if TYPE_CHECKING:
    from hypar.ops.windows import Window
    from hypar.solve.edge import Costs

MOST_SHARED = 2**27
"""Most entries of an ``Intersections`` table: a gigabyte."""


@dataclass(frozen=True, eq=False, slots=True)
class Bounds:
    """Bounds of the shards of a dim, for each degree in ascending order.

    Attributes:
        low: start of each shard.
        high: end of each shard.
        amounts: elements of each shard.
        window: the window, if windows leave gaps between them; ``low`` and ``high`` then count windows.
    """

    low: Costs
    high: Costs
    amounts: Costs
    window: Window | None = None

    def below(self, places: Costs) -> Costs:
        """Return the elements of each shard below given positions, ``[places, shards]``."""
        if self.window is None:
            return _within(places[:, None], self.low, self.high) - self.low
        windows, within = np.divmod(places + self.window.padding, self.window.stride)
        read = windows * self.window.extent + np.minimum(within, self.window.extent)
        low, high = self.low * self.window.extent, self.high * self.window.extent
        return _within(read[:, None], low, high) - low


def _within(places: Costs, low: Costs | float, high: Costs | float) -> Costs:
    """Clip positions like ``np.clip``, with less overhead per call."""
    return np.asarray(np.minimum(np.maximum(places, low), high))


@lru_cache(maxsize=4096)
def bounds(degrees: tuple[int, ...], size: float, whole: bool, unit: int = 1) -> Bounds:
    """Return the bounds of a dim divided as evenly as possible.

    Args:
        degrees: numbers of shards.
        size: elements of the dim.
        whole: whether shards have whole elements.
        unit: elements that stay together, as the channels of a group.
    """
    if unit > 1:
        found = bounds(degrees, size // unit, whole)
        return Bounds(found.low * unit, found.high * unit, found.amounts * unit)
    low = np.concatenate([np.arange(degree) / degree for degree in degrees]) * size
    high = np.concatenate([np.arange(1, degree + 1) / degree for degree in degrees]) * size
    if whole:
        low, high = np.floor(low + 1e-9), np.floor(high + 1e-9)
    return Bounds(low, high, high - low)


def reach(made: Bounds, window: Window, size: float) -> Bounds:
    """Return the input elements that shards of an output read, from first to last tap, without padding."""
    if window.gaps:
        gaps = Bounds(made.low, made.high, made.amounts, window)
        ends = gaps.below(np.array([0.0, size]))
        return replace(gaps, amounts=ends[1] - ends[0])
    low, high = (_within(places, 0, size) for places in window.reads(made.low, made.high))
    high = np.where(made.high <= made.low, low, np.maximum(high, low))
    return Bounds(low, high, high - low)


@dataclass(frozen=True, eq=False, slots=True)
class Intersections:
    """Intersections of the shards of one dim of a tensor, as producer and consumer divide it.

    Attributes:
        made: the op dim of the producer; None if it has none.
        read: the op dim of the consumer.
        shared: elements common to a shard of the one and of the other, ``[rows of made, rows of read]``.
    """

    made: str | None
    read: str | None
    shared: Costs


def intersections(made: str | None, read: str | None, held: Bounds, needed: Bounds) -> Intersections:
    """Return the intersections of held and needed shards of a dim.

    Raises:
        TableLimitError: the dim has too many shards.
    """
    entries = len(held.low) * len(needed.low)
    if entries > MOST_SHARED:
        size = f"{len(held.low):,} by {len(needed.low):,} shards of {made or read}"
        message = f"grids of {size} would take {entries:,} entries; allowed: {MOST_SHARED:,}"
        raise TableLimitError(f"{message}, so levels of fewer ways", entries, MOST_SHARED)
    return Intersections(made, read, needed.below(held.high) - needed.below(held.low))
