"""Building blocks of listings: plain data, tables and CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Data = list[dict[str, Any]]


def noted_table(heads: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose last column holds notes and has no head; omit the column if it is empty."""
    noted = any(row[-1] for row in rows)
    table = make_table([*heads, ""] if noted else heads, align)
    for row in rows:
        table.add_row(*(row if noted else row[:-1]))
    return table


def make_table(heads: Sequence[str], align: str) -> Table:
    """Return a table; ``align`` has a letter, l or r, for each column, and its last letter holds for the rest."""
    table = Table()
    for number, head in enumerate(heads):
        right = align[min(number, len(align) - 1)] == "r"
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    return table


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as CSV with a head."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def ratio(first: float | None, own: float) -> str:
    """Format the ratio of the first number to a row's own."""
    return (
        ""
        if first is None or not own
        else f"{first / own:.3f}"
        if first / own >= 0.01
        else f"{first / own:.2e}"
    )
