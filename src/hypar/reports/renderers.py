"""The forms in which a document is written, by name: Markdown is for a pull request or a page, CSV holds rows alone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from hypar.document import Note, Section, Table
from hypar.errors import UnknownNameError
from hypar.reports.html import fragment
from hypar.reports.terminal import width
from hypar.reports.text import columns_of, plain, render, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.document import Document, Part

FORMULA = frozenset("=+-@\t\r")
"""Characters with which a text begins that spreadsheets take for a formula."""

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "\\[", "|": "\\|", "\n": " "})
"""Characters that Markdown would take for HTML, for a link or for the end of a cell."""


def rendered(document: Document, form: str, *, full: bool = False) -> str:
    """Return a document in a form of ``FORMS``, ``full`` with the notes on details; raises ``UnknownNameError``."""
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](document, full=full)


def to_markdown(document: Document, *, full: bool = True) -> str:
    """Return a document with its tables in GitHub's syntax, and without its pictures."""
    blocks = [_paragraph(document.title, "**"), _paragraph(document.about)]
    blocks += [_markdown(part, depth) for depth, part in document.walk(full=full)]
    return "\n".join(filter(None, blocks)).rstrip() + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as CSV with a head; a text that spreadsheets take for a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _harmless(cell) for key, cell in row.items()} for row in rows)
    return stream.getvalue()


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell


def _markdown(part: Part, depth: int) -> str:
    """Return a part, of a section its head alone, with an empty line behind all but notes."""
    if isinstance(part, Note):
        return f"- {f'{part.label}: ' if part.label else ''}{part.text}".translate(_TEXT)
    if isinstance(part, Section):
        head = f"{'#' * (depth + 2)} {part.title.translate(_TEXT)}\n"
        return "\n".join(filter(None, [head, _paragraph(part.about)]))
    if isinstance(part, Table):
        return "\n".join(filter(None, [_paragraph(part.title, "**"), _table(part)]))
    return ""


def _paragraph(text: str, mark: str = "") -> str:
    return f"{mark}{text.translate(_TEXT)}{mark}\n" if text else ""


def _table(table: Table) -> str:
    """Return a table without its bars, but with the texts that stand for them."""
    columns = told(columns_of(table))
    rule = "|".join("--:" if own.column.numeric else "---" for own in columns)
    first, *rows = (
        f"| {' | '.join(text.translate(_TEXT) for text in row)} |"
        for row in zip(*([own.column.title, *own.texts] for own in columns), strict=True)
    )
    return "\n".join([first, f"|{rule}|", *rows, ""])


FORMS: dict[str, Callable[..., str]] = {
    "csv": lambda document, **_: csv_text(document.records()),
    "html": fragment,
    "markdown": to_markdown,
    "table": lambda document, full: plain(render(document, width(), full=full)),
}
