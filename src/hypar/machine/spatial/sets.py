"""Sets of processing elements on an array: layouts, their cycles, and the grids of sets that work side by side.

A set has R rows of the kernel by ``columns`` rows of the output; see ``compute_models/row_stationary.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class SetLayout(NamedTuple):
    """SetLayout of sets on the array.

    Attributes:
        kernel_rows: rows of a set that the array holds at once, R unless R exceeds the rows of the array.
        kernel_folds: parts of a kernel that is taller than the array.
        columns: output rows of one piece of a set.
        folds: pieces of a set, processed one after another.
        sets: sets processed side by side.
    """

    kernel_rows: int
    kernel_folds: int
    columns: int
    folds: int
    sets: int

    @property
    def active(self) -> int:
        """Processing elements active in a full piece."""
        return self.kernel_rows * self.columns * self.sets

    def rounds(self, planes: int, units: int) -> int:
        """Return the pieces that the array processes one after another for a number of planes."""
        return -(-planes // (self.sets * units)) * self.folds * self.kernel_folds


@lru_cache(maxsize=4096)
def layouts(
    rows: int, columns: int, kernel: int, height: int, *, line: bool = False
) -> tuple[SetLayout, ...]:
    """Return every layout of sets of ``kernel`` by ``height`` on an array, the widest pieces first.

    Pieces have equal widths but for the last, and two columns at least, so that F_in is shared along diagonals, unless
    the output has one row or the array has no room for two columns.

    Args:
        rows: rows of the array.
        columns: columns of the array.
        kernel: rows of the kernel.
        height: output rows.
        line: whether sets of several columns stand only below or only beside one another, and not both.
    """
    kernel_folds = -(-kernel // rows)
    kernel_rows = -(-kernel // kernel_folds)
    bands = rows // kernel_rows
    widest = min(height, bands * columns)
    widths = list(_even_widths(height, widest))
    kept = [width for width in widths if height // -(-height // width) >= 2] or widths[:1]
    each = [(width, -(-height // width), _sets(bands, columns, width, line=line)) for width in kept]
    return tuple(SetLayout(kernel_rows, kernel_folds, *own) for own in each)


def wider(
    layout: SetLayout, rows: int, columns: int, height: int, *, line: bool = False
) -> Iterator[SetLayout]:
    """Yield the layouts with wider pieces, but as many sets and pieces, the widest first; the last piece is narrower."""
    bands = rows // layout.kernel_rows
    widest = height if layout.folds == 1 else (height - 1) // (layout.folds - 1)
    for width in range(min(widest, bands * columns), layout.columns, -1):
        if _sets(bands, columns, width, line=line) == layout.sets:
            yield layout._replace(columns=width)


def _even_widths(height: int, widest: int) -> Iterator[int]:
    """Yield the widths of equal pieces of a set, from the widest that is allowed to a single column."""
    width = -(-height // -(-height // widest))
    while width > 1:
        yield width
        # The fewest pieces that are narrower.
        width = -(-height // ((height - 1) // (width - 1) + 1))
    yield 1


def _sets(bands: int, columns: int, width: int, *, line: bool) -> int:
    stacked = -(-width // columns)
    below, beside = bands // stacked, columns // width if stacked == 1 else 1
    return max(below, beside) if line and width > 1 else below * beside


@lru_cache(maxsize=1024)
def grids(sets: int, channels: int, filters: int, samples: int) -> tuple[tuple[int, int, int], ...]:
    """Return the grids of sets over channels, filters and samples that leave no room for one more along any of them."""
    found = []
    for r in range(1, min(sets, channels) + 1):
        room = sets // r
        for t in range(1, min(room, filters) + 1):
            b = min(room // t, samples)
            taken = t * b
            if (r == channels or (r + 1) * taken > sets) and (t == filters or taken + b > room):
                found.append((r, t, b))
    return tuple(found)
