"""Reading of handwritten CSV files with the line of every row."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import DocumentError, shown
from hypar.files.text import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_ROWS = 100_000
"""Largest number of rows in one file, including empty ones."""

MOST_COLUMNS = 100_000
"""Largest number of cells in one line."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Row(NamedTuple):
    """A row of a file with a header.

    Attributes:
        line: number of its first line, from 1.
        cells: nonempty cells by column.
    """

    line: int
    cells: dict[str, str]


def read_csv(file: Path) -> list[Row]:
    """Read a CSV file whose first row names the columns; empty rows and spaces around cells are ignored.

    Raises:
        DocumentError: the file cannot be read, is empty or not CSV, repeats a column, has a row whose length differs from
            the first, or exceeds ``MOST_ROWS`` rows or ``MOST_COLUMNS`` columns.
    """
    rows = _records(file, read_text(file))
    _, head = next(rows, (0, None))
    if head is None:
        raise DocumentError(str(file), "the file is empty")
    seen: set[str] = set()
    for column in head:
        if column in seen:
            raise DocumentError(f"{file}:1", f"column {shown(column)} given twice", "once")
        seen.add(column)
    found: list[Row] = []
    for line, cells in rows:
        if len(cells) != len(head):
            raise DocumentError(f"{file}:{line}", f"found {len(cells)} cells", f"{len(head)}, one a column")
        found.append(Row(line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}))
    return found


def _records(file: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each nonempty row."""
    reader = csv.reader(_lines(file, text), strict=True)
    line = 1
    try:
        for number, record in enumerate(reader):
            if number > MOST_ROWS:
                raise DocumentError(f"{file}:{line}", "too many rows", f"at most {MOST_ROWS:,}")
            cells = [cell.strip() for cell in record]
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise DocumentError(f"{file}:{line}", f"not CSV: {error}") from error


def _lines(file: Path, text: str) -> Iterator[str]:
    """Yield each line with its end; refuse lines of too many cells before they are split."""
    for number, found in enumerate(_LINE.finditer(text), 1):
        line = found[0]
        if line.count(",") >= MOST_COLUMNS:
            raise DocumentError(f"{file}:{number}", "too many columns", f"at most {MOST_COLUMNS:,}")
        yield line
