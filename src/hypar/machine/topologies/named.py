"""Trees and grids, whose messages are counted by the runs of places that they leave.

The H-tree is a binary fat tree whose links are twice as wide one level up, the switch a tree of one level.
Source: HyPar (HPCA 2019), section 6.1; Leiserson, Fat-Trees (1985).

In a grid each device is linked to its neighbours in its row and its column; a ring is one row.

Positions of the array are laid out like an H-tree: each factor of the ways, outermost first, divides the longer edge.
Messages go along the row first, then along the column (dimension-ordered; Dally and Towles, Principles and Practices
of Interconnection Networks, 2004, section 8.4), the shorter way round where ends are joined. If both ways round are equally
long, ``dimension_ordered`` goes up and ``balanced`` sends half each way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from hypar.machine.topologies.base import Loads, Numbers, Topology, Traffic, walked

Rows = Annotated[int, Field(ge=1, lt=2**20)]
Routing = Literal["dimension_ordered", "balanced"]

PAIR = 2
"""Devices of a ring that have one link, and not two, between them."""


# Trees


class Switch(Topology):
    """One link of each device to a non-blocking switch: a tree of one level."""

    def height(self, devices: int) -> int:
        """Return the number of levels, of which wider links count as as many of a leaf."""
        return int(devices > 1)

    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load."""
        busy, crossed, hops = [np.zeros((2, 1))], 0.0, np.zeros(len(sent[0]), np.int64)
        for level in range(self.height(devices)):
            out, into, moved = sent.leaving(1 << level)
            loads = np.stack([out, into])
            busy.append(loads / (1 << level))
            crossed, hops = crossed + float(loads.sum()), hops + 2 * moved
        return Loads(np.concatenate(busy, axis=1), crossed, hops)

    def num_links(self, devices: int) -> int:
        """Return the number of leaves."""
        return devices


class HTree(Switch):
    """Tree with a leaf for each device; the link up from 2**h leaves is as wide as 2**h links of a leaf.

    Attributes:
        reduction: ``in_tree`` if the inner nodes add up the messages of an all-reduce.
    """

    reduction: Literal["at_leaves", "in_tree"] = "at_leaves"

    @property
    def adds_up(self) -> bool:
        """Whether the inner nodes add up messages."""
        return self.reduction == "in_tree"

    def height(self, devices: int) -> int:
        """Return the number of levels; the links of each sum to the width of the leaves' ones."""
        return devices.bit_length() - 1

    def fault(self, devices: int) -> str | None:
        """Refuse a number of devices that is no power of two."""
        return None if devices & (devices - 1) == 0 else f"{devices} devices; allowed: a power of two"


# Grids


class _Grid(Topology):
    """Grid of rows and columns."""

    fixed: ClassVar[dict[str, Any]] = {}
    """Fields of ``Grid`` that are no choice."""

    def form(self) -> tuple[int | None, bool, bool]:
        """Return the rows, whether ends are joined, and whether messages half round go half each way.

        Without rows a grid is as square as the number of devices allows.
        """
        own = {"rows": None, "wrap": True, "routing": "dimension_ordered", **self.fixed, **dict(self)}
        return own["rows"], own["wrap"], own["routing"] == "balanced"

    def edges(self, devices: int) -> tuple[int, int]:
        rows = self.form()[0]
        return square(devices) if rows is None else (rows, devices // rows)

    def loads(self, sent: Traffic, devices: int) -> Loads:
        edges = self.edges(devices)
        legs: tuple[Traffic, Traffic] = sent.legs(*edges)
        _, closed, balanced = self.form()
        busy = [
            walked(leg, size, closed=joined, halved=joined and balanced)
            for leg, size, joined in zip(legs, edges[::-1], map(self._joined, edges[::-1]), strict=True)
        ]
        loads = np.concatenate(busy, axis=1)
        return Loads(loads, float(loads.sum()), sent.distances(*edges, closed=closed))

    def _joined(self, size: int) -> bool:
        """Return whether a line has a link between its ends besides those between neighbours."""
        return self.form()[1] and size > PAIR

    def num_links(self, devices: int) -> int:
        rows, columns = self.edges(devices)
        each = [size - (not self._joined(size)) for size in (rows, columns)]
        return rows * each[1] + columns * each[0]

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        return placed(tuple(factors), *self.edges(math.prod(factors)))

    def coordinates(self, device: Numbers, devices: int) -> tuple[Numbers, ...]:
        return tuple(np.divmod(device, self.edges(devices)[1]))

    def fault(self, devices: int) -> str | None:
        rows = self.edges(devices)[0]
        uneven = f"{rows} rows of {devices} devices; allowed: a divisor of {devices}"
        return uneven if devices % rows else None


class Grid(_Grid):
    """Grid of any kind.

    Attributes:
        rows: number of rows; None for a grid as square as the number of devices allows.
        wrap: whether the ends of each row and column are joined.
        routing: where messages half round go.
    """

    rows: Rows | None = None
    wrap: bool = True
    routing: Routing = "balanced"


class Torus(_Grid):
    """Grid with its ends joined, as square as the number of devices allows."""

    routing: Routing = "balanced"


class Mesh(_Grid):
    """Grid without links between its ends; as square as the number of devices allows, if it has no ``rows``."""

    fixed: ClassVar[dict[str, Any]] = {"wrap": False}

    rows: Rows | None = None


class Ring(_Grid):
    """One row with its ends joined, in the order of the array's positions; messages half round go up."""

    fixed: ClassVar[dict[str, Any]] = {"rows": 1}


@lru_cache(maxsize=64)
def placed(factors: tuple[int, ...], rows: int, columns: int) -> tuple[int, ...]:
    """Return the device at each position: each factor of the ways, outermost first, divides the longer edge that it divides at all."""
    left, corners = [columns, rows], [(0, 0)]
    for factor in factors:
        axis = max((0, 1), key=lambda axis: (left[axis] % factor == 0, left[axis], -axis))
        left[axis] //= factor
        corners = [
            (column + digit * left[0], row) if axis == 0 else (column, row + digit * left[1])
            for column, row in corners
            for digit in range(factor)
        ]
    return tuple(row * columns + column for column, row in corners)


@lru_cache(maxsize=64)
def square(devices: int) -> tuple[int, int]:
    """Return rows and columns of a grid as square as the number of devices allows, no more rows than columns."""
    rows = next(count for count in range(math.isqrt(devices), 0, -1) if devices % count == 0)
    return rows, devices // rows


plugins: dict[str, type[Topology]] = {
    "grid": Grid, "mesh": Mesh, "ring": Ring, "torus": Torus, "h_tree": HTree, "switch": Switch,
}  # fmt: skip
