"""The indices that ops read of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hypar.network.windows import Window
    from hypar.program.holding import Members


def read(window: Window, made: Members, size: int) -> Members:
    """Return the indices of a dim that windows read to make outputs.

    Args:
        window: the window along the dim.
        made: the outputs that each device makes, ``[devices, outputs]``.
        size: number of indices.

    Returns:
        ``[devices, size]``.
    """
    taps = window.taps(size, made.shape[1])
    places, _ = np.nonzero(taps >= 0)
    read_by = np.zeros((made.shape[1], size), bool)
    read_by[places, taps[taps >= 0]] = True
    return np.asarray(made @ read_by)


def owned(reading: Members, held: Members) -> Members:
    """Return the indices that each device reads, but each by one of the pieces that read it.

    Where pieces overlap, an index belongs to the piece most of whose devices hold it, else to the one in whose middle it
    lies more nearly.

    Args:
        reading: the indices that each device reads; devices with equal rows have one piece.
        held: the indices that each device holds of the tensor that is read.
    """
    pieces, which = np.unique(reading, axis=0, return_inverse=True)
    which = which.reshape(-1)
    if not (pieces.sum(axis=0) > 1).any():
        return reading
    holding = np.zeros(pieces.shape)
    np.add.at(holding, which, held & reading)
    before, after = np.cumsum(pieces, axis=1), np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    depth = np.minimum(before, after) / (2.0 * pieces.shape[1])
    worth = np.where(pieces, holding + depth, -1.0)
    owner = worth.argmax(axis=0)
    return np.asarray((np.arange(len(pieces))[:, None] == owner)[which] & reading)
