"""The elements that a transfer moves at each level, counted from who holds and who needs them.

Every element enters a part of a level from outside at most once, and is handed on inside. The elements that are
received at level h or further out are ``R(h)``, the sum over the parts of level h of what they need and do not have;
what level h itself moves is ``R(h) - R(h - 1)``. A tensor is counted on a small grid of classes of indices, each weighted by
its elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.holding import by_content, cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.program.holding import Cells, Holding, Members
    from hypar.program.layout import Numbers, Places


@by_content
def copied(places: Places, have: Holding, need: Holding) -> Numbers:
    """Return the elements that each level moves so that every device gets what it needs, ``[levels]``."""
    (held, needed), weights = cells(have, need)
    entering = [(needs & ~has).sum(axis=0) for has, needs in _by_part(places, held, needed)]
    return np.diff([(own * weights).sum() for own in entering], prepend=0)


@by_content
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
    total, (having, needing), weights = np.zeros(len(places.parts), np.int64), *cells(terms, need)
    for mine, gets in each_copy(copies, weights.ndim):
        wanted = needing & gets & (having & mine).any(axis=0)
        parts = _by_part(places, having & mine & wanted.any(axis=0), wanted)
        # Terms leave all parts that have some and sums enter all that want them, but for that of the owner.
        crossing = [
            has.sum(axis=0) - (has & wants).any(axis=0) + wants.sum(axis=0) - wants.any(axis=0)
            for has, wants in parts
        ]
        total += np.diff([(own * weights).sum() for own in crossing], prepend=0)
    return total


def _by_part(places: Places, *each: Cells) -> Iterator[tuple[Cells, ...]]:
    """Yield for each level what each part has of some holdings, ``[parts, classes of each dim]``."""
    for level in range(len(places.parts)):
        parts = places.members(level)
        yield tuple(np.stack([own[part].any(axis=0) for part in parts]) for own in each)


def each_copy(copies: Numbers, dims: int) -> Iterator[tuple[Members, Members]]:
    """Yield for each copy of some terms who has it, and who gets its sums, ``[devices, *1 for each dim]``.

    Those that have no copy get the sums of the first.
    """
    copies = copies.reshape(-1, *[1] * dims)
    for copy in range(int(copies.max()) + 1):
        own = copies == copy
        yield own, own | ((copies < 0) & (copy == 0))


@by_content
def overlapping(terms: Holding, copies: Numbers) -> bool:
    """Return whether several devices have terms of an element, in one copy."""
    (having,), weights = cells(terms)
    return any(((having & own).sum(axis=0) > 1).any() for own, _ in each_copy(copies, weights.ndim))
