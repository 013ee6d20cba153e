"""The pieces of one dim: which indices the cuts of a layer leave each device.

A piece is divided in the order of its indices, or in an order that keeps elements where they are: channels and samples
need not be consecutive, so a reader takes those that its maker's devices already have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.uneven.remainder import whole_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.program.cuts import Cuts, Shares
    from hypar.program.holding import Members
    from hypar.program.places import Numbers

Indices = NDArray[np.intp]
TINY = 1e-9


def divide(size: int, cuts: Cuts, dim: str, held: Members | None = None) -> Members:
    """Return the indices of a dim that each device gets.

    Args:
        size: number of indices.
        cuts: the cuts of the layer.
        dim: the dim of the layer's op.
        held: the indices that each device has already; the pieces are then chosen among them where shares allow.
            None for pieces of consecutive indices.

    Returns:
        ``[devices, size]``; nothing for an idle device.
    """
    # Devices whose pieces were alike so far have one number: pieces depend on the levels that divide the dim alone.
    alike = np.where(cuts.working, 0, -1)
    pieces = {0: np.arange(size)}
    for cut in cuts.levels:
        if dim in cut.bounds:
            low, high = cut.bounds[dim]
            below: dict[int, Indices] = {}
            after = np.full(len(alike), -1)
            for number, piece in pieces.items():
                shares = _shares(alike == number, low, high)
                ordered = piece if held is None else _in_place(piece, held, list(shares.values()))
                for devices, own in zip(shares.values(), _shared_out(ordered, [*shares]), strict=True):
                    after[devices] = len(below)
                    below[len(below)] = own if held is None else np.sort(own)
            alike, pieces = after, below
    found = np.zeros((len(alike), size), bool)
    for number, piece in pieces.items():
        found[np.ix_(np.flatnonzero(alike == number), piece)] = True
    return found


def _shared_out(ordered: Indices, shares: Sequence[tuple[float, float]]) -> list[Indices]:
    """Return the indices of each share: as evenly as possible, or by the largest remainders of uneven shares."""
    widths = [end - start for start, end in shares]
    if max(widths) - min(widths) > TINY and abs(sum(widths) - 1) < TINY:
        ends = np.cumsum([0.0, *whole_shares(len(ordered), widths)])
        shares = [*zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    return [
        ordered[int(start * len(ordered) + TINY) : int(end * len(ordered) + TINY)] for start, end in shares
    ]


def _shares(which: NDArray[np.bool_], low: Shares, high: Shares) -> dict[tuple[float, float], Numbers]:
    """Return the devices of each share among some devices, the first share first."""
    own = sorted({*zip(low[which].tolist(), high[which].tolist(), strict=True)})
    return {share: np.flatnonzero(which & (low == share[0]) & (high == share[1])) for share in own}


def _in_place(piece: Indices, held: Members, shares: Sequence[Numbers]) -> Indices:
    """Return the indices of a piece in the order in which consecutive shares stay where they are.

    Indices that the devices of the first share have come first, those of the next one after them. Indices that all have
    alike are mixed, so that each share has as many of every device's.
    """
    having = np.stack([held[np.ix_(devices, piece)].any(axis=0) for devices in shares])
    first = np.where(having.any(axis=0), having.argmax(axis=0), len(shares))
    _, kind = np.unique(held[np.ix_(np.concatenate(shares), piece)], axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    if (kind == kind[:1]).all():
        return piece
    counts = np.bincount(kind)
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(piece))
    rank[order] = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(piece[np.lexsort((kind, (rank + 0.5) / counts[kind], first))])
