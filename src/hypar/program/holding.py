"""Who holds which elements of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Members = NDArray[np.bool_]
"""Whether each device has each index of a dim, ``[devices, size]``."""

Box = tuple[NDArray[np.intp], ...]
"""The indices of each dim that one device has."""


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
    def boxes(self) -> tuple[Box, ...]:
        """Indices of each dim, for each device."""
        return tuple(
            tuple(np.flatnonzero(own[device]) for own in self.members) for device in range(self.devices)
        )

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Number of elements of each device, ``[devices]``."""
        return np.asarray(np.prod([own.sum(axis=1) for own in self.members], axis=0, dtype=np.int64))

    def same(self, other: Holding) -> bool:
        """Return whether every device has the same elements of both."""
        return self is other or all(
            np.array_equal(own, theirs) for own, theirs in zip(self.members, other.members, strict=True)
        )

    def within(self, other: Holding) -> bool:
        """Return whether every device has in the other what it has in this."""
        inside = np.all(
            [~(own & ~theirs).any(axis=1) for own, theirs in zip(self.members, other.members, strict=True)],
            axis=0,
        )
        return bool((inside | (self.elements == 0)).all())


def copies_of(members: Sequence[Members]) -> NDArray[np.int64]:
    """Return which copy of its box each device has: 0 for the first device with that box, 1 for the next; -1 without one.

    Copies count only if all boxes have equally many, so that every copy is a complete set of boxes; otherwise only the
    first device with a box has one.
    """
    seen: dict[bytes, int] = {}
    found = np.full(len(members[0]), -1, np.int64)
    for device in range(len(found)):
        rows = [own[device] for own in members]
        if all(row.any() for row in rows):
            key = b"".join(np.packbits(row).tobytes() + b"|" for row in rows)
            found[device] = seen.get(key, 0)
            seen[key] = int(found[device]) + 1
    if len({*seen.values()}) > 1:
        found[found > 0] = -1
    return found


def everywhere(shape: Sequence[int], devices: int) -> Holding:
    """Return the holding of a whole tensor on every device."""
    return Holding(tuple(np.ones((devices, size), bool) for size in shape))
