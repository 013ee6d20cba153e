"""Rings: each subgroup sends a shard to the next one, round after round.

Sources: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations (JPDC 2009), for
one ring; Chan, Heimlich, Purkayastha and van de Geijn, Collective Communication: Theory, Practice, and Experience
(CCPE 2007), for one edge of a grid after another; Jain and Sabharwal, Optimal Bucket Algorithms for Large MPI
Collectives on Torus Interconnects (ICS 2010), for all edges at once with the data in parts.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.machine.collectives.grids import Grid, Order, ring_order
from hypar.machine.collectives.steps import Exchange, Messages, Schedule, Step, merged, simultaneous

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def round_of(order: Order, amount: float) -> Messages:
    """Return the messages of one round of a ring."""
    return dict.fromkeys(pairwise((*order, order[0])), amount)


def ring(order: Order, rounds: int) -> Schedule:
    """Return the steps of one ring that carries all of the data."""
    return (Step(round_of(order, 1.0), rounds),)


def two_rings(order: Order, rounds: int) -> Schedule:
    """Return the steps of two rings of opposite directions, each with half of the data."""
    return (Step(merged([(0.5, round_of(order, 1.0)), (0.5, round_of(order[::-1], 1.0))]), rounds),)


class Lines:
    """Exchanges among the subgroups of each line of a grid, for a reduce-scatter along each edge in turn."""

    def __init__(self, grid: Grid, manner: str, hops: Callable[[int, int], int]) -> None:
        """Prepare the messages of a round along each edge.

        Args:
            grid: the subgroups.
            manner: ``ring``, ``two_rings`` or ``direct``, by which a line exchanges its shards.
            hops: number of links between two subgroups.
        """
        self.grid, self.manner = grid, manner
        self.lines = [tuple(grid.lines(axis)) for axis in range(len(grid.sizes))]
        self.rounds = (
            [] if manner == "direct" else [self._round(axis, hops) for axis in range(len(grid.sizes))]
        )

    def _round(self, axis: int, hops: Callable[[int, int], int]) -> tuple[Messages, int]:
        """Return the messages of a round, as fractions of the data of a subgroup, and the number of rounds."""
        size, lines = self.grid.sizes[axis], self.lines[axis]
        orders = [ring_order(line, hops) for line in lines]
        found = [(1.0, round_of(order, 1 / size)) for order in orders]
        if self.manner == "two_rings" and size > 2:
            found = [(0.5, round_of(way, 1 / size)) for order in orders for way in (order, order[::-1])]
        return merged(found), size - 1

    def in_turn(self, axes: Sequence[int]) -> Schedule:
        """Return a reduce-scatter along one edge after another."""
        found, data = list[Step](), self._whole
        for axis in axes:
            found += self._sent([(data, axis)])
            data /= self.grid.sizes[axis]
        return tuple(found)

    def at_once(self) -> Schedule:
        """Return a reduce-scatter with the data in a part for each edge, which each part begins with another one."""
        count, found = len(self.grid.sizes), list[Step]()
        data = [self._whole / count] * count
        for turn in range(count):
            axes = [(part + turn) % count for part in range(count)]
            found += self._sent(list(zip(data, axes, strict=True)))
            data = [amount / self.grid.sizes[axis] for amount, axis in zip(data, axes, strict=True)]
        return tuple(found)

    def _sent(self, parts: Sequence[tuple[float, int]]) -> list[Step]:
        """Return the steps in which amounts of data are exchanged, each along an edge, at the same time."""
        if self.manner != "direct":
            return simultaneous([(data, *self.rounds[axis]) for data, axis in parts])
        exchanges = [Exchange(self.lines[axis], data * (1 / self.grid.sizes[axis])) for data, axis in parts]
        return [Step({}, 1, exchanges=tuple(exchanges))]

    @property
    def _whole(self) -> float:
        """The bytes of a subgroup's terms, as a fraction of the bytes that it receives in a reduce-scatter."""
        subgroups = len(self.grid.cells)
        return subgroups / (subgroups - 1)
