"""Positions of an array on a grid of rows and columns."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=64)
def placed(factors: tuple[int, ...], rows: int, columns: int) -> tuple[int, ...]:
    """Return the device at each position: each factor divides the longer edge that it divides at all.

    Args:
        factors: prime factors of the array's ways, outermost first.
        rows: number of rows.
        columns: number of columns.
    """
    left, corners = [columns, rows], [(0, 0)]
    for factor in factors:
        fitting = [axis for axis in (0, 1) if left[axis] % factor == 0]
        if not fitting:
            return tuple(range(rows * columns))
        axis = max(fitting, key=lambda axis: (left[axis], -axis))
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
    rows = next(count for count in range(int(devices**0.5), 0, -1) if devices % count == 0)
    return rows, devices // rows
