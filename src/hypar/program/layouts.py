"""Who works on what: the devices of a plan, the shares of each dim that its levels leave each of them, and their pieces.

A piece is divided in the order of its indices, or in an order that keeps elements where they are: channels and samples
need not be consecutive, so a reader takes those that its maker's devices already have.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import Members, by_content, flat, kinds_of
from hypar.sharding.layout import PART, Grid, GroupShare, Layout, Places, given_in, laid, places_of, shares_of
from hypar.sharding.placement import TINY, Choice, Options, digits_of, whole_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.sharding.layout import Numbers, Shares


def layouts_of(plan: Plan) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a plan and the layout of each of its layers.

    Pieces are laid digit by digit, transfers are counted level by level.
    """
    splits = given_in(plan.root)
    each = {name: laid(plan.root, name, splits) for name in plan.layers}
    levels, _ = next(iter(each.values()))
    digits, places = _places(levels), _places(laid(plan.root, "", {})[0])
    for own in (level for levels, _ in each.values() for level in levels):
        del own[PART]
    return places, {name: Layout(digits, tuple(own), working) for name, (own, working) in each.items()}


def _places(levels: Sequence[Mapping[str, Shares]]) -> Places:
    return Places(tuple(own[PART][:, 0].astype(np.int64) for own in levels))


@lru_cache(maxsize=4096)
def grid_of(digits: tuple[tuple[tuple[int, str], ...], ...], above: tuple[GroupShare, ...]) -> Grid:
    """Return the layout of a layer on an array.

    Args:
        digits: for each of its levels the ways of each digit, and what the layer divides there.
        above: its shares at the uneven splits above.
    """
    each = [*chain.from_iterable(digits)]
    array = (*(len(own.ends) for own in above), *(ways for ways, _ in each))
    parts = [*map(_of_groups, above), *(shares_of(label, ways) for ways, label in each)]
    working = np.ones([1] * len(parts), bool)
    for level, (_, works) in enumerate(parts):
        if not works.all():
            working = working & works.reshape([-1 if at == level else 1 for at in range(len(parts))])
    stops, levels = accumulate((*[1] * len(above), *map(len, digits))), tuple(shares for shares, _ in parts)
    return Grid(places_of(array), levels, working, array, tuple(own.own for own in above), tuple(stops))


def _of_groups(split: GroupShare) -> tuple[dict[str, Shares], NDArray[np.bool_]]:
    if split.dim is None:
        return {}, np.ones(len(split.ends), bool)
    shares = np.array([own or (0.0, 0.0) for own in split.ends])
    return {split.dim: shares}, np.array([*map(bool, split.ends)])


def grids(
    choices: Sequence[Options], above: Sequence[tuple[GroupShare, ...]], array: Sequence[int]
) -> list[Grid]:
    """Return the layouts of layers on an array, from their choices at each level and their shares at the uneven splits above."""
    each = [
        _digits(tuple(dict.fromkeys(own)), ways)
        for own, ways in zip(zip(*choices, strict=True), array, strict=True)
    ]
    rows = (tuple([level[choice] for level, choice in zip(each, own, strict=True)]) for own in choices)
    # Layers without shares of their own, as those that nothing divides, have all below each split.
    none = tuple(own._replace(dim=None) for own in above[0]) if above else ()
    return [grid_of(row, own) for row, own in zip(rows, chain(map(tuple, above), repeat(none)), strict=False)]


@lru_cache(maxsize=1024)
def _digits(choices: Options, ways: int) -> dict[Choice, tuple[tuple[int, str], ...]]:
    """Return what each of some choices divides at each digit of a level."""
    digits = digits_of(choices, ways)
    return {choice: tuple((own, labels[at]) for own, labels in digits) for at, choice in enumerate(choices)}


@by_content
def divide(size: int, layout: Layout, dim: str, held: Sequence[Members] = ()) -> Members:
    """Return the indices of a dim that each device gets, ``[*devices, size]``; nothing for an idle one.

    Args:
        size: number of indices.
        layout: the layout of the layer.
        dim: the dim of the layer's op.
        held: the indices of some tensors that each device has already; the pieces are then chosen among them where
            shares allow. Nothing for pieces of consecutive indices.
    """
    return _on_grid(layout, size, dim, held) if isinstance(layout, Grid) else _pieces(layout, size, dim, held)


def _on_grid(grid: Grid, size: int, dim: str, held: Sequence[Members]) -> Members:
    """Return consecutive pieces, unless they are to be chosen among others: then those of the devices of the levels that matter."""
    own = _in_order(grid, size, dim)
    if all(each.all() or (own == each).all() for each in held):
        return own
    over = np.broadcast_shapes(grid.working.shape, *[each.shape[:-1] for each in held])
    varies = [dim in shares or at > 1 for shares, at in zip(grid.levels, over, strict=True)]
    ways = tuple(count if varied else 1 for count, varied in zip(grid.ways, varies, strict=True))
    places = places_of(ways)
    levels = tuple(
        {dim: own[dim][part]} if dim in own else {}
        for own, part in zip(grid.levels, places.parts, strict=True)
    )
    working = np.broadcast_to(grid.working, ways).reshape(-1)
    return _pieces(Layout(places, levels, working), size, dim, flat(ways, *held)).reshape(*ways, size)


def _in_order(grid: Grid, size: int, dim: str) -> Members:
    start, end = np.zeros([1] * len(grid.ways), np.int64), np.full([1] * len(grid.ways), size)
    for level, shares in enumerate(grid.levels):
        if dim in shares:
            along = [-1 if at == level else 1 for at in range(len(grid.ways))]
            each = (np.floor((end - start) * share.reshape(along) + TINY) for share in shares[dim].T)
            start, end = (start + part.astype(np.int64) for part in each)
    at = np.arange(size)
    return (start[..., None] <= at) & (at < end[..., None]) & grid.working[..., None]


def _pieces(layout: Layout, size: int, dim: str, held: Sequence[Members]) -> Members:
    """Return the indices of a dim that each device gets; arguments as of ``divide``."""
    # Devices whose pieces were alike so far have one number: pieces depend on the levels that divide the dim alone.
    alike, pieces = np.where(layout.working, 0, -1), [np.arange(size)]
    for level, shares in enumerate(layout.levels):
        if dim in shares:
            groups = [group[alike[group] >= 0] for group, _ in layout.places.inside[level]]
            after, below = np.full(len(alike), -1), list[NDArray[np.intp]]()
            for number, given in _sharing([own for own in groups if len(own)], alike, shares[dim]):
                piece, ends = _shared(pieces[number], held, given)
                for devices, (start, end) in zip(given.values(), ends, strict=True):
                    after[devices] = len(below)
                    below.append(np.sort(piece[start:end]))
            alike, pieces = after, below
    found = np.zeros((len(alike), size), bool)
    for number, piece in enumerate(pieces):
        found[np.ix_(np.flatnonzero(alike == number), piece)] = True
    return found


def _sharing(
    groups: Sequence[Numbers], alike: Numbers, shares: Shares
) -> Iterator[tuple[int, dict[tuple[float, float], Numbers]]]:
    """Yield the devices of each share of a piece, the first share first, for all groups that share it alike together."""
    found: dict[tuple[int, tuple[tuple[float, float], ...]], list[Numbers]] = {}
    for group in groups:
        given = tuple(sorted({*map(tuple, shares[group].tolist())}))
        found.setdefault((int(alike[group[0]]), given), []).append(group)
    for (number, given), members in found.items():
        devices = np.concatenate(members)
        yield number, {share: devices[(shares[devices] == share).all(axis=1)] for share in given}


def _shared(
    piece: NDArray[np.intp], held: Sequence[Members], given: Mapping[tuple[float, float], Numbers]
) -> tuple[NDArray[np.intp], list[tuple[int, int]]]:
    """Return the indices of a piece in the order in which its shares stay where they are, with the ends of each share.

    Indices that the devices of the first share have of most tensors come first, those of the next one after them; where
    as many tensors speak for two shares, the first tensor decides. Indices that all have alike are mixed, so that each
    share has as many of every device's. Indices that none has fill up the shares that would else take those of others.
    """
    shares, ends = [*given.values()], whole_ends(len(piece), [*given])
    if not held:
        return piece, ends
    each = ([own[np.ix_(devices, piece)].any(axis=0) for devices in shares] for own in held)
    having = np.sum([(1 + 2.0**-number) * np.stack(own) for number, own in enumerate(each, start=1)], axis=0)
    first = np.where(having.any(axis=0), having.argmax(axis=0), len(shares))
    sizes = [end - start for start, end in ends]
    lacking = np.maximum(sizes - np.bincount(first, minlength=len(shares) + 1)[: len(shares)], 0)
    free, filled = np.flatnonzero(first == len(shares)), np.repeat(np.arange(len(shares)), lacking)
    first[free[: len(filled)]] = filled[: len(free)]
    working = np.concatenate(shares)
    _, kind, counts = kinds_of(np.concatenate([own[np.ix_(working, piece)] for own in held]))
    if len(counts) <= 1:
        return piece, ends
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(piece))
    rank[order] = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.lexsort((kind, (rank + 0.5) / counts[kind], first))
    return np.asarray(piece[order]), [*pairwise(accumulate(sizes, initial=0))]
