"""Documents as HTML: a fragment for notebooks, and a page that needs nothing else.

A fragment is one element with its own style, and without ids, scripts or links. All text is escaped.
"""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from hypar.document import Cell, Note, Section, Table
from hypar.reports import charts
from hypar.reports.palette import colours_of
from hypar.reports.svg import svg
from hypar.reports.text import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Column, Document, Part
    from hypar.reports.text import Shown

Content: TypeAlias = "str | Iterable[Content] | None"
"""The content of an element: markup, plain text, nothing, or several of them."""

THIN = "\u202f"
"""The narrow space between a number and its unit, where no line breaks."""

NAMES = frozenset({"layer", "task", "what"})
"""The keys of columns of names, which have letters of one width."""

HEAD = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n'

_QUANTITY = re.compile(r"(\d) ((?:[kMGTPmunpf]?(?:B|s|J|Hz)|%)(?![a-zA-Z]))")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(element: str, *content: Content, **attributes: str | int | None) -> Markup:
    """Return an element; ``class_`` stands for ``class``, any other ``_`` for ``-``, and an attribute that is None is left out.

    Examples:
        >>> tag("td", "a < b", class_="n", title='"x"')
        '<td class="n" title="&quot;x&quot;">a &lt; b</td>'
    """
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    start = "".join(f' {name}="{escape(str(value))}"' for name, value in given if value is not None)
    return Markup(f"<{element}{start}>{_markup(content)}</{element}>")


def fragment(document: Document, *, full: bool = False) -> str:
    """Return a document as an element for a notebook, with the words that the terminal shows; ``plot`` draws its figures."""
    known = [own for own in (*document.parts, *document.notes) if isinstance(own, Note | Section | Table)]
    title = tag("p", prose(document.title), class_=f"title {document.tone}".strip())
    body = [title, _line("p", document.about), [_part(own, full=full) for own in known]]
    return tag("div", _style(), *body, class_="hy") + "\n"


def page(document: Document, commands: Sequence[str] = (), footer: str = "") -> str:
    """Return the page of a document, with the commands that make it again and a last line.

    The ids of its sections are the first words of their titles.
    """
    sections = {own.title.split()[0].lower(): own for own in document.parts if isinstance(own, Section)}
    links = [(name, own.title) for name, own in sections.items()] + [("again", AGAIN)] * bool(commands)
    head = tag(
        "header",
        tag("h1", prose(document.title), class_=document.tone or None),
        tag("p", prose(document.about), class_="lead"),
        [_part(own) for own in document.parts if not isinstance(own, Section)],
        [_part(own, full=False) for own in document.notes],
        tag("nav", [tag("a", title, href=f"#{name}") for name, title in links], aria_label="Sections"),
        id="headline",
    )
    lines = tag("pre", "\n".join(commands), tabindex=0)
    again = tag("section", tag("h2", AGAIN), lines, id="again") if commands else None
    body = [_part(own, id=name) for name, own in sections.items()]
    main = tag("main", head, body, again, _line("footer", footer))
    top = tag("head", Markup(HEAD), tag("title", prose(document.title)), _style())
    return f'<!DOCTYPE html>\n<html lang="en">\n{top}{tag("body", main, class_="hy")}\n</html>\n'


AGAIN = "Make it again"


def style() -> str:
    """Return the style of fragments and pages."""
    return (files("hypar.reports") / "report.css").read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Return a text whose numbers are not split from their units."""
    return _QUANTITY.sub(rf"\1{THIN}\2", text)


def _style() -> Markup:
    return tag("style", Markup("\n" + style()))


def _markup(content: Content) -> str:
    if content is None or isinstance(content, str):
        return content if isinstance(content, Markup) else escape(content or "", quote=False)
    return "".join(map(_markup, content))


def _line(element: str, text: str, class_: str | None = None) -> Content:
    return tag(element, prose(text), class_=class_) if text else None


def _spaced(parts: Iterable[Markup]) -> Markup:
    """Join elements by spaces, so that their words stay apart where styles are not shown."""
    return Markup(" ".join(parts))


def _scrolled(content: Markup, label: str) -> Markup:
    """Return a part that scrolls by itself where it is too wide."""
    return tag("div", content, class_="x", tabindex=0, role="region", aria_label=label)


def _part(part: Part, *, full: bool = True, folded: bool = False, id: str | None = None) -> Content:  # noqa: A002 (the attribute's name)
    """Return a part of a document, ``full`` with the notes on details; what is no text is drawn, and sections in sections are folded."""
    if isinstance(part, Table):
        return [_line("p", part.title, "title"), _table(part)] if part.shown else None
    if isinstance(part, Note):
        label = [tag("b", part.label), " "] if part.label else []
        return tag("p", label, prose(part.text), class_="note") if full or not part.detail else None
    if isinstance(part, Section):
        body = [_line("p", part.about, "note"), [_part(own, full=full, folded=True) for own in part.parts]]
        if folded:
            return tag("details", tag("summary", part.title), tag("div", body, class_="in"))
        return tag("section", tag("h2", part.title), body, id=id)
    return tag("figure", _scrolled(Markup(svg(charts.picture([part], part.title))), part.title or "picture"))


def _table(table: Table) -> Markup:
    columns = columns_of(table)
    heads = [tag("th", own.column.title, scope="col", class_=_side(own.column)) for own in columns]
    cells = [
        _spaced(_cell(own, at, first=own is columns[0]) for own in columns)
        for at in range(len(columns[0].texts))
    ]
    body = [
        tag("tr", own, class_=row.get("tone") or None) for own, row in zip(cells, table.rows, strict=False)
    ]
    whole = tag(
        "table",
        tag("thead", tag("tr", _spaced(heads))),
        tag("tbody", Markup("\n".join(body))),
        tag("tfoot", tag("tr", cells[-1])) if table.total else None,
        class_="full" if any(own.column.unit == "bar" for own in columns) else None,
    )
    return _scrolled(whole, table.title or "table")


def _cell(own: Shown, at: int, *, first: bool) -> Markup:
    """Return the cell of a column at a row; of the first column it is the head of its row."""
    column, value, text = own.column, own.values[at], own.texts[at]
    content: Content = _choice(value) if isinstance(value, Cell) else prose(text)
    if column.unit == "bar" and not text:
        content = _bar(own.bars[at], own.scale)
    if first:
        return tag("th", content, scope="row", class_="m" if column.key in NAMES else None)
    return tag("td", content, class_=_side(column))


def _choice(value: Cell) -> Content:
    """Return a choice in the colours of the dims that it cuts."""
    parts = []
    for word, dim, _ in charts.pieces(value) if value.text else ():
        ground, text, _ = colours_of(dim)
        look = None if dim == "whole" else f"background:{ground};color:{text}"
        parts.append(tag("i", word, class_=dim, style=look))
    return tag("span", _spaced(parts), class_="choice") if parts else None


def _bar(parts: Sequence[float], scale: float) -> Markup:
    """Return a bar of parts in a cell that the longest one fills; what is longer is cut, with a mark."""
    whole = sum(parts)
    each = 100 / max(whole, scale) if scale else 0.0
    kinds = zip(parts, ("first", "second"), strict=False)
    pieces = [tag("span", class_=kind, style=f"width:{each * part:.1f}%") for part, kind in kinds if part]
    return tag("span", pieces, class_="bars cut" if 0 < scale < whole else "bars")


def _side(own: Column) -> str | None:
    return "r n" if own.numeric else "wide" if own.unit == "bar" else None
