"""Two-dimensional torus topology: each device is linked to four neighbours.

Positions of the array are laid out like an H-tree: each factor of the ways, outermost first, divides the
longer edge. Messages go along the row first, then along the column (dimension-ordered; Dally and Towles,
Principles and Practices of Interconnection Networks, 2004, section 8.4), the shorter way round. If both ways
round are equally long, ``dimension_ordered`` goes up and ``balanced`` sends half each way.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

from hypar.machine.edges import placed, square
from hypar.machine.listed import messages_on_grid
from hypar.machine.sets import on_grid
from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets


class Torus(Topology):
    """Torus as square as the number of devices allows; an edge of two has one link between its ends."""

    counts_sets: ClassVar[bool] = True

    routing: Literal["dimension_ordered", "balanced"] = "balanced"

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return one link to each neighbour."""
        rows, columns = square(devices)
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
        """Return the paths along the row, then along the column, each the shorter way round."""
        rows, columns = square(devices)
        found: list[tuple[float, int, tuple[Link, ...]]] = [(1.0, source, ())]
        for edge, stride in ((columns, 1), (rows, columns)):
            ways = self._ways_round((target // stride - source // stride) % edge, edge)
            walked = [
                (fraction * share, links, _walked(at, columns, edge, stride, steps))
                for fraction, at, links in found
                for share, steps in ways
            ]
            found = [(fraction, end, links + more) for fraction, links, (end, more) in walked]
        return [(fraction, links) for fraction, _, links in found]

    def _ways_round(self, away: int, edge: int) -> list[tuple[float, int]]:
        """Return signed steps along a ring, with the fraction of a message that takes them."""
        if 2 * away == edge and edge > 2 and self.routing == "balanced":
            return [(0.5, away), (0.5, away - edge)]
        return [(1.0, away if 2 * away <= edge else away - edge)]

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position: each factor divides the longer edge that it divides at all."""
        return placed(tuple(factors), *square(math.prod(factors)))

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return on_grid(sets, square(devices)[0], closed=True, balanced=self.routing == "balanced")

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages."""
        return messages_on_grid(sent, *square(devices), closed=True, balanced=self.routing == "balanced")

    def coordinates(self, device: int, devices: int) -> tuple[int, ...]:
        """Return row and column."""
        return divmod(device, square(devices)[1])


@lru_cache(maxsize=2**14)
def _walked(at: int, columns: int, edge: int, stride: int, steps: int) -> tuple[int, tuple[Link, ...]]:
    """Return the end of some steps along a row or column, and their links; many paths have these steps."""
    links: list[Link] = []
    for _ in range(abs(steps)):
        after = _beside(at, columns, edge, stride, 1 if steps > 0 else -1)
        links.append((at, after))
        at = after
    return at, tuple(links)


def _beside(device: int, columns: int, edge: int, stride: int, step: int) -> int:
    row, column = divmod(device, columns)
    if stride == 1:
        return row * columns + (column + step) % edge
    return (row + step) % edge * columns + column


plugin: type[Topology] = Torus
