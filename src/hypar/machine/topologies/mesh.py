"""Two-dimensional mesh topology: each device is linked to its neighbours in its row and its column.

Positions of the array are laid out like an H-tree: each factor of the ways, outermost first, divides the longer edge.
Messages go along the row first, then along the column (dimension-ordered; Dally and Towles, Principles and Practices
of Interconnection Networks, 2004, section 8.4).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from hypar.machine.edges import placed, square
from hypar.machine.listed import messages_on_grid
from hypar.machine.sets import on_grid
from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets


class Mesh(Topology):
    """Grid without links between its ends.

    Attributes:
        rows: number of rows; None for a grid as square as the number of devices allows.
    """

    counts_sets: ClassVar[bool] = True

    rows: Annotated[int, Field(ge=1, lt=2**20)] | None = None

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return the links in both directions between neighbours."""
        rows, columns = self._edges(devices)
        pairs = [
            *((at, at + 1) for at in range(devices) if (at + 1) % columns),
            *((at, at + columns) for at in range((rows - 1) * columns)),
        ]
        return {link: 1.0 for one, other in pairs for link in ((one, other), (other, one))}

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """Return the path along the row, then along the column."""
        _, columns = self._edges(devices)
        corner = source // columns * columns + target % columns
        stops = [*_walk(source, corner, 1), *_walk(corner, target, columns), target]
        return [(1.0, tuple(itertools.pairwise(stops)))]

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position: each factor divides the longer edge that it divides at all."""
        return placed(tuple(factors), *self._edges(math.prod(factors)))

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return on_grid(sets, self._edges(devices)[0], closed=False)

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages."""
        return messages_on_grid(sent, *self._edges(devices), closed=False)

    def coordinates(self, device: int, devices: int) -> tuple[int, ...]:
        """Return row and column."""
        return divmod(device, self._edges(devices)[1])

    def fault(self, devices: int) -> str | None:
        """Refuse rows that do not divide the devices."""
        if self.rows is None or devices % self.rows == 0:
            return None
        return f"{self.rows} rows of {devices} devices; allowed: a divisor of {devices}"

    def _edges(self, devices: int) -> tuple[int, int]:
        return square(devices) if self.rows is None else (self.rows, devices // self.rows)


def _walk(start: int, end: int, stride: int) -> Sequence[int]:
    """Return the devices from start, included, to end, left out."""
    return range(start, end, stride if start < end else -stride)


plugin: type[Topology] = Mesh
