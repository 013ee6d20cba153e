"""Pictures of grids: a row for each layer, a column for each level, a coloured cell with its word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.files.canvas import INK, MUTED, RULE, TEXT, blank, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_ROWS = 24
"""Number of rows above which equal neighbours become one row."""

_UNIT = 0.55
"""Width in inches of a column of one unit."""

_COST = 1.0
"""Width in inches of the column of costs."""


class Cell(NamedTuple):
    """A cell.

    Attributes:
        word: its text.
        width: its width: 1 for a halving.
        ground: its colour.
        ink: the colour of its text.
    """

    word: str
    width: float
    ground: str
    ink: str


class Row(NamedTuple):
    """A row: its name, the cells of each column, and its cost."""

    name: str
    cells: tuple[tuple[Cell, ...], ...]
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The data of a grid's picture.

    Attributes:
        title: title of the picture.
        heads: names of the columns.
        widths: width of each column: 1 for a two-way level.
        cost: name of the costs.
        shown: function that formats a cost with its unit.
        rows: rows, the first on top.
        legend: the meaning and the cell of each colour.
    """

    title: str
    heads: Sequence[str]
    widths: Sequence[float]
    cost: str
    shown: Callable[[float], str]
    rows: Sequence[Row]
    legend: Mapping[str, Cell]

    def picture(self) -> Any:
        """Draw the grid with matplotlib."""
        rows = _folded(self.rows) if len(self.rows) > MOST_ROWS else self.rows
        lefts = [sum(self.widths[:column]) for column in range(len(self.widths) + 1)]
        names = max(len(row.name) for row in rows) * 0.075
        width = max(4.5, names + _UNIT * lefts[-1] + _COST + 0.5)
        canvas, axes = blank(width, 1.2 + 0.27 * len(rows), self.title)
        for number, row in enumerate(rows):
            self._draw_row(axes, number, row, lefts)
        for head, left, wide in zip(self.heads, lefts, self.widths, strict=False):
            axes.text(
                left + wide / 2, -0.7, plain(head), ha="center", va="center", fontsize=TEXT, color=MUTED
            )
        room = _COST / _UNIT
        axes.text(
            lefts[-1] + room, -0.7, plain(self.cost), ha="right", va="center", fontsize=TEXT, color=MUTED
        )
        axes.set_yticks(range(len(rows)), [plain(row.name) for row in rows], family="monospace")
        axes.set_xticks([])
        axes.set(xlim=(0, lefts[-1] + room), ylim=(len(rows) - 0.5, -1.1))
        self._draw_legend(axes)
        return canvas

    def _draw_row(self, axes: Any, number: int, row: Row, lefts: Sequence[float]) -> None:
        for cells, start in zip(row.cells, lefts, strict=False):
            left = start
            for word, wide, ground, ink in cells:
                edge = RULE if ground == "#ffffff" else ground
                axes.barh(
                    number, wide - 0.06, left=left + 0.03, height=0.86, color=ground, edgecolor=edge, linewidth=0.6
                )  # fmt: skip
                axes.text(
                    left + wide / 2, number, plain(word), ha="center", va="center", color=ink,
                    fontsize=TEXT, family="monospace",
                )  # fmt: skip
                left += wide
        place = lefts[-1] + _COST / _UNIT
        axes.text(
            place, number, plain(self.shown(row.cost)), ha="right", va="center", fontsize=TEXT, color=INK
        )

    def _draw_legend(self, axes: Any) -> None:
        from matplotlib.patches import Patch  # noqa: PLC0415 (an extra, and slow to import)

        swatches = [
            Patch(
                facecolor=cell.ground, edgecolor=RULE, linewidth=0.4, label=plain(f"{cell.word}  {meaning}")
            )
            for meaning, cell in self.legend.items()
        ]
        axes.legend(
            handles=swatches, loc="upper left", bbox_to_anchor=(0, 0), ncols=max(1, min(3, len(swatches))),
            fontsize=TEXT, frameon=False, borderaxespad=0.2, handlelength=1.2,
        )  # fmt: skip


def _folded(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with neighbours of equal cells as one, which names its ends and has the sum of their costs."""
    found = []
    for cells, equal in groupby(rows, key=lambda row: row.cells):
        same = list(equal)
        ends = f"{same[0].name} to {same[-1].name} ×{len(same)}" if len(same) > 1 else same[0].name
        found.append(Row(ends, cells, math.fsum(row.cost for row in same)))
    return found
