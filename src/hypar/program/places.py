"""The devices of an array and the parts into which its levels divide them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Places:
    """Devices as leaves of a tree of parts.

    Attributes:
        parts: for each level, outermost first, the number of the part in which each device lies, ``[devices]``;
            every part lies in one part of the level above.
    """

    parts: tuple[Numbers, ...]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.parts[0]) if self.parts else 1

    def members(self, level: int) -> tuple[Numbers, ...]:
        """Return the devices of each part of a level; of the whole array for level -1."""
        return self._members[level + 1]

    @cached_property
    def _members(self) -> tuple[tuple[Numbers, ...], ...]:
        whole = (np.arange(self.devices),)
        return whole, *(tuple(np.flatnonzero(own == part) for part in np.unique(own)) for own in self.parts)

    def inside(self, level: int) -> tuple[tuple[Numbers, tuple[Numbers, ...]], ...]:
        """Return the groups that a level splits, each with the parts that result."""
        return self._inside[level]

    @cached_property
    def _inside(self) -> tuple[tuple[tuple[Numbers, tuple[Numbers, ...]], ...], ...]:
        found = []
        for level in range(len(self.parts)):
            groups = self.members(level - 1)
            parts = self.members(level)
            found.append(
                tuple((group, tuple(part for part in parts if part[0] in group)) for group in groups)
            )
        return tuple(found)


def array_places(array: Sequence[int]) -> Places:
    """Return the devices of an array, numbered through its levels, outermost first.

    Examples:
        >>> [part.tolist() for part in array_places((2, 2)).parts]
        [[0, 0, 1, 1], [0, 1, 2, 3]]
    """
    devices = np.arange(int(np.prod(array, dtype=np.int64)))
    below = [int(np.prod(array[level + 1 :], dtype=np.int64)) for level in range(len(array))]
    return Places(tuple(devices // inner for inner in below))
