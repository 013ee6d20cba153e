"""The pieces of one dim: which indices the layout of a layer leaves each device.

A piece is divided in the order of its indices, or in an order that keeps elements where they are: channels and samples
need not be consecutive, so a reader takes those that its maker's devices already have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import by_content, kinds_of
from hypar.sharding.uneven.remainder import whole_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.program.holding import Members
    from hypar.program.layout import Layout, Numbers, Shares

Indices = NDArray[np.intp]


@by_content
def divide(size: int, layout: Layout, dim: str, held: Sequence[Members] = ()) -> Members:
    """Return the indices of a dim that each device gets.

    Args:
        size: number of indices.
        layout: the layout of the layer.
        dim: the dim of the layer's op.
        held: the indices of some tensors that each device has already; the pieces are then chosen among them where
            shares allow. Nothing for pieces of consecutive indices.

    Returns:
        ``[devices, size]``; nothing for an idle device.
    """
    # Devices whose pieces were alike so far have one number: pieces depend on the levels that divide the dim alone.
    alike = np.where(layout.working, 0, -1)
    pieces = {0: np.arange(size)}
    for level, shares in enumerate(layout.levels):
        if dim in shares:
            below: dict[int, Indices] = {}
            after = np.full(len(alike), -1)
            for number, piece in pieces.items():
                groups = [group[alike[group] == number] for group, _ in layout.places.inside(level)]
                for given in _given(groups, shares[dim]):
                    ordered = _in_place(piece, held, given) if held else piece
                    ends = whole_ends(len(piece), [*given])
                    for devices, (start, end) in zip(given.values(), ends, strict=True):
                        after[devices] = len(below)
                        below[len(below)] = np.sort(ordered[start:end])
            alike, pieces = after, below
    found = np.zeros((len(alike), size), bool)
    for number, piece in pieces.items():
        found[np.ix_(np.flatnonzero(alike == number), piece)] = True
    return found


def _given(groups: Sequence[Numbers], shares: Shares) -> Iterator[dict[tuple[float, float], Numbers]]:
    """Yield the devices of each share, the first share first, for all groups together that have the same shares."""
    alike: dict[tuple[tuple[float, float], ...], list[Numbers]] = {}
    for group in groups:
        if len(group):
            alike.setdefault(tuple(sorted({*map(tuple, shares[group].tolist())})), []).append(group)
    for own, members in alike.items():
        devices = np.concatenate(members)
        yield {share: devices[(shares[devices] == share).all(axis=1)] for share in own}


def _in_place(
    piece: Indices, held: Sequence[Members], given: Mapping[tuple[float, float], Numbers]
) -> Indices:
    """Return the indices of a piece in the order in which consecutive shares stay where they are.

    Indices that the devices of the first share have of most tensors come first, those of the next one after them; where
    as many tensors speak for two shares, the first tensor decides. Indices that all have alike are mixed, so that each
    share has as many of every device's. Indices that none has fill up the shares that would else take those of others.
    """
    shares = [*given.values()]
    having = np.zeros((len(shares), len(piece)))
    for number, own in enumerate(held, start=1):
        weight = 1 + 2.0**-number
        having += weight * np.stack([own[np.ix_(devices, piece)].any(axis=0) for devices in shares])
    first = np.where(having.any(axis=0), having.argmax(axis=0), len(shares))
    sizes = [end - start for start, end in whole_ends(len(piece), [*given])]
    lacking = np.maximum(sizes - np.bincount(first, minlength=len(shares) + 1)[: len(shares)], 0)
    free, filled = np.flatnonzero(first == len(shares)), np.repeat(np.arange(len(shares)), lacking)
    first[free[: len(filled)]] = filled[: len(free)]
    working = np.concatenate(shares)
    _, kind, counts = kinds_of(np.concatenate([own[np.ix_(working, piece)] for own in held]))
    if len(counts) <= 1:
        return piece
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(piece))
    rank[order] = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(piece[np.lexsort((kind, (rank + 0.5) / counts[kind], first))])
