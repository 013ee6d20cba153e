"""Who holds which elements of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.tables import content_of, indices_of

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
    """

    members: tuple[Members, ...]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.members[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dim of the tensor."""
        return tuple(own.shape[1] for own in self.members)

    @cached_property
    def content(self) -> tuple[Content, ...]:
        """A key that holdings of the same elements share."""
        return tuple(content_of(own) for own in self.members)

    def __eq__(self, other: object) -> bool:
        """Return whether every device has the same indices of both."""
        return isinstance(other, Holding) and self.content == other.content

    def __hash__(self) -> int:
        """Return a hash of the content."""
        return hash(self.content)

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Indices of each dim, for each device."""
        return tuple(zip(*(indices_of(own) for own in self.members), strict=True))

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Number of elements of each device, ``[devices]``."""
        return np.asarray(np.prod([own.sum(axis=1) for own in self.members], axis=0, dtype=np.int64))

    def meets(self, other: Holding) -> bool:
        """Return whether some device has elements of both; devices of two stages have not."""
        return bool(((self.elements > 0) & (other.elements > 0)).any())

    def within(self, other: Holding) -> bool:
        """Return whether every device has in the other what it has in this."""
        inside = np.all(
            [~(own & ~theirs).any(axis=1) for own, theirs in zip(self.members, other.members, strict=True)],
            axis=0,
        )
        return bool((inside | (self.elements == 0)).all())


def everywhere(shape: Sequence[int], devices: int) -> Holding:
    """Return the holding of a whole tensor on every device."""
    return Holding(tuple(np.ones((devices, size), bool) for size in shape))


def flattened(members: Sequence[Members]) -> Members:
    """Return the indices of several dims as those of one, the first dim outermost."""
    found = members[0]
    for own in members[1:]:
        found = (found[:, :, None] & own[:, None, :]).reshape(len(found), -1)
    return found
