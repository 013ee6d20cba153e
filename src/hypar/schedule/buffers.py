"""The elements that arrive on devices at once, for which they have buffers: those of a transfer, at each level of an array.

What several devices of a part lack of a copy comes to the part once, to each of them as much of it; the rest they get of each other.
Of sums each part that has terms, or needs sums, gets the same: terms leave all parts but that of an owner, and sums come to all others
that need them; the devices of a part share it by the sums that they need, or else by the terms that they have.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import Holding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.program.steps import Transfer
    from hypar.sharding.layout import Grid

Amount = NDArray[np.float64]
"""Elements on each device, or in each part of a level, ``[*devices]``, with one entry on an axis on which all have as many."""

Axes = tuple[int, ...]


def arriving(own: Transfer, array: Grid) -> tuple[Amount, ...]:
    """Return the elements of a transfer that arrive on each device of an array at each split above and each level, outermost first."""
    levels = [tuple(range(*ends)) for ends in pairwise((0, *array.stops))]
    if own.kind != "copy":
        found = [*_summed(own, levels)][::-1]
    else:
        # What no device has comes from other stages.
        found = [*_copied(own, levels, array.ways)] if own.have.elements.any() else []
    return tuple(map(array.inside, found))


@lru_cache(maxsize=4096)
def most_arriving(own: Transfer, array: Grid) -> float:
    """Return the most elements of a transfer that arrive on some device at a level."""
    return largest(arriving(own, array))


def shared(own: Transfer) -> Amount:
    """Return the elements that arrive on each device where another stage has terms of all that these have."""
    parts: tuple[int, ...] = own.copies.parts
    every = tuple(range(len(parts)))
    return _within(own.need, every).elements * _share(own, every, parts)


def largest(amounts: Iterable[Amount]) -> float:
    """Return the most elements that some device has of any of some amounts; 0 of none."""
    return max([float(np.max(own)) for own in amounts], default=0.0)


def largest_together(transfers: Iterable[Sequence[Amount]]) -> float:
    """Return the most elements that arrive on some device at a level of several transfers together."""
    return largest(np.asarray(sum(own)) for own in zip_longest(*transfers, fillvalue=np.zeros(1)))


def _copied(own: Transfer, levels: Sequence[Axes], ways: tuple[int, ...]) -> Iterator[Amount]:
    before = np.zeros(1)
    for level in levels:
        inner = tuple(range(level[-1] + 1, len(ways)))
        there, every = _within(own.have, inner), _within(own.need, inner)
        lacks = own.need.elements - own.need.shared(there)
        distinct = every.elements - every.shared(there)
        now = lacks * (distinct / np.maximum(_sum(lacks, inner, ways), 1))
        yield now - before
        before = now


def _summed(own: Transfer, levels: Sequence[Axes]) -> Iterator[Amount]:
    parts: tuple[int, ...] = own.copies.parts
    has, needs, inner = own.have, own.need, Axes()
    if has is not needs:
        wanted = zip(has.members, needs.members, strict=True)
        has = Holding(tuple([each & there.any(axis=tuple(range(there.ndim - 1))) for each, there in wanted]))
    for level in reversed(levels):
        if any(parts[at] > 1 for at in level):
            working = np.maximum(_sum(has.elements + needs.elements > 0, level, parts), 1)
            crossing = _crossing(has, needs, level, parts, back=own.kind == "return")
            yield crossing / working * _share(own, inner, parts)
        else:
            yield np.zeros(1)
        some = _within(has, level)
        has, needs, inner = some, some if needs is has else _within(needs, level), (*level, *inner)


def _crossing(has: Holding, needs: Holding, level: Axes, parts: Axes, *, back: bool) -> Amount:
    """Return the elements that parts of a level get of others of their group, or ``back``, of those that rest there."""

    def counted(own: Holding) -> tuple[Amount, Amount]:
        """Return the elements of all parts in all, and those that some part has."""
        total = _sum(own.elements, level, parts)
        return total, np.minimum(total, _within(own, level).elements)

    had, some = counted(has)
    if has is needs:
        return np.zeros(1) if back else 2 * (had - some)
    inside, kept = counted(_both(has, needs))
    meets = _both(_within(has, level), _within(needs, level)).elements
    if back:
        return had - inside - some + meets
    needed, wanted = counted(needs)
    return had - some + needed - wanted + meets - kept


def _share(own: Transfer, inner: Axes, parts: Axes) -> Amount:
    """Return the share of each device in what comes to its part: by the sums that it needs, or the terms that it has."""
    need, have = own.need.elements, own.have.elements
    needed, had = (_sum(each, inner, parts) for each in (need, have))
    return np.where(needed > 0, need / np.maximum(needed, 1), have / np.maximum(had, 1))


def _both(one: Holding, other: Holding) -> Holding:
    return Holding(tuple(map(np.logical_and, one.members, other.members)))


def _within(own: Holding, axes: Axes) -> Holding:
    first, *more = (tuple([np.asarray(dim.any(axis=axes, keepdims=True)) for dim in box]) for box in own.each)
    return Holding(first, tuple(more))


def _sum(amount: NDArray[Any], axes: Axes, counts: Axes) -> Amount:
    """Return the sum along some axes, of as many as are counted where all have as much."""
    alike = math.prod([counts[at] for at in axes if amount.shape[at] == 1])
    return np.asarray(amount.sum(axis=axes, keepdims=True) * float(alike))
