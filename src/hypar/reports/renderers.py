"""The forms in which a document is written: Markdown for a pull request or a page, CSV for rows, HTML for notebooks and reports.

A fragment of HTML is one element with its own style, and without ids, scripts or links; a page needs nothing else. All text
is escaped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, TypeAlias

from hypar.document import Cell, Column, Document, Note, Part, Section, Table
from hypar.errors import UnknownNameError
from hypar.reports.plots import picture
from hypar.reports.terminal import width
from hypar.reports.text import Shown, columns_of, plain, render, tied, told
from hypar.reports.words import colours_of
from hypar.studies.step import StepRows

Content: TypeAlias = "str | Iterable[Content] | None"
"""The content of an element of HTML: markup, plain text, nothing, or several of them."""

THIN, FORMULA = "\u202f", frozenset("=+-@\t\r")
"""The narrow space between a number and its unit, where no line breaks; how a text begins that spreadsheets take for a formula."""

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "\\[", "|": "\\|", "\n": " "})
"""Characters that Markdown would take for HTML, for a link or for the end of a cell."""

AGAIN, KINDS = "Make it again", ("first", "second", "third")
HEAD = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n'


def rendered(document: Document, form: str, *, full: bool = False) -> str:
    """Return a document in a form of ``FORMS``, ``full`` with the notes on details; raises ``UnknownNameError``."""
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](document if full else document.shortened())


def to_markdown(document: Document) -> str:
    """Return a document with its tables in GitHub's syntax, and without its pictures."""
    blocks = [_paragraph(document.title, "**"), _paragraph(document.about)]
    blocks += [block for depth, part in document.walk() for block in _markdown(part, depth)]
    return "\n".join(filter(None, blocks)).rstrip() + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as CSV with a head; a text that spreadsheets take for a formula gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        risky = {key for key, own in row.items() if isinstance(own, str) and own[:1] in FORMULA}
        writer.writerow({key: f"'{own}" if key in risky else own for key, own in row.items()})
    return stream.getvalue()


def step_csv(rows: StepRows) -> str:
    """Return one line for each task of a step: name, kind, resource, start and end in seconds."""
    heads = ("task", "kind", "resource", "start_s", "end_s")
    each = ((own.name, own.piece.kind, own.piece.resource, own.start_s, own.end_s) for own in rows.tasks)
    return csv_text([dict(zip(heads, own, strict=True)) for own in each])


def _markdown(part: Part, depth: int) -> list[str]:
    """Return the blocks of a part, of a section its head alone, with an empty line behind all but notes."""
    if isinstance(part, Note):
        return [f"- {f'{part.label}: ' if part.label else ''}{part.text}".translate(_TEXT)]
    if isinstance(part, Section):
        return [_paragraph(part.title, before="#" * (depth + 2) + " "), _paragraph(part.about)]
    return [_paragraph(part.title, "**"), _markdown_table(part)] if isinstance(part, Table) else []


def _paragraph(text: str, mark: str = "", before: str = "") -> str:
    return f"{before}{mark}{text.translate(_TEXT)}{mark}\n" if text else ""


def _markdown_table(table: Table) -> str:
    columns = told(columns_of(table))
    rule = "|".join("--:" if own.column.numeric else "---" for own in columns)
    rows = zip(*([own.column.title, *own.texts] for own in columns), strict=True)
    first, *lines = (f"| {' | '.join(text.translate(_TEXT) for text in row)} |" for row in rows)
    return "\n".join([first, f"|{rule}|", *lines, ""])


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(element: str, *content: Content, **attributes: str | int | None) -> Markup:
    """Return an element, with spaces between its contents, so that their words stay apart where styles are not shown.

    ``class_`` stands for ``class``, any other ``_`` for ``-``, and an attribute that is None is left out.

    Examples:
        >>> tag("td", "a < b", class_="n", title='"x"')
        '<td class="n" title="&quot;x&quot;">a &lt; b</td>'
    """
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    start = "".join(f' {name}="{escape(str(value))}"' for name, value in given if value is not None)
    return Markup(f"<{element}{start}>{_markup(content)}</{element}>")


def fragment(document: Document) -> str:
    """Return a document as an element for a notebook, with the words that the terminal shows; ``plot`` draws its figures."""
    known = [own for own in (*document.parts, *document.notes) if isinstance(own, Note | Section | Table)]
    title = tag("p", document.title, class_=f"title {document.tone}".strip())
    body = [title, _line("p", document.about), [_part(own) for own in known]]
    return tag("div", tag("style", Markup(style())), *body, class_="hy") + "\n"


def page(document: Document, commands: Sequence[str] = (), footer: str = "") -> str:
    """Return the page of a document of sections, by the first words of their titles, with commands that make it again."""
    sections = {own.title.split()[0].lower(): own for own in document.parts if isinstance(own, Section)}
    titles = {name: own.title for name, own in sections.items()} | ({"again": AGAIN} if commands else {})
    title = tag("h1", document.title, class_=document.tone or None), tag("p", document.about, class_="lead")
    links = tag("nav", [tag("a", own, href=f"#{at}") for at, own in titles.items()], aria_label="Sections")
    head = tag("header", title, links, id="headline")
    lines = tag("pre", Markup(escape("\n".join(commands), quote=False)), tabindex=0)
    again = tag("section", tag("h2", AGAIN), lines, id="again") if commands else None
    body = [_part(own, id=name) for name, own in sections.items()]
    main = tag("main", head, body, again, _line("footer", footer))
    top = tag("head", Markup(HEAD), tag("title", document.title), tag("style", Markup(style())))
    return f'<!DOCTYPE html>\n<html lang="en">\n{top}{tag("body", main, class_="hy")}\n</html>\n'


def style() -> str:
    """Return the style of fragments and pages."""
    return (files("hypar.reports") / "report.css").read_text(encoding="utf-8")


def _markup(content: Content) -> str:
    if isinstance(content, Markup):
        return content
    if content is None or isinstance(content, str):
        return escape(tied(content or "", THIN), quote=False)
    return " ".join(filter(None, map(_markup, content)))


def _line(element: str, text: str, class_: str | None = None) -> Content:
    return tag(element, text, class_=class_) if text else None


def _scrolled(content: Markup, label: str) -> Markup:
    return tag("div", content, class_="x", tabindex=0, role="region", aria_label=label)


def _part(part: Part, *, folded: bool = False, id: str | None = None) -> Content:  # noqa: A002 (the attribute's name)
    """Return a part of a document; what is no text is drawn, and sections in sections are folded."""
    if isinstance(part, Table):
        return [_line("p", part.title, "title"), _table(part)] if part.shown else None
    if isinstance(part, Note):
        return tag("p", tag("b", part.label) if part.label else None, part.text, class_="note")
    if isinstance(part, Section):
        body = [_line("p", part.about, "note"), [_part(own, folded=True) for own in part.parts]]
        if folded:
            return tag("details", tag("summary", part.title), tag("div", body, class_="in"))
        return tag("section", tag("h2", part.title), body, id=id)
    return tag("figure", _scrolled(Markup(picture([part], part.title).svg()), part.title or "picture"))


def _table(table: Table) -> Markup:
    columns = columns_of(table)
    heads = [tag("th", _head(own.column), scope="col", class_=_side(own.column)) for own in columns]
    rows, count = [], len(table.rows)
    for at, row in enumerate([*table.rows, table.total][: len(columns[0].texts)]):
        name = tag("th", _content(columns[0], at), scope="row")
        found = [tag("td", _content(own, at), class_=_side(own.column)) for own in columns[1:]]
        rows.append(tag("tr", name, found, class_=(row or {}).get("tone") or None))
    parts = tag("thead", tag("tr", heads)), tag("tbody", rows[:count])
    total = tag("tfoot", rows[count:]) if table.total else None
    barred = any(own.column.unit == "bar" for own in columns)
    whole = tag("table", *parts, total, class_="full" if barred else None)
    return _scrolled(whole, table.title or "table")


def _head(own: Column) -> Content:
    if own.unit != "bar" or not own.title:
        return own.title
    kinds = zip(KINDS, own.title.split(", "), strict=False)
    return tag("span", [[tag("i", class_=kind), word] for kind, word in kinds], class_="bars")


def _content(own: Shown, at: int) -> Content:
    if own.column.unit == "bar" and not own.texts[at]:
        return _bar(own.bars[at], own.scale)
    if not isinstance(own.values[at], Cell):
        return own.texts[at]
    parts = []
    for word, dim in own.values[at].parts:
        ground, text, _ = colours_of(dim)
        look = None if dim == "whole" else f"background:{ground};color:{text}"
        parts.append(tag("i", word, class_=dim, style=look))
    return tag("span", parts, class_="choice") if parts else None


def _bar(parts: Sequence[float], scale: float) -> Markup:
    """Return a bar of parts in a cell that the longest one fills; what is longer is cut, with a mark."""
    whole = sum(parts)
    each = 100 / max(whole, scale) if scale else 0.0
    kinds = zip(parts, KINDS, strict=False)
    pieces = [tag("span", class_=kind, style=f"width:{each * part:.1f}%") for part, kind in kinds if part]
    return tag("span", pieces, class_="bars cut" if 0 < scale < whole else "bars")


def _side(own: Column) -> str | None:
    return "n" if own.numeric else "wide" if own.unit == "bar" else None


FORMS: dict[str, Callable[..., str]] = {
    "csv": lambda document: csv_text(document.records()), "html": fragment, "markdown": to_markdown,
    "table": lambda document: plain(render(document, width())),
}  # fmt: skip
