"""Simulated transfers: elements move from device to device, level by level, and are counted as they arrive.

Arrays are stacked over devices, ``[devices, *shape]``, with NaN where a device has nothing. Nothing is sent by an amount
that was computed: a part asks for the elements that it needs and does not have, and each of them arrives once.

What each level moves is counted without a run as well, from who has and who needs what. Every element enters a part of a level from
outside at most once, and is handed on inside. The elements that are received at level h or further out are ``R(h)``, the sum over the
parts of level h of what they need and do not have; what level h itself moves is ``R(h) - R(h - 1)``. A tensor is counted on a small
grid of classes of indices, each weighted by its elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import Holding, Members, Transfer, by_content, kinds_of, outer
from hypar.program.lowering import Move
from hypar.sharding.layout import Numbers, Places

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def mask(holding: Holding) -> Mask:
    """Return the elements that each device has, ``[devices, *shape]``."""
    return reduce(np.logical_or, map(outer, holding.each))


def _sent(places: Places, have: Mask, need: Mask) -> Iterator[tuple[int, Any, Any]]:
    """Yield the elements that devices send until each has what it needs, outermost level first: the level, from where, and to where."""
    now = have.copy()
    for level in range(len(places.parts)) if (need & ~have).any() else ():
        for group, parts in places.inside[level]:
            holders = now[group].any(axis=0)
            sender = group[now[group].argmax(axis=0)]
            for part in parts:
                where = np.nonzero(need[part].any(axis=0) & ~now[part].any(axis=0) & holders)
                if len(where[0]):
                    receiver = part[need[part].argmax(axis=0)]
                    target = receiver[where], *where
                    now[target] = True
                    yield level, (sender[where], *where), target


def copy(places: Places, source: Array, have: Mask, need: Mask) -> tuple[Array, Numbers]:
    """Return the elements that each device needs, and how many of them it received, ``[levels, devices]``."""
    values, moved = np.where(have, source, np.nan), np.zeros((len(places.parts), len(need)), np.int64)
    for level, start, end in _sent(places, have, need):
        values[end] = values[start]
        moved[level] += np.bincount(end[0], minlength=len(need))
    return np.where(need, values, np.nan), moved


def add(places: Places, source: Array, terms: Mask, need: Mask, copies: Numbers) -> tuple[Array, Numbers]:
    """Return the sums that each device needs, and the elements that it received, ``[levels, devices]``.

    Terms are summed at a device that needs the sum, innermost level first, and then handed on.
    """
    target, moved = np.full(source.shape, np.nan), np.zeros((len(places.parts), len(need)), np.int64)
    for mine, gets in each_copy(copies, source.ndim - 1):
        having = terms & mine
        wanted = need & gets & having.any(axis=0)
        having = having & wanted.any(axis=0)
        owner = _owners(places, having, wanted)
        sums, received = reduced(places, source, having, owner)
        handed, gathered = copy(places, sums, owner, wanted)
        target = np.where(wanted, handed, target)
        moved += received + gathered
    return target, moved


def _owners(places: Places, having: Mask, wanted: Mask) -> Mask:
    """Return the owner of each element: a device that wants it, in the deepest part that has a term of it too."""
    depth = np.zeros(wanted.shape, np.int64)
    for level in range(len(places.parts)):
        for part in places.members(level):
            depth[part] += having[part].any(axis=0) & wanted[part].any(axis=0)
    owner = np.where(wanted, depth, -1).argmax(axis=0)
    chosen = np.arange(len(wanted)).reshape(-1, *[1] * (wanted.ndim - 1)) == owner
    return np.asarray(chosen & wanted)


def reduced(places: Places, source: Array, having: Mask, owner: Mask) -> tuple[Array, Numbers]:
    """Return the sums of the terms of each element at its owners, the nearest ones, and the elements received, ``[levels, devices]``.

    Terms go the way of a copy of the owners' elements back, the last step of it first.
    """
    values, moved = np.where(having, source, 0.0), np.zeros((len(places.parts), len(owner)), np.int64)
    for level, end, start in reversed([*_sent(places, owner, having)]):
        values[end] += values[start]
        moved[level] += np.bincount(end[0], minlength=len(owner))
    return np.where(owner, values, np.nan), moved


def shares(places: Places, step: Move, arrived: Numbers, stages: Numbers) -> Array:
    """Return what devices receive for a transfer where parts share what ``arrived``, ``[levels, devices]``.

    Of a copy, what several devices of a part lack comes to the part once, to each of them as much of it; the rest comes from the
    others. Of sums, each part that has terms or needs sums gets the same, but for stages what comes to them; its devices share it
    by the sums that they need.
    """
    if step.transfer.kind == "copy":
        return _of_copies(places, step)
    found = np.zeros(arrived.shape)
    for level, own in enumerate(arrived):
        for members, inside in places.inside[level]:
            sizes = [_size(step, part) for part in inside]
            parts = [(part, size) for part, size in zip(inside, sizes, strict=True) if size.any()]
            for part, size in parts:
                apart = len({*stages[members].tolist()}) > 1
                total = own[part].sum() if apart else own[members].sum() / len(parts)
                found[level, part] = total * size / size.sum()
    return found


def _of_copies(places: Places, step: Move) -> Array:
    (held, needed), weights = cells(step.transfer.have, step.transfer.need)
    each, before = needed & ~held, np.zeros(needed.shape)
    aside, found = tuple(range(1, needed.ndim)), np.zeros((len(places.parts), places.devices))
    for level in range(len(places.parts)):
        now = np.zeros(needed.shape)
        for part in places.members(level):
            lacking = each[part] & ~held[part].any(axis=0)
            now[part] = lacking / np.maximum(lacking.sum(axis=0), 1)
        found[level] = ((now - before) * weights).sum(axis=aside)
        before = now
    return found


def _size(step: Move, part: Numbers) -> Numbers:
    """Return the elements of sums that each device of a part needs, or of its terms if it needs none."""
    need = step.transfer.need.elements[part]
    return need if need.any() else step.transfer.have.elements[part]


# Counts


def cells(*holdings: Holding) -> tuple[list[Members], NDArray[np.int64]]:
    """Return the classes of elements of each holding, ``[devices, classes of each dim]``, and their sizes.

    The indices of a dim that the same devices have are one class.
    """
    boxes, weights, rows = [box for holding in holdings for box in holding.each], [], []
    for members in zip(*boxes, strict=True):
        devices = max(map(len, members))
        stacked = np.concatenate([np.broadcast_to(own, (devices, own.shape[-1])) for own in members])
        first, _, counts = kinds_of(stacked)
        weights.append(counts)
        rows.append(np.split(stacked[:, first], len(boxes)))
    every = map(outer, zip(*rows, strict=True))
    found = [reduce(np.logical_or, islice(every, len(holding.each))) for holding in holdings]
    return found, reduce(np.multiply.outer, weights)


def moved(places: Places, own: Transfer) -> Numbers:
    """Return the elements that each level moves by a transfer; of a return as many as of a copy the other way."""
    if own.kind == "return":
        return counted(places, own.need, own.have)
    return counted(places, own.have, own.need, own.copies and own.copies.number)


@by_content
def counted(places: Places, have: Holding, need: Holding, copies: Numbers | None = None) -> Numbers:
    """Return the elements that each level moves so that every device gets what it needs, ``[levels]``.

    Where devices have terms, of some copy, these are summed at one owner of each element first: a device that
    needs it, as near as possible to one that has a term. A part adds up its own terms before it sends one sum.
    """
    (having, needing), weights = cells(have, need)
    if copies is None:
        entering = [(needs & ~has).sum(axis=0) for has, needs in _by_part(places, having, needing)]
        return np.diff([(own * weights).sum() for own in entering[::-1]], prepend=0)
    total = np.zeros(len(places.parts), np.int64)
    for mine, gets in each_copy(copies, weights.ndim):
        wanted = needing & gets & (having & mine).any(axis=0)
        # Terms leave all parts that have some and sums enter all that want them, but for that of the owner.
        crossing = [
            has.sum(axis=0) - (has & wants).any(axis=0) + wants.sum(axis=0) - wants.any(axis=0)
            for has, wants in _by_part(places, having & mine & wanted.any(axis=0), wanted)
        ]
        total += np.diff([(own * weights).sum() for own in crossing[::-1]], prepend=0)
    return total


def _by_part(places: Places, *each: Members) -> Iterator[list[Members]]:
    """Yield for each level, the innermost first, what each part has of some holdings, ``[parts, classes of each dim]``."""
    of: Sequence[Sized] = places.members(len(places.parts) - 1)
    found = [own[np.concatenate(places.members(len(places.parts) - 1))] for own in each]
    for level in reversed(range(len(places.parts))):
        starts = np.cumsum([0, *map(len, of[:-1])])
        found = [np.logical_or.reduceat(own, starts, axis=0) for own in found]
        yield found
        of = [parts for _, parts in places.inside[level]]


def each_copy(copies: Numbers, dims: int) -> Iterator[tuple[Members, Members]]:
    """Yield for each copy of some terms who has it, and who gets its sums, ``[devices, *1 for each dim]``.

    Those that have no copy get the sums of the first.
    """
    copies = copies.reshape(-1, *[1] * dims)
    for copy in range(int(copies.max()) + 1):
        own = copies == copy
        yield own, own | ((copies < 0) & (copy == 0))
