"""Grids of subgroups: their coordinates in the networks, and orders in which a ring visits them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Order = tuple[int, ...]
"""Subgroups in the order of a ring."""


class Grid(NamedTuple):
    """Subgroups of a group as a grid.

    Attributes:
        sizes: length of each edge, outermost network first; all at least 2.
        cells: the subgroup in each cell, the last coordinate innermost.
    """

    sizes: tuple[int, ...]
    cells: tuple[int, ...]

    def lines(self, axis: int) -> Iterator[Order]:
        """Yield the subgroups of each line along an edge, in order."""
        stride = 1
        for size in self.sizes[axis + 1 :]:
            stride *= size
        for cell in range(len(self.cells)):
            if cell // stride % self.sizes[axis] == 0:
                yield tuple(self.cells[cell + number * stride] for number in range(self.sizes[axis]))


def grid_of(coordinates: Sequence[tuple[int, ...]]) -> Grid:
    """Return the grid of subgroups at some coordinates; a single line if they do not fill a grid."""
    values = [sorted(set(column)) for column in zip(*coordinates, strict=True)]
    sizes = [len(own) for own in values]
    at = {coordinate: subgroup for subgroup, coordinate in enumerate(coordinates)}
    cells = tuple(at.get(cell, -1) for cell in product(*values))
    if len(cells) != len(coordinates) or -1 in cells:
        return Grid((len(coordinates),), tuple(range(len(coordinates))))
    return Grid(tuple(size for size in sizes if size > 1), cells)


def ring_order(line: Order, hops: Callable[[int, int], int]) -> Order:
    """Return a line as a ring: as it is if its ends are neighbours, else there over every other one and back.

    Examples:
        >>> ring_order((0, 1, 2, 3, 4), lambda one, other: abs(one - other))
        (0, 2, 4, 3, 1)
    """
    if len(line) < 4 or hops(line[-1], line[0]) <= hops(line[0], line[1]):
        return line
    return (*line[::2], *line[1::2][::-1])


def hamiltonian(grid: Grid) -> Order | None:
    """Return a ring over neighbouring cells of a grid of two edges; None for another grid.

    An edge of even length is walked there and back, line by line, and the first cell of each line is left for the way home.
    If both are odd, the last cell is joined to the first.

    Examples:
        >>> hamiltonian(Grid((2, 3), (0, 1, 2, 3, 4, 5)))
        (0, 1, 2, 5, 4, 3)
    """
    if len(grid.sizes) != 2:
        return None
    even = next((axis for axis in (0, 1) if grid.sizes[axis] % 2 == 0), None)
    lines = list(grid.lines(1 if even in {0, None} else 0))
    if even is None:
        return tuple(cell for number, line in enumerate(lines) for cell in line[:: -1 if number % 2 else 1])
    out = [
        cell for number, line in enumerate(lines) for cell in (line[1:] if number % 2 == 0 else line[:0:-1])
    ]
    return (lines[0][0], *out, *(line[0] for line in reversed(lines[1:])))
