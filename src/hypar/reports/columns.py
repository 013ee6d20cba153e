"""Tables without boxes that fit a width: no cell is ever cut, and no column with data is left out.

What a wide table gives up, in this order: its bars, the length of lines of prose, the second space between columns,
its way up (strategies become columns), one line a row, and columns beside each other.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.text import apart, wrapped
from hypar.reports.text import text_width as cell_len

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 2
"""Spaces between columns, as long as there is room for them."""

LONGEST_BAR, SHORTEST_BAR = 16, 4
"""Characters of a column of bars, at most and at least."""

LEAST_PROSE = 20
"""Characters to which a column of prose may shrink, if its longest word is no longer."""

COMPUTES, RECEIVES, LITTLE = "\u2501", "\u2505", "\u2578"
"""The marks of bars: computation, communication, and anything too short for either."""


class Cell(NamedTuple):
    """A text, or a bar before it.

    Attributes:
        text: the text.
        style: its style in a console.
        over: whether it may reach over the empty cells to its right.
        computes: length of a bar of computation, as a fraction of the longest bar.
        receives: length of the bar of communication behind that.
    """

    text: str = ""
    style: str = ""
    over: bool = False
    computes: float = 0.0
    receives: float = 0.0


Line = list[tuple[str, str]]
"""Texts, each with its style."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column with its cells.

    Attributes:
        head: its head; without head and cells it is left out.
        cells: one for each row.
        right: whether its cells stand at the right.
        key: whether it names the rows, and so stands in front of all others wherever they are.
        bar: whether its cells have bars, which are left out where there is no room.
        prose: whether its cells may have several lines.
        group: the head of several columns, above their own; a group's columns stay together.
    """

    head: str
    cells: Sequence[Cell]
    right: bool = False
    key: bool = False
    bar: bool = False
    prose: bool = False
    group: str = ""

    @cached_property
    def width(self) -> int:
        """Return the width that it needs for cells of one line."""
        return max(map(cell_len, (self.head, *(cell.text for cell in self.cells if not cell.over))))

    @cached_property
    def least(self) -> int:
        """Return the smallest width that it may have."""
        if not self.prose:
            return self.width
        words = (word for cell in self.cells if not cell.over for word in cell.text.split())
        return min(self.width, max(LEAST_PROSE, cell_len(self.head), *map(cell_len, words), 0))

    @property
    def empty(self) -> bool:
        """Return whether it shows nothing."""
        return not (self.head or any(cell.text or cell.computes or cell.receives for cell in self.cells))


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A table to which rows are added.

    Attributes:
        columns: its columns, without cells.
        turns: whether its rows may become columns; the key column's cells are then the heads.
        rows: the cells of each row.
    """

    columns: Sequence[Column]
    turns: bool = False
    rows: list[Sequence[Cell]] = field(default_factory=list)

    def add_row(self, *cells: str | Cell) -> None:
        """Add a row with a cell for each column."""
        self.rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])

    def filled(self) -> list[Column]:
        """Return the columns that show something, with their cells."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        full = (replace(column, cells=own) for column, own in zip(self.columns, cells, strict=True))
        return _widened([column for column in full if not column.empty])

    def lines(self, width: int) -> list[Line]:
        """Return its lines, none of them wider than the width unless a single cell is."""
        columns = self.filled()
        if not columns:
            return []
        shown = _beside(columns, width)
        if shown is None and self.turns:
            shown = _beside(_turned(columns), width)
        return shown if shown is not None else _below(_without_bars(columns), width)


def _widened(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with room for each group's name where another group follows."""
    found = list(columns)
    ends = [at for at, (one, other) in enumerate(itertools.pairwise(columns)) if one.group != other.group]
    for start, end in itertools.pairwise([-1, *ends]):
        own, name = columns[start + 1 : end + 1], columns[end].group
        lack = cell_len(name) - _needed([column.width for column in own])
        if name and columns[end + 1].group and lack > 0:
            found[end] = replace(found[end], head=found[end].head.ljust(found[end].width + lack))
    return found


def _without_bars(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with the texts beside bars alone."""
    plain = [replace(column, bar=False) if column.bar else column for column in columns]
    return [column for column in plain if column.head or any(cell.text for cell in column.cells)]


def _needed(widths: Sequence[int], gap: int = GAP) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _beside(columns: Sequence[Column], width: int) -> list[Line] | None:
    """Return the lines with all columns beside each other; None if they do not fit."""
    plain = _without_bars(columns)
    if any(column.bar for column in columns):
        room = width - _needed([0 if column.bar else column.width for column in columns])
        longest = min(room, LONGEST_BAR)
        drawn = [_drawn(column, longest) if column.bar else column for column in columns]
        widths = [column.width for column in drawn]
        if longest >= SHORTEST_BAR and _needed(widths) <= width:
            return _written(drawn, widths)
    for gap in (GAP, 1):
        fitted = _shrunk(plain, width - gap * (len(plain) - 1))
        if fitted is not None:
            return _written(plain, fitted, gap)
    return None


def _shrunk(columns: Sequence[Column], width: int) -> list[int] | None:
    """Return widths of columns that together have a width, prose as wide as can be; None if they are wider."""
    widths = [column.least for column in columns]
    left = width - sum(widths)
    if left < 0:
        return None
    for index in sorted(range(len(columns)), key=lambda index: columns[index].width):
        more = min(left, columns[index].width - widths[index])
        widths[index], left = widths[index] + more, left - more
    return widths


def _drawn(column: Column, longest: int) -> Column:
    """Return a column of bars as texts, each with its own text behind it."""
    texts = (" ".join(filter(None, [_bar(cell, longest), cell.text])) for cell in column.cells)
    cells = [Cell(text, cell.style) for text, cell in zip(texts, column.cells, strict=True)]
    return replace(column, cells=cells)


def _bar(cell: Cell, longest: int) -> str:
    """Draw a bar whose end is rounded, and so where its computation ends."""
    end, between = round((cell.computes + cell.receives) * longest), round(cell.computes * longest)
    if not end:
        return LITTLE if cell.computes or cell.receives else ""
    return COMPUTES * min(between, end) + RECEIVES * (end - between)


def _turned(columns: Sequence[Column]) -> list[Column]:
    """Return a column for each row, and a row for each column but the first."""
    first, *others = _without_bars(columns)
    heads = Column(head=first.head, cells=[Cell(column.head) for column in others], key=True)
    rows = [
        Column(head=name.text, cells=[column.cells[number] for column in others], right=True)
        for number, name in enumerate(first.cells)
    ]
    return [heads, *rows]


def _written(columns: Sequence[Column], widths: Sequence[int], gap: int = GAP) -> list[Line]:
    """Return the lines of columns of some widths."""
    heads, rows = _heads(columns, widths, gap), _rows(columns, widths, gap)
    return [*heads, *(line for row in rows for line in row)]


def _heads(columns: Sequence[Column], widths: Sequence[int], gap: int) -> list[Line]:
    """Return the line of the groups' names and that of the columns' heads, each if there are any."""
    heads = [_group_heads(columns), [Cell(column.head, "dim") for column in columns]]
    return [_line(row, columns, widths, gap) for row in heads if any(cell.text for cell in row)]


def _rows(columns: Sequence[Column], widths: Sequence[int], gap: int) -> list[list[Line]]:
    """Return the lines of each row."""
    return [
        _row(row, columns, widths, gap) for row in zip(*(column.cells for column in columns), strict=True)
    ]


def _group_heads(columns: Sequence[Column]) -> list[Cell]:
    """Return each group's name above its first column."""
    names = ["", *(column.group for column in columns)]
    return [
        Cell(name if name != before else "", "dim", over=True) for before, name in itertools.pairwise(names)
    ]


def _row(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], gap: int) -> list[Line]:
    """Return the lines of a row."""
    if any(column.prose for column in columns):
        folded = [
            [Cell(text, cell.style) for text in wrapped(cell.text, width)] if column.prose else [cell]
            for cell, column, width in zip(row, columns, widths, strict=True)
        ]
        return [_line(cells, columns, widths, gap) for cells in zip_longest(*folded, fillvalue=Cell())]
    return [_line(row, columns, widths, gap)]


def _line(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], gap: int) -> Line:
    """Return one line without blanks at its end."""
    line: list[tuple[str, str]] = []
    start = end = 0
    for cell, column, width in zip(row, columns, widths, strict=True):
        if cell.text:
            size = cell_len(cell.text)
            at = start + (width - size if column.right and not cell.over else 0)
            line += [(" " * (at - end), ""), (cell.text, cell.style)]
            end = at + size
        start += width + gap
    return line


def _below(columns: Sequence[Column], width: int) -> list[Line]:
    """Return the lines with groups of columns below each other, or with two lines a row."""
    keys = [column for column in columns if column.key]
    others = [column for column in columns if not column.key]
    front = _needed([key.width for key in keys]) + GAP if keys else 0
    prose = any(column.prose for column in others)
    grouped = any(column.group for column in columns)
    narrow = front + max((column.least for column in others), default=0) > width
    if keys and (narrow or (not grouped and front > width // (3 if prose else 2))):
        return _two_lines(keys, others, width)
    blocks = [[*keys, *block] for block in _blocks(others, width - front)]
    return apart([_block(block, width) for block in blocks])


def _blocks(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Divide columns into runs that fit a width; a group begins a run, columns without one stand where there is room."""
    found: list[list[Column]] = [[]]
    named = ""
    for column in columns:
        full = _needed([*(each.least for each in found[-1]), column.least]) > width
        if found[-1] and (full or (column.group not in {"", named} and named)):
            found.append([])
        found[-1].append(column)
        named = column.group or named
    return found


def _block(columns: Sequence[Column], width: int) -> list[Line]:
    """Return the lines of one run of columns, without the rows that say nothing there."""
    said = [
        number
        for number in range(len(columns[0].cells))
        if any(column.cells[number].text for column in columns if not column.key)
    ]
    kept = [replace(column, cells=[column.cells[number] for number in said]) for column in columns]
    lines = _beside(kept, width)
    return _written(kept, [column.width for column in kept]) if lines is None else lines


def _two_lines(keys: Sequence[Column], others: Sequence[Column], width: int) -> list[Line]:
    """Return the name of each row on a line of its own, its other cells indented below it."""
    names = [_named(keys, number) for number in range(len(keys[0].cells))]
    blocks = []
    for block in _blocks(others, width - GAP):
        room = width - GAP * len(block)
        widths, gap = _shrunk(block, room), GAP
        if widths is None:
            widths, gap = _shrunk(block, room + len(block) - 1) or [column.least for column in block], 1
        lines = [_indented(line) for line in _heads(block, widths, gap)]
        for name, row in zip(names, _rows(block, widths, gap), strict=True):
            lines += [[(part, name.style)] for part in wrapped(name.text, width)]
            lines += [_indented(line) for line in row if line]
        blocks.append(lines)
    return apart(blocks)


def _named(keys: Sequence[Column], number: int) -> Cell:
    """Return the name of a row as one text, with the heads where several columns name it."""
    cells = [key.cells[number] for key in keys]
    texts = [f"{key.head}: {cell.text}" for key, cell in zip(keys, cells, strict=True)]
    return cells[0] if len(keys) == 1 else Cell(", ".join(texts), cells[0].style)


def _indented(line: Line) -> Line:
    return [(" " * GAP, ""), *line]
