"""Bounds of the shards of one dim in whole elements, and the input elements that windows read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hypar.ops.windows import Window
    from hypar.sharding.numbering import Numbers
    from hypar.solve.edge import Costs


class Bounds(NamedTuple):
    """Bounds of shards of a dim.

    Attributes:
        low: start of each shard.
        high: end of each shard.
        window: the window, if windows leave gaps between them; ``low`` and ``high`` then count windows.
    """

    low: Costs
    high: Costs
    window: Window | None = None

    def below(self, places: Costs | float) -> Costs:
        """Return the elements of each shard below a position, for each of some positions."""
        low, high = self.low, self.high
        if self.window is not None:
            windows, within = np.divmod(places + self.window.padding, self.window.stride)
            places = windows * self.window.extent + np.minimum(within, self.window.extent)
            low, high = low * self.window.extent, high * self.window.extent
        return np.asarray(np.minimum(np.maximum(places, low), high) - low)


def bounds(shards: Numbers, size: float, unit: int = 1) -> Bounds:
    """Return the bounds of the shards of a dim divided as evenly as whole elements allow; as real numbers if the unit is 0.

    Args:
        shards: the number of each shard, ``[..., shards]``, up to the highest one.
        size: elements of the dim.
        unit: elements that stay together, as the channels of a group.
    """
    degrees = shards.max(axis=-1, keepdims=True) + 1
    low, high = shards / degrees * size, (shards + 1) / degrees * size
    if not unit:
        return Bounds(low, high)
    return Bounds(np.floor(low / unit + 1e-9) * unit, np.floor(high / unit + 1e-9) * unit)


def reach(made: Bounds, window: Window, size: float) -> Bounds:
    """Return the input elements that shards of an output read, from first to last tap, without padding."""
    if window.gaps:
        return made._replace(window=window)
    low, high = (np.clip(places, 0, size) for places in window.reads(made.low, made.high))
    return Bounds(low, np.where(made.high <= made.low, low, np.maximum(high, low)))
