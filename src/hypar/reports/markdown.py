"""Documents as Markdown, for a pull request or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.document import Note, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Document, Part

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "\\[", "|": "\\|"})
"""Characters that Markdown would take for HTML, for a link or for the end of a cell."""


def to_markdown(document: Document, *, full: bool = True) -> str:
    """Return a document with its tables in GitHub's syntax.

    Args:
        document: what to show.
        full: whether to show the notes on details too.
    """
    title = [f"**{_escaped(document.title)}**", _escaped(document.about)]
    blocks = [[line] for line in title if line.strip("*")]
    blocks += [block for part in document.parts for block in _part(part, 2, full=full)]
    blocks.append(_notes(document.notes, full=full))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _escaped(text: str) -> str:
    return " ".join(text.translate(_TEXT).split("\n"))


def _part(part: Part, level: int, *, full: bool) -> list[list[str]]:
    """Return the blocks of lines of a part; none for a picture."""
    if isinstance(part, Table):
        title = [[f"**{_escaped(part.title)}**"]] if part.title else []
        return [*title, _table(part)] if part.shown else []
    if isinstance(part, Note):
        return [_notes([part], full=full)]
    if isinstance(part, Section):
        below = [block for own in part.parts for block in _part(own, level + 1, full=full)]
        return [
            [f"{'#' * level} {_escaped(part.title)}"],
            *([[_escaped(part.about)]] if part.about else []),
            *below,
        ]
    return []


def _notes(notes: Iterable[Note], *, full: bool) -> list[str]:
    """Return a list of notes; one without a label continues the note above it."""
    return [
        f"- {_escaped(note.label)}: {_escaped(note.text)}" if note.label else f"- {_escaped(note.text)}"
        for note in notes
        if full or not note.detail
    ]


def _table(table: Table) -> list[str]:
    """Return a table without its bars, but with the texts that stand for them."""
    rows = [*table.rows, *([table.total] if table.total else [])]
    shown = [
        own
        for own in table.shown
        if own.unit != "bar" or any(isinstance(row.get(own.key), str) for row in rows)
    ]
    texts = [
        [
            own.text(row.get(own.key)) if isinstance(row.get(own.key), str) or own.unit != "bar" else ""
            for own in shown
        ]
        for row in table.rows
    ]
    if table.total:
        texts.append([own.text(table.total[own.key]) if own.key in table.total else "" for own in shown])
    heads = [" ".join(filter(None, [own.group, own.title])) for own in shown]
    return _lines(heads, "".join("r" if own.numeric else "-" for own in shown), texts)


def _lines(heads: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose columns stand at the right where ``align`` has an r."""
    rule = "|".join("--:" if side == "r" else "---" for side in align)
    cells = ([_escaped(text) for text in row] for row in (heads, *rows))
    first, *others = (f"| {' | '.join(row)} |" for row in cells)
    return [first, f"|{rule}|", *others]
