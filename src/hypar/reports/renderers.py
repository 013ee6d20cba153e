"""The forms in which a document is written, by name; Markdown is for a pull request or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.document import Note, Section, Table
from hypar.errors import UnknownNameError
from hypar.reports.html import fragment
from hypar.reports.tables import to_csv
from hypar.reports.terminal import width
from hypar.reports.text import column_texts, plain, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypar.document import Document, Part

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "\\[", "|": "\\|", "\n": " "})
"""Characters that Markdown would take for HTML, for a link or for the end of a cell."""


def rendered(document: Document, form: str, *, full: bool = False) -> str:
    """Return a document in a form of ``FORMS``.

    Raises:
        UnknownNameError: there is no such form.
    """
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](document, full=full)


def to_markdown(document: Document, *, full: bool = True) -> str:
    """Return a document with its tables in GitHub's syntax, and without its pictures.

    Args:
        document: what to show.
        full: whether to show the notes on details too.
    """
    title = [f"**{document.title.translate(_TEXT)}**", document.about.translate(_TEXT)]
    parts = [block for part in (*document.parts, *document.notes) for block in _part(part, 2, full=full)]
    return (
        "".join(
            f"{block}\n" for block in [*(f"{line}\n" for line in title if line.strip("*")), *parts]
        ).rstrip()
        + "\n"
    )


def _part(part: Part, level: int, *, full: bool) -> Iterable[str]:
    """Yield the blocks of a part, those of tables and headings with an empty line behind them."""
    if isinstance(part, Table) and part.shown:
        yield from [f"**{part.title.translate(_TEXT)}**\n"] if part.title else []
        yield _table(part)
    elif isinstance(part, Note) and (full or not part.detail):
        yield f"- {f'{part.label}: ' if part.label else ''}{part.text}".translate(_TEXT)
    elif isinstance(part, Section):
        yield f"{'#' * level} {part.title.translate(_TEXT)}\n"
        yield from [f"{part.about.translate(_TEXT)}\n"] if part.about else []
        for own in part.parts:
            yield from _part(own, level + 1, full=full)


def _table(table: Table) -> str:
    """Return a table without its bars, but with the texts that stand for them."""
    columns = [(own, texts) for own, texts in column_texts(table) if own.unit != "bar" or any(texts)]
    heads = [f"{own.group} {own.title}".strip() for own, _ in columns]
    rule = "|".join("--:" if own.numeric else "---" for own, _ in columns)
    first, *rows = (
        f"| {' | '.join(text.translate(_TEXT) for text in row)} |"
        for row in (heads, *zip(*(texts for _, texts in columns), strict=True))
    )
    return "\n".join([first, f"|{rule}|", *rows, ""])


def _as_table(document: Document, *, full: bool) -> str:
    return plain(render(document, width(), full=full))


def _as_csv(document: Document, *, full: bool) -> str:  # noqa: ARG001 (rows are always whole)
    return to_csv(document)


FORMS: dict[str, Callable[..., str]] = {
    "csv": _as_csv,
    "html": fragment,
    "markdown": to_markdown,
    "table": _as_table,
}
