"""Who holds which elements of a tensor, as masks of the indices of each dim.

Few different masks occur in a program, however many layers it has, so what is found of one is kept by its content.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce, wraps
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from hypar.ops.run import Piece

P = ParamSpec("P")
T = TypeVar("T")

Members = NDArray[np.bool_]
"""Whether each device has each index of a dim, ``[devices, size]``."""

Cells = Members
"""Whether each device has each class of elements, ``[devices, classes of each dim]``."""

MOST_KEPT = 1024
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
        return value.shape, (np.packbits(value) if value.dtype == np.bool_ else value).tobytes()
    return tuple(map(key_of, value)) if isinstance(value, tuple) else getattr(value, "content", value)


def kinds_of(table: Members) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the different columns of a table in lexicographic order.

    Returns:
        The first column of each kind; the kind of each column; the number of columns of each kind.

    Examples:
        >>> kinds_of(np.array([[True, True, False], [False, False, True]]))[2].tolist()
        [1, 2]
    """
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
    rows = zip(*(indices_of(own) for own in dims.values()), strict=True)
    pieces = [dict(zip(dims, row, strict=True)) for row in rows]
    return tuple(
        own if all(len(at) for dim, at in own.items() if made is None or dim in made) else None
        for own in pieces
    )


@dataclass(frozen=True, eq=False)
class Holding:
    """The elements of a tensor that each device has: a box, which is a set of indices of each dim; idle devices have none.

    Attributes:
        members: for each dim of the tensor, whether each device has each index, ``[devices, size]``.
        more: further boxes, as of a weight that several layers use: a device has what is in any of its boxes.
    """

    members: tuple[Members, ...]
    more: tuple[tuple[Members, ...], ...] = ()

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.members[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dim of the tensor."""
        return tuple(own.shape[1] for own in self.members)

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
        """Number of elements of each device, ``[devices]``."""
        if self.more:
            (own,), weights = cells(self)
            return np.asarray((own * weights).reshape(self.devices, -1).sum(axis=1), np.int64)
        return np.asarray(np.prod([own.sum(axis=1) for own in self.members], axis=0, dtype=np.int64))

    def on(self, devices: NDArray[np.bool_]) -> Holding:
        """Return what some of the devices have."""
        first, *more = (tuple(own & devices[:, None] for own in box) for box in self.each)
        return Holding(first, tuple(more))

    def meets(self, other: Holding) -> bool:
        """Return whether some device has elements of both; devices of two stages have not."""
        return bool(((self.elements > 0) & (other.elements > 0)).any())


def cells(*holdings: Holding) -> tuple[list[Cells], NDArray[np.int64]]:
    """Return the classes of elements that each device has of some holdings of a tensor, and their sizes.

    The indices of a dim that the same devices have are one class.

    Returns:
        For each holding ``[devices, classes of each dim]``; the elements of each cell.
    """
    boxes, weights, rows = [box for holding in holdings for box in holding.each], [], []
    for members in zip(*boxes, strict=True):
        stacked = np.concatenate(members)
        first, _, counts = kinds_of(stacked)
        weights.append(counts)
        rows.append(np.split(stacked[:, first], len(boxes)))
    every = map(outer, zip(*rows, strict=True))
    found = [reduce(np.logical_or, islice(every, len(holding.each))) for holding in holdings]
    return found, reduce(np.multiply.outer, weights)


def outer(rows: Sequence[Members]) -> Cells:
    """Return what each device has of a box on a grid, ``[devices, *indices of each dim]``."""
    found = rows[0]
    for own in rows[1:]:
        found = found[..., None] & own.reshape(len(own), *[1] * (found.ndim - 1), -1)
    return found


def flattened(rows: Sequence[Members]) -> Members:
    """Return the indices of several dims as those of one, the first dim outermost."""
    return outer(rows).reshape(len(rows[0]), -1)
