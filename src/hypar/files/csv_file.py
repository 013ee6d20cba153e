"""CSV files that people write, read with the line of every row."""

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
"""Rows of one file, empty ones too."""

MOST_COLUMNS = 100_000
"""Cells of one line."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Row(NamedTuple):
    """A row of a file with a head.

    Attributes:
        line: its first line, from 1.
        cells: what is not empty, by column.
    """

    line: int
    cells: dict[str, str]


def read_csv(file: Path) -> list[Row]:
    """Read a CSV file whose first row names the columns; empty rows and spaces around cells do not count.

    Raises:
        DocumentError: it cannot be read, is empty, not CSV, names a column twice, has a row of another length than the
            first, or more than ``MOST_ROWS`` rows or ``MOST_COLUMNS`` columns.
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
    """First line and cells of each row that has any."""
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
    """Each line with its end, refused before it becomes as many cells as it has commas."""
    for number, found in enumerate(_LINE.finditer(text), 1):
        line = found[0]
        if line.count(",") >= MOST_COLUMNS:
            raise DocumentError(f"{file}:{number}", "too many columns", f"at most {MOST_COLUMNS:,}")
        yield line
