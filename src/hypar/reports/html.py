"""Documents as HTML: a fragment for notebooks, and a page that needs nothing else.

A fragment is one element with its own style, and without ids, scripts or links. All text is escaped.
"""

from __future__ import annotations

import math
import re
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from hypar.document import Cell, Note, Section, Table
from hypar.reports import charts
from hypar.reports.palette import colours_of
from hypar.reports.svg import svg
from hypar.reports.text import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    known = (Note, Section, Table)
    parts = [own for own in (*document.parts, *document.notes) if isinstance(own, known)]
    title = tag("p", prose(document.title), class_=f"title {document.tone}".strip())
    body = [title, _line("p", document.about), [_part(own, full=full) for own in parts]]
    return tag("div", tag("style", Markup("\n" + style())), *body, class_="hy") + "\n"


def page(document: Document, commands: Sequence[str] = (), footer: str = "") -> str:
    """Return the page of a document, with the commands that make it again and a last line.

    The ids of its sections are the first words of their titles.
    """
    sections = [own for own in document.parts if isinstance(own, Section)]
    links = [(_id(own), own.title) for own in sections] + [("again", "Make it again")] * bool(commands)
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
    again = tag("section", tag("h2", "Make it again"), lines, id="again") if commands else None
    main = tag("main", head, [_section(own, id=_id(own)) for own in sections], again, _line("footer", footer))
    top = tag("head", Markup(HEAD), tag("title", prose(document.title)), tag("style", Markup("\n" + style())))
    return f'<!DOCTYPE html>\n<html lang="en">\n{top}{tag("body", main, class_="hy")}\n</html>\n'


def style() -> str:
    """Return the style of fragments and pages."""
    return (files("hypar.reports") / "report.css").read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Return a text whose numbers are not split from their units."""
    return _QUANTITY.sub(rf"\1{THIN}\2", text)


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


def _id(section: Section) -> str:
    return section.title.split()[0].lower()


def _section(section: Section, *, full: bool = True, **attributes: str) -> Markup:
    """Return a section, inside which sections are folded."""
    return tag("section", tag("h2", section.title), _inside(section, full=full), **attributes)


def _inside(section: Section, *, full: bool) -> Iterator[Content]:
    yield _line("p", section.about, "note")
    for own in section.parts:
        if isinstance(own, Section):
            folded = tag("div", _inside(own, full=full), class_="in")
            yield tag("details", tag("summary", own.title), folded)
        else:
            yield _part(own, full=full)


def _part(part: Part, *, full: bool = True) -> Content:
    """Return a part of a document, ``full`` with the notes on details: what is no text is drawn."""
    if isinstance(part, Table):
        return _table(part) if part.shown else None
    if isinstance(part, Note):
        label = [tag("b", part.label), " "] if part.label else []
        return tag("p", label, prose(part.text), class_="note") if full or not part.detail else None
    if isinstance(part, Section):
        return _section(part, full=full)
    drawn = _scrolled(Markup(svg(charts.picture(part))), part.title or "picture")
    return tag("figure", _line("figcaption", part.title), drawn)


def _table(table: Table) -> list[Content]:
    """Return a table with its title."""
    shown = table.shown
    groups = [(name, len([*run])) for name, run in groupby(shown, key=lambda own: own.group)]
    above = [tag("th", name, scope="colgroup", colspan=count) for name, count in groups]
    heads = tag("tr", _spaced(tag("th", own.title, scope="col", class_=_side(own)) for own in shown))
    columns = [_cells(table, own) for own in columns_of(table)]
    rows = [_spaced(row) for row in zip(*columns, strict=True)]
    tones = [row.get("tone") or None for row in table.rows]
    body = "\n".join(tag("tr", row, class_=tone) for row, tone in zip(rows, tones, strict=False))
    whole = tag(
        "table",
        tag("thead", tag("tr", above) if any(name for name, _ in groups) else None, heads),
        tag("tbody", Markup(body)),
        tag("tfoot", tag("tr", rows[-1])) if table.total else None,
        class_="full" if any(own.unit == "bar" for own in shown) else None,
    )
    return [_line("p", table.title, "title"), _scrolled(whole, table.title or "table")]


def _cells(table: Table, own: Shown) -> Iterator[Markup]:
    """Yield the cells of a column, of the first one heads of rows."""
    column = own.column
    for value, text, parts in zip(own.values, own.texts, own.bars, strict=True):
        content: Content = _choice(value) if isinstance(value, Cell) else prose(text)
        if column.unit == "bar" and not text:
            content = _bar(parts, own.scale)
        if column is table.shown[0]:
            yield tag("th", content, scope="row", class_="m" if column.key in NAMES else None)
        else:
            yield tag("td", content, class_=_side(column))


def _choice(value: Cell) -> Content:
    """Return a choice in the colours of the dims that it cuts, each part as wide as its halvings."""
    parts = []
    for word, dim, degree in charts.pieces(value) if value.text else ():
        ground, text, _ = colours_of(dim)
        look = "" if dim == "whole" else f"background:{ground};color:{text};"
        halvings = math.log2(max(degree, 2))
        width = "" if halvings == 1 else f"--k:{halvings:.3g}"
        parts.append(tag("i", word, class_=dim, style=(look + width).rstrip(";") or None))
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
