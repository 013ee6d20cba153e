"""Reading of handwritten CSV files with the line of every row."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import DocumentError, shown
from hypar.files.text import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Row(NamedTuple):
    """A row of a file with a header: the number of its first line, from 1, and its nonempty cells by column."""

    line: int
    cells: dict[str, str]


def read_csv(file: Path) -> list[Row]:
    """Read a CSV file whose first row names the columns; empty rows and spaces around cells are ignored.

    Raises:
        DocumentError: the file cannot be read, is empty or not CSV, repeats a column, or has a row whose length differs
            from the first.
    """
    rows = _records(file, read_text(file))
    _, head = next(rows, (0, []))
    if not head:
        raise DocumentError(str(file), "the file is empty")
    twice = [column for column, times in Counter(head).items() if times > 1]
    if twice:
        raise DocumentError(f"{file}:1", f"column {shown(twice[0])} given twice", "once")
    found: list[Row] = []
    for line, cells in rows:
        if len(cells) != len(head):
            raise DocumentError(f"{file}:{line}", f"found {len(cells)} cells", f"{len(head)}, one a column")
        found.append(Row(line, {name: cell for name, cell in zip(head, cells, strict=True) if cell}))
    return found


def _records(file: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each nonempty row."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for record in reader:
            cells = [cell.strip() for cell in record]
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise DocumentError(f"{file}:{line}", f"not CSV: {error}") from error
