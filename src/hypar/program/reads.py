"""The indices that ops read of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.holding import Holding, by_content, flattened, kinds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.ops.nest import Operand, Projection
    from hypar.ops.windows import Window
    from hypar.program.holding import Members


def members(operand: Operand, dims: Mapping[str, Members]) -> tuple[Members, ...]:
    """Return the indices along each axis of a tensor that devices read, or make of a result, from those of the loop dims."""
    working = np.asarray(dims["batch"].any(axis=1, keepdims=True))
    return tuple(_along(own, dims, working) for own in operand.axes.values())


def _along(own: Projection, dims: Mapping[str, Members], working: Members) -> Members:
    if own.turns or not own.dims:
        return np.repeat(working, own.size, axis=1)
    if own.window is not None:
        made = dims[own.dims[0]]
        return np.asarray(made @ _read_by(own.window, made.shape[1], own.size))
    return dims[own.dims[0]] if len(own.dims) == 1 else flattened([dims[dim] for dim in own.dims])


def reached(window: Window, held: Members, size: int) -> Members:
    """Return the outputs, ``[devices, size]``, of which devices hold something, ``[devices, inputs]``, that windows read."""
    return np.asarray(held @ _read_by(window, size, held.shape[1]).T)


def in_place(window: Window, held: Members, size: int) -> Members:
    """Return the outputs that devices compute where they hold what is read, as ``reached`` by a window of one element.

    An output that reads nothing goes with the next one.
    """
    reading = np.flatnonzero(_read_by(window, size, held.shape[1]).any(axis=1))
    nearest = np.abs(np.arange(size)[:, None] - reading).argmin(axis=1)
    return np.asarray(reached(window, held, size)[:, reading[nearest]])


def _read_by(window: Window, made: int, size: int) -> Members:
    """Return whether each output reads each index, ``[outputs, size]``."""
    taps = window.taps(size, np.arange(made))
    places, _ = np.nonzero(taps >= 0)
    found = np.zeros((made, size), bool)
    found[places, taps[taps >= 0]] = True
    return found


def one_each(reading: Holding, held: Holding) -> Holding:
    """Return what each device reads, but rows of an image, or channels, that several pieces read by one of them.

    Where pieces overlap, an index belongs to the piece most of whose devices hold it, else to the one in whose middle it
    lies more nearly.
    """
    dims = reading.members
    rest = [_owned(dims[at], held.members[at], (*dims[:at], *dims[at + 1 :])) for at in range(1, len(dims))]
    return Holding((dims[0], *rest))


@by_content
def _owned(reading: Members, held: Members, others: Sequence[Members]) -> Members:
    """Return what each device reads of a dim, each index by one piece; pieces overlap only where the other dims are alike."""
    first, which, _ = kinds_of(reading.T)
    pieces = reading[first]
    if not (pieces.sum(axis=0) > 1).any():
        return reading
    holding = np.zeros(pieces.shape)
    np.add.at(holding, which, held & reading)
    before, after = np.cumsum(pieces, axis=1), np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    depth = np.minimum(before, after) / (2.0 * pieces.shape[1])
    worth = np.where(pieces, holding + depth, -1.0)
    found = reading.copy()
    _, alike, counts = kinds_of(np.concatenate(others, axis=1).T)
    for group in range(len(counts)):
        devices = np.flatnonzero(alike == group)
        own = np.unique(which[devices])
        owner = own[worth[own].argmax(axis=0)]
        found[devices] &= which[devices, None] == owner
    return found
