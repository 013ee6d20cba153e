"""The rows of documents as CSV and JSON."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from hypar.files.text import format_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.document import Document

FORMULA = frozenset("=+-@\t\r")
"""Characters with which a text begins that spreadsheets take for a formula."""


def to_csv(document: Document) -> str:
    """Format the rows of a document's first table as CSV."""
    return csv_text(document.records())


def to_json(document: Document) -> str:
    """Format the rows of a document's first table as JSON."""
    return format_json(document.records())


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as CSV with a head; a text that spreadsheets take for a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _harmless(cell) for key, cell in row.items()} for row in rows)
    return stream.getvalue()


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell
