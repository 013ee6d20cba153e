"""Who holds which elements of a tensor, how they come to others, and what ops read, as masks of the indices of each dim.

Few different masks occur in a program, however many layers it has, so what is found of one is kept by its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce, wraps
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from hypar.ops.nest import Operand, Projection
    from hypar.ops.run import Piece
    from hypar.ops.windows import Window

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
    sizes = [own.shape[-1] for own in tables]
    return [
        np.broadcast_to(own, (*places, size)).reshape(-1, size)
        for own, size in zip(tables, sizes, strict=True)
    ]


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


def _united(boxes: Sequence[tuple[Members, ...]]) -> NDArray[np.int64]:
    first, *others = boxes
    if not others:
        return _size(first)
    shared = [tuple(own & theirs for own, theirs in zip(first, other, strict=True)) for other in others]
    return _size(first) + _united(others) - _united(shared)


def _size(members: Sequence[Members]) -> NDArray[np.int64]:
    return np.asarray(reduce(np.multiply, [own.sum(axis=-1) for own in members]), np.int64)


def cells(*holdings: Holding) -> tuple[list[Members], NDArray[np.int64]]:
    """Return the classes of elements that each device has of some holdings of a tensor, and their sizes.

    The indices of a dim that the same devices have are one class.

    Returns:
        For each holding ``[devices, classes of each dim]``; the elements of each cell.
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
    """Return the inputs that devices read which make some outputs."""
    places, inputs, starts = _readers(window, made.shape[-1], size)
    found = np.zeros((*made.shape[:-1], size), bool)
    if len(inputs):
        found[..., inputs] = np.logical_or.reduceat(made[..., places], starts, axis=-1)
    return found


@lru_cache(maxsize=1024)
def _taps(window: Window, made: int, size: int) -> NDArray[np.intp]:
    """Return the input that each tap of each output meets, -1 outside, ``[outputs, taps]``."""
    return np.asarray(window.taps(size, np.arange(made)))


@lru_cache(maxsize=1024)
def _readers(window: Window, made: int, size: int) -> tuple[NDArray[np.intp], ...]:
    """Return the outputs that read each input that is read, input by input; these inputs; where the outputs of each begin."""
    taps = _taps(window, made, size)
    places, which = np.nonzero(taps >= 0)
    met = taps[places, which]
    order = np.argsort(met, kind="stable")
    inputs, starts = np.unique(met[order], return_index=True)
    return places[order], inputs, starts


def reached(window: Window, held: Members, size: int) -> Members:
    """Return the outputs, ``[*devices, size]``, of which devices hold something, ``[*devices, inputs]``, that windows read."""
    taps = _taps(window, size, held.shape[-1])
    return np.asarray((held[..., taps] & (taps >= 0)).any(axis=-1))


def in_place(window: Window, held: Members, size: int) -> Members:
    """Return the outputs that devices compute where they hold what is read, as ``reached`` by a window of one element.

    An output that reads nothing goes with the next one.
    """
    reading = np.flatnonzero((_taps(window, size, held.shape[-1]) >= 0).any(axis=1))
    nearest = np.abs(np.arange(size)[:, None] - reading).argmin(axis=1)
    return np.asarray(reached(window, held, size)[..., reading[nearest]])


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
