"""Arrays of identical devices, and the layouts of layers on them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.layout import Layout, Places, shares_of

if TYPE_CHECKING:
    from hypar.sharding.placement import Choice


@lru_cache(maxsize=64)
def array_places(array: tuple[int, ...]) -> Places:
    """Return the devices of an array, numbered through its levels, outermost first.

    Examples:
        >>> [part.tolist() for part in array_places((2, 2)).parts]
        [[0, 0, 1, 1], [0, 1, 2, 3]]
    """
    devices = np.arange(math.prod(array))
    return Places(tuple(devices // math.prod(array[level:]) for level in range(1, len(array) + 1)))


@lru_cache(maxsize=1024)
def array_layout(array: tuple[int, ...], choices: tuple[Choice, ...]) -> Layout:
    """Return the layout that an array of identical devices gives a layer by a choice at each level."""
    places, levels = array_places(array), []
    working = np.ones(places.devices, bool)
    parts = np.unravel_index(np.arange(places.devices), array) if array else ()
    for own, ways, part in zip(choices, array, parts, strict=True):
        shares, works = shares_of(own, ways)
        working &= works[part]
        levels.append({dim: ends[part] for dim, ends in shares.items()})
    return Layout(places, tuple(levels), working)
