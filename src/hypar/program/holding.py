"""Who holds which elements of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.tables import content_of, indices_of, kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.program.tables import Content

Members = NDArray[np.bool_]
"""Whether each device has each index of a dim, ``[devices, size]``."""

Box = tuple[NDArray[np.intp], ...]
"""The indices of each dim that one device has."""

Piece = Mapping[str, NDArray[np.intp]]
"""The indices of each dim of an op that one device computes."""


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
    def content(self) -> tuple[Content, ...]:
        """A key that holdings of the same elements share."""
        return tuple(content_of(own) for box in self.each for own in box)

    def __eq__(self, other: object) -> bool:
        """Return whether every device has the same indices of both."""
        return isinstance(other, Holding) and self.content == other.content

    def __hash__(self) -> int:
        """Return a hash of the content."""
        return hash(self.content)

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Indices of each dim of the first box, for each device."""
        return tuple(zip(*(indices_of(own) for own in self.members), strict=True))

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Number of elements of each device, ``[devices]``."""
        if self.more:
            (own,), weights = cells(self)
            return np.asarray((own * weights).reshape(self.devices, -1).sum(axis=1), np.int64)
        return np.asarray(np.prod([own.sum(axis=1) for own in self.members], axis=0, dtype=np.int64))

    def meets(self, other: Holding) -> bool:
        """Return whether some device has elements of both; devices of two stages have not."""
        return bool(((self.elements > 0) & (other.elements > 0)).any())

    def within(self, other: Holding) -> bool:
        """Return whether every device has in the other what it has in this."""
        if self.more or other.more:
            (mine, theirs), _ = cells(self, other)
            return not bool((mine & ~theirs).any())
        inside = np.all(
            [~(own & ~theirs).any(axis=1) for own, theirs in zip(self.members, other.members, strict=True)],
            axis=0,
        )
        return bool((inside | (self.elements == 0)).all())


Cells = NDArray[np.bool_]


def cells(*holdings: Holding) -> tuple[list[Cells], NDArray[np.int64]]:
    """Return the classes of elements that each device has of some holdings of a tensor, and their sizes.

    The indices of a dim that the same devices have are one class.

    Returns:
        For each holding ``[devices, classes of each dim]``; the elements of each cell.
    """
    weights: list[NDArray[np.int64]] = []
    boxes = [box for holding in holdings for box in holding.each]
    rows: list[list[Members]] = [[] for _ in boxes]
    for members in zip(*boxes, strict=True):
        stacked, counts = _classes(members)
        weights.append(counts)
        for own, part in zip(rows, stacked, strict=True):
            own.append(part)
    every = iter([outer(own) for own in rows])
    found = [reduce(np.logical_or, islice(every, len(holding.each))) for holding in holdings]
    return found, reduce(np.multiply.outer, weights)


def _classes(members: Sequence[Members]) -> tuple[list[Members], NDArray[np.int64]]:
    """Return one index of each class of a dim, ``[devices, classes]`` for each box, and the sizes of the classes."""
    stacked = np.concatenate(members)
    first, _, counts = kinds_of(stacked)
    return np.split(stacked[:, first], np.cumsum([len(own) for own in members])[:-1]), counts


def outer(rows: Sequence[Members]) -> Cells:
    """Return what each device has of a box on a grid, ``[devices, *indices of each dim]``."""
    found = rows[0]
    for own in rows[1:]:
        found = found[..., None] & own.reshape(len(own), *[1] * (found.ndim - 1), -1)
    return found


def everywhere(shape: Sequence[int], devices: int) -> Holding:
    """Return the holding of a whole tensor on every device."""
    return Holding(tuple(np.ones((devices, size), bool) for size in shape))


def flattened(members: Sequence[Members]) -> Members:
    """Return the indices of several dims as those of one, the first dim outermost."""
    found = members[0]
    for own in members[1:]:
        found = (found[:, :, None] & own[:, None, :]).reshape(len(found), -1)
    return found
