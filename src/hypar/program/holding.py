"""Who works on what, and holds which elements of a tensor; how these come to others, and what ops read, as masks of the indices of each dim.

A piece of a dim is divided in the order of its indices, or in an order that keeps elements where they are: channels and samples
need not be consecutive, so a reader takes those that its maker's devices already have. Few different masks occur in a program, however many layers it has, so what is found of one is kept by its content.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce, wraps
from hashlib import blake2b
from itertools import accumulate, chain, pairwise, repeat
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from hypar.ops.nest import Operand, Projection
from hypar.ops.run import Piece
from hypar.ops.windows import Window
from hypar.sharding.layout import Grid, GroupShare, Layout, Numbers, Shares, places_of, shares_of
from hypar.sharding.placement import TINY, Choice, Options, digits_of, whole_ends

P = ParamSpec("P")
T = TypeVar("T")

Members = NDArray[np.bool_]
"""Whether each device has each index of a dim, ``[*devices, size]``.

The devices of a program are one axis; those of an array one for each of its levels, with one entry where a level changes nothing.
"""

MOST_KEPT = 512
"""Results of a function that are kept at most."""


def by_content(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that computes its results once for arguments whose arrays have equal entries."""
    found: dict[object, T] = {}

    @wraps(function)
    def kept(*args: P.args, **kwargs: P.kwargs) -> T:
        key = key_of(args)
        if key not in found:
            if len(found) == MOST_KEPT:
                del found[next(iter(found))]
            found[key] = function(*args, **kwargs)
        return found[key]

    return kept


def key_of(value: object) -> object:
    """Return a key that arrays with equal entries share, and tuples and objects of these."""
    if isinstance(value, np.ndarray):
        own = np.packbits(value) if value.dtype == np.bool_ else value
        return value.shape, blake2b(own.tobytes()).digest()
    return tuple(map(key_of, value)) if isinstance(value, tuple) else getattr(value, "content", value)


def kinds_of(table: Members) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first column of each kind in a table, in lexicographic order, each column's kind, and each kind's number."""
    packed = np.ascontiguousarray(np.packbits(table, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, which, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return first, which.reshape(-1), counts


@by_content
def indices_of(table: Members) -> tuple[NDArray[np.intp], ...]:
    """Return the indices that each device has."""
    return tuple(np.flatnonzero(row) for row in table)


def pieces_of(dims: Mapping[str, Members], made: Container[str] | None = None) -> tuple[Piece | None, ...]:
    """Return the indices of each dim for each device; None for a device that has none of some dim, or of some that is made."""
    pieces = (dict(zip(dims, row, strict=True)) for row in zip(*map(indices_of, dims.values()), strict=True))
    needed = [dim for dim in dims if made is None or dim in made]
    return tuple(own if all(len(own[dim]) for dim in needed) else None for own in pieces)


def flat(places: Sequence[int], *tables: Members) -> list[Members]:
    """Return some tables with the devices over which they vary on one axis, ``[devices, size]``."""
    return [np.broadcast_to(own, (*places, own.shape[-1])).reshape(-1, own.shape[-1]) for own in tables]


@dataclass(frozen=True, eq=False)
class Holding:
    """The elements of a tensor that each device has: a box, which is a set of indices of each dim; idle devices have none.

    Attributes:
        members: for each dim of the tensor, whether each device has each index, ``[*devices, size]``.
        more: further boxes, as of a weight that several layers use: a device has what is in any of its boxes.
    """

    members: tuple[Members, ...]
    more: tuple[tuple[Members, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dim of the tensor."""
        return tuple(own.shape[-1] for own in self.members)

    @property
    def each(self) -> tuple[tuple[Members, ...], ...]:
        """The members of every box."""
        return (self.members, *self.more)

    @cached_property
    def content(self) -> object:
        """A key that holdings of the same elements share."""
        return key_of(self.each)

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Number of elements of each device, ``[*devices]``."""
        return _united(self.each)

    def on(self, devices: NDArray[np.bool_]) -> Holding:
        """Return what some of the devices have."""
        return self._changed(lambda own: own & devices[..., None])

    def within(self, axes: tuple[int, ...]) -> Holding:
        """Return what any device of an array has of those along some axes."""
        return self._changed(lambda own: np.asarray(own.any(axis=axes, keepdims=True)))

    def _changed(self, of: Callable[[Members], Members]) -> Holding:
        first, *more = (tuple(map(of, box)) for box in self.each)
        return Holding(first, tuple(more))

    def both(self, other: Holding) -> Holding:
        """Return what each device has in the first boxes of both."""
        return Holding(tuple(map(np.logical_and, self.members, other.members)))

    def meets(self, other: Holding) -> bool:
        """Return whether some device has elements of both; devices of two stages have not."""
        return bool(((self.elements > 0) & (other.elements > 0)).any())

    def lacks(self, other: Holding) -> NDArray[np.bool_]:
        """Return whether each device has something in its boxes that it has not in those of the other."""
        found = np.zeros((), bool)
        for pairs in (zip(*boxes, strict=True) for boxes in zip(self.each, other.each, strict=True)):
            rows = [(own.any(axis=-1), (own & ~theirs).any(axis=-1)) for own, theirs in pairs]
            some, lacks = zip(*rows, strict=True)
            found = found | (reduce(np.logical_and, some) & reduce(np.logical_or, lacks))
        return found

    def one_each(self, held: Holding) -> Holding:
        """Return what each device reads, but rows of an image, or channels, that several pieces read by one of them.

        Where pieces overlap, an index belongs to the piece most of whose devices hold it, else to the one of the nearer middle.
        """
        dims = self.members
        rest = [
            _owned(dims[at], held.members[at], (*dims[:at], *dims[at + 1 :])) for at in range(1, len(dims))
        ]
        return Holding((dims[0], *rest))


def _united(boxes: Sequence[tuple[Members, ...]]) -> NDArray[np.int64]:
    first, *others = boxes
    if not others:
        return _size(first)
    shared = [tuple(own & theirs for own, theirs in zip(first, other, strict=True)) for other in others]
    return _size(first) + _united(others) - _united(shared)


def _size(members: Sequence[Members]) -> NDArray[np.int64]:
    return np.asarray(reduce(np.multiply, [own.sum(axis=-1) for own in members]), np.int64)


def outer(rows: Sequence[Members]) -> Members:
    """Return what each device has of a box on a grid, ``[*devices, *indices of each dim]``."""
    found, devices = rows[0], rows[0].ndim - 1
    for own in rows[1:]:
        found = found[..., None] & own.reshape(*own.shape[:-1], *[1] * (found.ndim - devices), -1)
    return found


def flattened(rows: Sequence[Members]) -> Members:
    """Return the indices of several dims as those of one, the first dim outermost."""
    found, devices = outer(rows), rows[0].ndim - 1
    return found.reshape(*found.shape[:devices], -1)


@dataclass(frozen=True, eq=False)
class Transfer:
    """What devices get of each other.

    By ``copy`` every device gets the elements that it needs and does not have. By ``add`` the terms that devices have are summed at an
    owner of each element, and sums are handed to those who need them. By ``return`` terms go the way back of what rests: to the nearest
    device that needs them, where they are terms again.

    Attributes:
        kind: what it does.
        have: who has what of its source.
        need: who gets what of its target.
        copies: whose terms are summed together, ``Copies``; None of what is copied.
        terms: whether several devices have terms of an element.
    """

    kind: Literal["copy", "add", "return"]
    have: Holding
    need: Holding
    copies: Any = None
    terms: bool = False

    @cached_property
    def moves(self) -> bool:
        """Whether it is needed: terms are to be summed, or devices lack something."""
        have = self.have if self.copies is None else self.have.on(self.copies.number >= 0)
        return self.terms or bool(self.need.lacks(have).any())

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Whether each device has what it needs, ``[*devices]``; sums that take the place of terms are there."""
        found = ~self.need.lacks(self.have) & (self.need.elements > 0)
        return found if self.copies is None else found | (self.need.elements >= self.have.elements)


# What ops read


def members(operand: Operand, dims: Mapping[str, Members]) -> tuple[Members, ...]:
    """Return the indices along each axis of a tensor that devices read, or make of a result, from those of the loop dims."""
    working = np.asarray(dims["batch"].any(axis=-1, keepdims=True))
    return tuple(_along(own, dims, working) for own in operand.axes.values())


def _along(own: Projection, dims: Mapping[str, Members], working: Members) -> Members:
    if own.turns or not own.dims:
        return np.repeat(working, own.size, axis=-1)
    if own.window is not None:
        return _read(own.window, dims[own.dims[0]], own.size)
    return dims[own.dims[0]] if len(own.dims) == 1 else flattened([dims[dim] for dim in own.dims])


def _read(window: Window, made: Members, size: int) -> Members:
    places, inputs, starts = _readers(window, made.shape[-1], size)
    found = np.zeros((*made.shape[:-1], size), bool)
    if len(inputs):
        found[..., inputs] = np.logical_or.reduceat(made[..., places], starts, axis=-1)
    return found


@lru_cache(maxsize=1024)
def taps(window: Window, made: int, size: int) -> NDArray[np.intp]:
    """Return the input that each tap of each output meets, -1 outside, ``[outputs, taps]``."""
    return np.asarray(window.taps(size, np.arange(made)))


@lru_cache(maxsize=1024)
def _readers(window: Window, made: int, size: int) -> tuple[NDArray[np.intp], ...]:
    """Return the outputs that read each input that is read, input by input; these inputs; where the outputs of each begin."""
    found = taps(window, made, size)
    places, which = np.nonzero(found >= 0)
    met = found[places, which]
    order = np.argsort(met, kind="stable")
    inputs, starts = np.unique(met[order], return_index=True)
    return places[order], inputs, starts


@by_content
def _owned(reading: Members, held: Members, others: Sequence[Members]) -> Members:
    """Return what each device reads of a dim, each index by one piece; pieces overlap only where the other dims are alike."""
    own = reading.reshape(-1, reading.shape[-1])
    if not (own[kinds_of(own.T)[0]].sum(axis=0) > 1).any():
        return reading
    places = np.broadcast_shapes(*[each.shape[:-1] for each in (reading, held, *others)])
    reading, held, *others = flat(places, reading, held, *others)
    first, which, _ = kinds_of(reading.T)
    pieces = reading[first]
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
    return found.reshape(*places, -1)


# Who works on what


@lru_cache(maxsize=4096)
def grid_of(digits: tuple[tuple[tuple[int, str], ...], ...], above: tuple[GroupShare, ...]) -> Grid:
    """Return the layout of a layer on an array.

    Each of its levels has the ways of each digit, and what the layer divides there; uneven splits are above.
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

    Pieces are consecutive, or chosen among the indices of tensors that devices have already where shares allow.
    """
    return _on_grid(layout, size, dim, held) if isinstance(layout, Grid) else _pieces(layout, size, dim, held)


def _on_grid(grid: Grid, size: int, dim: str, held: Sequence[Members]) -> Members:
    """Return consecutive pieces, unless they are to be chosen among others: then those of the devices of the levels that matter."""
    own = _in_order(grid, size, dim)
    whole = not any(dim in shares for shares in grid.levels)
    if whole or all(each.all() or (own == each).all() for each in held):
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
