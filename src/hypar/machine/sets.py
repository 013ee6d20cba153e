"""Loads of links when the devices of each of many sets exchange equal messages, counted without a list of the messages.

A message leaves a device as often as the set has targets, and reaches a target as often as the set has sources, so that the
messages over a link follow from sums of sources and of targets on its two sides: on a tree, and along the rows and columns
of a grid, where a message walks its row with the sources of one row and its column with the targets of one column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Amounts = NDArray[np.float64]
    Numbers = NDArray[np.int64]


class Sets(NamedTuple):
    """Sets of devices, each source of which sends an equal message to each target.

    Attributes:
        amounts: bytes of a message of each set.
        sources: how often each device is a source: [set, device].
        targets: how often each device is a target: [set, device].
    """

    amounts: Amounts
    sources: Amounts
    targets: Amounts


class Loads(NamedTuple):
    """Loads of links by the messages of sets.

    Attributes:
        busy: bytes over each link in bandwidths of one link, a row for each of two opposite directions: [2, link].
        total: bytes over all links.
        hops: links on the longest path of each set.
    """

    busy: Amounts
    total: float
    hops: Numbers


def on_switch(sets: Sets) -> Loads:
    """Return the loads of a link of each device to and from a switch."""
    amounts, sources, targets = sets
    up = sources * (targets.sum(axis=1, keepdims=True) - targets)
    down = targets * (sources.sum(axis=1, keepdims=True) - sources)
    busy = np.stack([amounts @ up, amounts @ down])
    return Loads(busy, float(busy.sum()), 2 * (up > 0).any(axis=1).astype(np.int64))


def between_all(sets: Sets) -> Loads:
    """Return the loads of links between any two devices."""
    amounts, sources, targets = sets
    there = (amounts[:, None] * sources).T @ targets
    np.fill_diagonal(there, 0.0)
    sent = sources.sum(axis=1) * targets.sum(axis=1) > (sources * targets).sum(axis=1)
    return Loads(np.stack([there, there.T]).reshape(2, -1), float(there.sum()), sent.astype(np.int64))


def on_tree(sets: Sets, *, summed: bool) -> Loads:
    """Return the loads of a binary tree with a leaf for each device and links twice as wide one level up.

    Args:
        sets: the sets.
        summed: whether the messages of a set load a link as one of them.
    """
    amounts, sources, targets = sets
    busy, total, hops = [np.zeros((2, 1))], 0.0, np.zeros(len(amounts), np.int64)
    width = 1
    while sources.shape[1] > 1:
        up = sources * (targets.sum(axis=1, keepdims=True) - targets)
        down = targets * (sources.sum(axis=1, keepdims=True) - sources)
        crossing = (up > 0).any(axis=1)
        if summed:
            up, down = (up > 0) * 1.0, (down > 0) * 1.0
        loads = np.stack([amounts @ up, amounts @ down])
        busy.append(loads / width)
        total, width, hops = total + float(loads.sum()), 2 * width, hops + 2 * crossing
        sources, targets = (own.reshape(len(amounts), -1, 2).sum(axis=2) for own in (sources, targets))
    return Loads(np.concatenate(busy, axis=1), total, hops)


def on_grid(sets: Sets, rows: int, *, closed: bool, balanced: bool = False) -> Loads:
    """Return the loads of a grid on which messages go along the row first, then along the column.

    Args:
        sets: the sets.
        rows: number of rows.
        closed: whether the ends of each row and column are joined, so that messages go the shorter way round.
        balanced: whether messages half round go half each way, and not all to the next device.
    """
    amounts = sets.amounts
    sources, targets = (own.reshape(len(amounts), rows, -1) for own in sets[1:])
    weighted = amounts[:, None, None] * sources
    along = [(weighted, targets.sum(axis=1, keepdims=True))]
    along += [(weighted.sum(axis=2)[:, None], targets.swapaxes(1, 2))]
    loads = [_round(*legs, balanced=balanced) if closed else _straight(*legs) for legs in along]
    busy = np.concatenate([own.reshape(2, -1) for own in loads], axis=1)
    return Loads(busy, float(busy.sum()), _farthest(sources, targets, closed=closed))


def _straight(sources: Amounts, targets: Amounts) -> Amounts:
    """Return the loads of lines: [2, line, link]; lines of one set of sources or of targets have these in common."""
    before, reached = sources.cumsum(axis=2), targets.cumsum(axis=2)
    there = before * (reached[:, :, -1:] - reached)
    back = (before[:, :, -1:] - before) * reached
    return np.stack([there.sum(axis=0), back.sum(axis=0)])


def _round(sources: Amounts, targets: Amounts, *, balanced: bool) -> Amounts:
    """Return the loads of rings: [2, ring, link]; link ``i`` is between device ``i`` and the next one."""
    size = sources.shape[2]
    halved = balanced and size > PAIR
    there = _walked(sources, targets, size // 2, halved=halved)
    if size == PAIR:
        return np.stack([there[:, :1], there[:, 1:]])
    return np.stack(
        [there, _walked(targets, sources, size // 2 if halved else (size - 1) // 2, halved=halved)]
    )


PAIR = 2
"""Devices of a ring that have one link, and not two, between them."""


def _walked(starts: Amounts, ends: Amounts, longest: int, *, halved: bool) -> Amounts:
    """Return the loads of rings between starts and the ends that are a number of devices on, which is not above ``longest``."""
    size, lines = starts.shape[2], max(starts.shape[1], ends.shape[1])
    found = np.zeros((lines, 2 * size))
    moved = _moved(starts, ends)
    for steps in range(1, longest + 1):
        amount = moved(steps) / (2 if halved and 2 * steps == size else 1)
        found[:, :size] += amount
        found[:, steps : steps + size] -= amount
    found = found.cumsum(axis=1)
    loads: Amounts = found[:, :size] + found[:, size:]
    return loads


def _moved(starts: Amounts, ends: Amounts) -> Callable[[int], Amounts]:
    """Return the function of bytes between each device of each ring and the one some devices on."""
    size = starts.shape[2]
    if len(starts) == 1 or (starts.shape[1] == 1 and ends.shape[1] == 1):
        twice = np.concatenate([ends, ends], axis=2)
        return lambda steps: (starts * twice[:, :, steps : steps + size]).sum(axis=0)
    if ends.shape[1] == 1:
        pairs = (starts.reshape(len(starts), -1).T @ ends[:, 0]).reshape(-1, size, size)
    else:
        pairs = (starts[:, 0].T @ ends.reshape(len(ends), -1)).reshape(size, -1, size).swapaxes(0, 1)
    places = np.arange(size)
    return lambda steps: pairs[:, places, (places + steps) % size]


def _farthest(sources: Amounts, targets: Amounts, *, closed: bool) -> Numbers:
    """Return the links of each set's longest path on a grid, by the offsets at which some target is from some source."""
    _, rows, columns = sources.shape
    shape = (rows, columns) if closed else (2 * rows, 2 * columns)
    spectra = [np.fft.rfft2(own > 0, s=shape) for own in (sources, targets)]
    offset = np.fft.irfft2(spectra[0].conj() * spectra[1], s=shape) > 0.5
    down, across = (np.minimum(np.arange(size), size - np.arange(size)) for size in shape)
    found: Numbers = np.where(offset, down[:, None] + across, 0).max(axis=(1, 2))
    return found


MOST_CELLS = 2**20
"""Most cells of a table of sets by devices."""
