"""The elements that a transfer moves at each level, counted from who holds and who needs them.

Every element enters a part of a level from outside at most once, and is handed on inside. The elements that are
received at level h or further out are ``R(h)``, the sum over the parts of level h of what they need and do not have;
what level h itself moves is ``R(h) - R(h - 1)``. A tensor is counted on a small grid of classes of indices, each weighted by
its elements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.program.holding import cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.program.holding import Cells, Holding
    from hypar.program.places import Numbers, Places


@lru_cache(maxsize=1024)
def copied(places: Places, have: Holding, need: Holding) -> Numbers:
    """Return the elements that each level moves so that every device gets what it needs, ``[levels]``."""
    levels = len(places.parts)
    if need.within(have):
        return np.zeros(levels, np.int64)
    (held, needed), weights = cells(have, need)
    found = [
        sum(
            int(weights[needed[part].any(axis=0) & ~held[part].any(axis=0)].sum())
            for part in places.members(level)
        )
        for level in range(levels)
    ]
    return np.diff(found, prepend=0)


def added(places: Places, terms: Holding, need: Holding, copies: Numbers) -> Numbers:
    """Return the elements that each level moves to sum terms at one owner of each element and to hand on the sums.

    The owner of an element is a device that needs it, as near as possible to one that has a term of it. A part adds up
    its own terms before it sends one sum out.

    Args:
        places: the devices.
        terms: the elements of which each device has a term.
        need: the elements whose sums each device needs.
        copies: the copy of its terms that each device has; each copy is summed by itself.
    """
    return _added_up(places, terms, need, tuple(copies.tolist()))


@lru_cache(maxsize=1024)
def _added_up(places: Places, terms: Holding, need: Holding, copy_of: tuple[int, ...]) -> Numbers:
    total, copies = np.zeros(len(places.parts), np.int64), np.array(copy_of)
    (having, needing), weights = cells(terms, need)
    for copy in range(int(copies.max()) + 1):
        mine = copies == copy
        own = having & mine.reshape(-1, *[1] * weights.ndim)
        wanted = needing & of_copy(copies, copy).reshape(-1, *[1] * weights.ndim) & own.any(axis=0)
        total += _added(places, own & wanted.any(axis=0), wanted, weights)
    return total


def of_copy(copies: Numbers, copy: int) -> NDArray[np.bool_]:
    """Return the devices that get the sums of one copy: those that have it; of the first also those that have none."""
    return np.asarray((copies == copy) | ((copies < 0) & (copy == 0)))


def _added(places: Places, having: Cells, wanted: Cells, weights: Numbers) -> Numbers:
    """Return what one copy of the terms moves at each level, ``[levels]``."""
    found = []
    whole = int(weights[wanted.any(axis=0)].sum())
    for level in range(len(places.parts)):
        gathered, scattered, met = 0, 0, np.zeros(weights.shape, bool)
        for part in places.members(level):
            has, wants = having[part].any(axis=0), wanted[part].any(axis=0)
            scattered += int(weights[has].sum())
            gathered += int(weights[wants].sum())
            met |= has & wants
        found.append(scattered - int(weights[met].sum()) + gathered - whole)
    return np.diff(found, prepend=0)


def overlapping(terms: Holding, copies: Numbers) -> bool:
    """Return whether several devices have terms of an element, in one copy."""
    return _overlapping(terms, tuple(copies.tolist()))


@lru_cache(maxsize=1024)
def _overlapping(terms: Holding, copy_of: tuple[int, ...]) -> bool:
    copies = np.array(copy_of)
    (having,), _ = cells(terms)
    return any(bool((having[copies == copy].sum(axis=0) > 1).any()) for copy in range(int(copies.max()) + 1))


def lacking(terms: Holding, need: Holding, copies: Numbers) -> bool:
    """Return whether a device needs an element of which it has no term."""
    if need.within(terms) and (copies >= 0).all():
        return False
    (having, needing), _ = cells(terms, need)
    return bool((needing & ~(having & (copies >= 0).reshape(-1, *[1] * (having.ndim - 1)))).any())
