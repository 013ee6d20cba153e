"""Two-dimensional torus, each device linked to four neighbours.

Positions of the array are laid out as an H-tree is: each factor of the ways, outermost first, divides the
longer side. Messages go along the row first, then along the column (dimension-ordered; Dally and Towles,
Principles and Practices of Interconnection Networks, 2004, section 8.4), the shorter way round; where both
ways round are equally long, ``dimension_ordered`` goes up and ``balanced`` sends half each way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Torus(Topology):
    """As square as the number of devices allows; a side of two has one link between its ends."""

    routing: Literal["dimension_ordered", "balanced"] = "balanced"

    def links(self, devices: int) -> Mapping[Link, float]:
        """One to each neighbour."""
        rows, columns = _sides(devices)
        return {
            (device, neighbour): 1.0
            for device in range(devices)
            for neighbour in (
                *(_beside(device, columns, columns, 1, step) for step in (1, -1)),
                *(_beside(device, columns, rows, columns, step) for step in (1, -1)),
            )
            if neighbour != device
        }

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """Along the row, then along the column, each the shorter way round."""
        rows, columns = _sides(devices)
        found: list[tuple[float, int, tuple[Link, ...]]] = [(1.0, source, ())]
        for side, stride in ((columns, 1), (rows, columns)):
            away = (target // stride - source // stride) % side
            found = [
                (part * share, *_walked(at, links, (columns, side, stride), steps))
                for part, at, links in found
                for share, steps in self._ways_round(away, side)
            ]
        return [(part, links) for part, _, links in found]

    def _ways_round(self, away: int, side: int) -> list[tuple[float, int]]:
        """Steps along a ring, signed, with the part of a message that takes them."""
        if 2 * away == side and side > 2 and self.routing == "balanced":
            return [(0.5, away), (0.5, away - side)]
        return [(1.0, away if 2 * away <= side else away - side)]

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Each factor divides the longer side that it divides at all."""
        return _places(tuple(factors))


def _walked(
    at: int, links: tuple[Link, ...], line: tuple[int, int, int], steps: int
) -> tuple[int, tuple[Link, ...]]:
    """Where some steps along a row or a column lead, and the links so far."""
    for _ in range(abs(steps)):
        after = _beside(at, *line, 1 if steps > 0 else -1)
        links, at = (*links, (at, after)), after
    return at, links


def _beside(device: int, columns: int, side: int, stride: int, step: int) -> int:
    """The neighbour one step along a side, round the end."""
    row, column = divmod(device, columns)
    if stride == 1:
        return row * columns + (column + step) % side
    return (row + step) % side * columns + column


@lru_cache(maxsize=64)
def _places(factors: tuple[int, ...]) -> tuple[int, ...]:
    """The device at each position."""
    devices = 1
    for factor in factors:
        devices *= factor
    rows, columns = _sides(devices)
    left, corners = [columns, rows], [(0, 0)]
    for factor in factors:
        fitting = [axis for axis in (0, 1) if left[axis] % factor == 0]
        if not fitting:
            return tuple(range(devices))
        axis = max(fitting, key=lambda side: (left[side], -side))
        left[axis] //= factor
        corners = [
            (column + digit * left[0], row) if axis == 0 else (column, row + digit * left[1])
            for column, row in corners
            for digit in range(factor)
        ]
    return tuple(row * columns + column for column, row in corners)


@lru_cache(maxsize=64)
def _sides(devices: int) -> tuple[int, int]:
    """Rows and columns, as nearly equal as may be."""
    rows = next(count for count in range(int(devices**0.5), 0, -1) if devices % count == 0)
    return rows, devices // rows


plugin: type[Topology] = Torus
