"""The forms in which a document is written, by name: Markdown is for a pull request or a page, CSV holds rows alone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from hypar.document import Note, Section, Table
from hypar.errors import UnknownNameError
from hypar.files.text import format_json
from hypar.reports.html import fragment
from hypar.reports.terminal import width
from hypar.reports.text import columns_of, plain, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    parts = (block for part in (*document.parts, *document.notes) for block in _part(part, 2, full=full))
    blocks = [*_paragraph(document.title, "**"), *_paragraph(document.about), *parts]
    return "\n".join(blocks).rstrip() + "\n"


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


def _part(part: Part, level: int, *, full: bool) -> Iterable[str]:
    """Yield the blocks of a part, those of tables and headings with an empty line behind them."""
    if isinstance(part, Table) and part.shown:
        yield from _paragraph(part.title, "**")
        yield _table(part)
    elif isinstance(part, Note) and (full or not part.detail):
        yield f"- {f'{part.label}: ' if part.label else ''}{part.text}".translate(_TEXT)
    elif isinstance(part, Section):
        yield f"{'#' * level} {part.title.translate(_TEXT)}\n"
        yield from _paragraph(part.about)
        for own in part.parts:
            yield from _part(own, level + 1, full=full)


def _paragraph(text: str, mark: str = "") -> Iterable[str]:
    return [f"{mark}{text.translate(_TEXT)}{mark}\n"] if text else []


def _table(table: Table) -> str:
    """Return a table without its bars, but with the texts that stand for them."""
    columns = [
        (own.column, own.texts) for own in columns_of(table) if own.column.unit != "bar" or any(own.texts)
    ]
    heads = [f"{own.group} {own.title}".strip() for own, _ in columns]
    rule = "|".join("--:" if own.numeric else "---" for own, _ in columns)
    first, *rows = (
        f"| {' | '.join(text.translate(_TEXT) for text in row)} |"
        for row in (heads, *zip(*(texts for _, texts in columns), strict=True))
    )
    return "\n".join([first, f"|{rule}|", *rows, ""])


FORMS: dict[str, Callable[..., str]] = {
    "csv": lambda document, **_: to_csv(document),
    "html": fragment,
    "markdown": to_markdown,
    "table": lambda document, full: plain(render(document, width(), full=full)),
}
