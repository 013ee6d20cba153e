"""What every listing is made of: plain data, tables, CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Data = list[dict[str, Any]]


def remarked_table(heads: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> Table:
    """A table whose last column is a remark without a head, left out where there is none."""
    remarks = any(row[-1] for row in rows)
    table = make_table([*heads, ""] if remarks else heads, align)
    for row in rows:
        table.add_row(*(row if remarks else row[:-1]))
    return table


def make_table(heads: Sequence[str], align: str) -> Table:
    """A table; ``align`` has a letter, l or r, for each column, its last letter for all the rest."""
    table = Table()
    for number, head in enumerate(heads):
        right = align[min(number, len(align) - 1)] == "r"
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
    return table


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal keys as CSV, with a head."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def ratio(first: float | None, own: float) -> str:
    """How many times one number goes into another."""
    return (
        ""
        if first is None or not own
        else f"{first / own:.3f}"
        if first / own >= 0.01
        else f"{first / own:.2e}"
    )
