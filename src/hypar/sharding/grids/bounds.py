"""Where the pieces of one dim begin and end, what windows read of it, and what two pieces share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import TableLimitError

if TYPE_CHECKING:
    from hypar.network.ops.base import Window
    from hypar.solve.edge import Costs

MOST_SHARED = 2**27
"""Entries of a ``Side``: a gigabyte."""


@dataclass(frozen=True, eq=False, slots=True)
class Bounds:
    """Where pieces of a dim begin and end: for each degree, rising, each of its pieces.

    Attributes:
        low: where each begins.
        high: where each ends.
        amounts: how many elements each has.
        window: where windows leave gaps between each other, the window; ``low`` and ``high`` count windows then.
    """

    low: Costs
    high: Costs
    amounts: Costs
    window: Window | None = None

    def below(self, places: Costs) -> Costs:
        """Elements of each piece below some places, ``[places, pieces]``."""
        if self.window is None:
            return _within(places[:, None], self.low, self.high) - self.low
        windows, within = np.divmod(places + self.window.padding, self.window.stride)
        read = windows * self.window.extent + np.minimum(within, self.window.extent)
        low, high = self.low * self.window.extent, self.high * self.window.extent
        return _within(read[:, None], low, high) - low


def _within(places: Costs, low: Costs | float, high: Costs | float) -> Costs:
    """As ``np.clip``, which takes longer to call than to do."""
    return np.asarray(np.minimum(np.maximum(places, low), high))


@lru_cache(maxsize=4096)
def bounds(degrees: tuple[int, ...], size: float, whole: bool, unit: int = 1) -> Bounds:
    """A dim in pieces, as even as can be.

    Args:
        degrees: numbers of pieces.
        size: elements of the dim.
        whole: whether a piece has whole elements.
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
    """What pieces of an output read of an input dim: their windows, from first to last tap, without the padding."""
    if window.stride > window.extent:
        gaps = Bounds(made.low, made.high, made.amounts, window)
        ends = gaps.below(np.array([0.0, size]))
        return replace(gaps, amounts=ends[1] - ends[0])
    low = _within(made.low * window.stride - window.padding, 0, size)
    high = _within((made.high - 1) * window.stride - window.padding + window.extent, 0, size)
    high = np.where(made.high <= made.low, low, np.maximum(high, low))
    return Bounds(low, high, high - low)


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """One dim of a tensor, as both its ends divide it.

    Attributes:
        made: the op dim of the producer; None where it does not divide it.
        read: the op dim of the consumer.
        shared: elements that a piece of the one and a piece of the other share, ``[rows of made, rows of read]``.
    """

    made: str | None
    read: str | None
    shared: Costs


def side(made: str | None, read: str | None, held: Bounds, needed: Bounds) -> Side:
    """A dim of which pieces are held and needed.

    Raises:
        TableLimitError: there are too many pieces of it.
    """
    entries = len(held.low) * len(needed.low)
    if entries > MOST_SHARED:
        size = f"{len(held.low):,} by {len(needed.low):,} pieces of {made or read}"
        message = f"grids of {size} would take {entries:,} entries; allowed: {MOST_SHARED:,}"
        raise TableLimitError(f"{message}, so levels of fewer ways", entries, MOST_SHARED)
    return Side(made, read, needed.below(held.high) - needed.below(held.low))
