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
from hypar.reports.text import bar_parts, column_texts, longest_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Column, Document, Figure, Grid, Part, Timeline

Content: TypeAlias = "str | list[Content] | None"
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
    """Return an element.

    Args:
        element: its name.
        content: its content, escaped unless it is markup.
        attributes: its attributes, those that are not None; ``class_`` stands for ``class`` and any other ``_`` for ``-``.

    Examples:
        >>> tag("td", "a < b", class_="n", title='"x"')
        '<td class="n" title="&quot;x&quot;">a &lt; b</td>'
    """
    given = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    start = "".join(f' {name}="{escape(str(value))}"' for name, value in given if value is not None)
    return Markup(f"<{element}{start}>{_markup(content)}</{element}>")


def prose(text: str) -> str:
    """Return a text whose numbers are not split from their units.

    Examples:
        >>> prose("on hmc: 842 us a step, 1.40 J").split(THIN)
        ['on hmc: 842', 'us a step, 1.40', 'J']
    """
    return _QUANTITY.sub(rf"\1{THIN}\2", text)


def fragment(document: Document, *, full: bool = False) -> str:
    """Return a document as an element for a notebook, with the words that the terminal shows; ``plot`` draws its figures.

    Args:
        document: what to show.
        full: whether to show the notes on details too.
    """
    parts = [own for own in document.parts if isinstance(own, Note | Section | Table)]
    return (
        tag(
            "div",
            tag("style", Markup("\n" + style())),
            tag("p", prose(document.title), class_=f"title {document.tone}".strip()),
            _line("p", document.about),
            *(_part(own, full=full, level=3) for own in (*parts, *document.notes)),
            class_="hy",
        )
        + "\n"
    )


def page(document: Document, commands: Sequence[str] = (), footer: str = "") -> str:
    """Return the page of a document; the ids of its sections are the first words of their titles.

    Args:
        document: what to show.
        commands: the commands that make it again.
        footer: a last line.
    """
    sections = [own for own in document.parts if isinstance(own, Section)]
    links = [(_id(own), own.title) for own in sections] + [("again", "Make it again")] * bool(commands)
    head = tag(
        "header",
        tag("h1", prose(document.title), class_=document.tone or None),
        tag("p", prose(document.about), class_="lead"),
        *(_part(own, full=True) for own in document.parts if not isinstance(own, Section)),
        *(_part(own) for own in document.notes),
        tag("nav", *(tag("a", title, href=f"#{name}") for name, title in links), aria_label="Sections"),
        id="headline",
    )
    again = tag(
        "section", tag("h2", "Make it again"), tag("pre", "\n".join(commands), tabindex=0), id="again"
    )
    body = tag("main", head, *map(_section, sections), again if commands else None, _line("footer", footer))
    title = tag(
        "head", Markup(HEAD), tag("title", prose(document.title)), tag("style", Markup("\n" + style()))
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n{title}{tag("body", body, class_="hy")}\n</html>\n'


def style() -> str:
    """Return the style of fragments and pages."""
    return (files("hypar.reports") / "report.css").read_text(encoding="utf-8")


def _markup(content: Iterable[Content]) -> str:
    """Return content as markup, with plain text escaped."""
    return "".join(
        own
        if isinstance(own, Markup)
        else _markup(own)
        if isinstance(own, list)
        else escape(own or "", quote=False)
        for own in content
    )


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


def _section(section: Section) -> Markup:
    """Return a section of a page, inside which sections are folded."""
    return tag("section", tag("h2", section.title), *_inside(section), id=_id(section))


def _inside(section: Section) -> list[Content]:
    found: list[Content] = [_line("p", section.about, "note")]
    for own in section.parts:
        if isinstance(own, Section):
            found.append(tag("details", tag("summary", own.title), tag("div", *_inside(own), class_="in")))
        else:
            found.append(_part(own, full=True))
    return found


def _part(part: Part, *, full: bool = False, level: int = 2) -> Content:
    """Return a part of a document: what is no text is drawn.

    Args:
        part: the part.
        full: whether to show the notes on details too.
        level: the level of a section's heading.
    """
    if isinstance(part, Table):
        return _table(part) if part.shown else None
    if isinstance(part, Note):
        label: list[Content] = [tag("b", part.label), " "] if part.label else []
        return tag("p", label, prose(part.text), class_="note") if full or not part.detail else None
    if isinstance(part, Section):
        told = [own for own in part.parts if isinstance(own, Note | Section | Table)]
        below = [_part(own, full=full, level=level + 1) for own in told]
        return tag("section", tag(f"h{level}", part.title), _line("p", part.about), below)
    return _picture(part)


def _picture(part: Figure | Grid | Timeline) -> Markup:
    drawn = Markup(svg(charts.picture(part)))
    return tag("figure", _line("figcaption", part.title), _scrolled(drawn, part.title or "picture"))


def _table(table: Table) -> Markup:
    """Return a table with its title."""
    shown = table.shown
    groups = [(name, len([*run])) for name, run in groupby(shown, key=lambda own: own.group)]
    above = [tag("th", name, scope="colgroup", colspan=count) for name, count in groups]
    heads = tag("tr", _spaced(tag("th", own.title, scope="col", class_=_side(own)) for own in shown))
    rows = [
        *zip(
            *(_cells(table, at, own, texts) for at, (own, texts) in enumerate(column_texts(table))),
            strict=True,
        )
    ]
    tones = [row.get("tone") or None for row in table.rows]
    body = [tag("tr", _spaced(row), class_=tone) for row, tone in zip(rows, tones, strict=False)]
    whole = tag(
        "table",
        tag("thead", tag("tr", *above) if any(name for name, _ in groups) else None, heads),
        tag("tbody", Markup("\n".join(body))),
        tag("tfoot", tag("tr", _spaced(rows[-1]))) if table.total else None,
        class_="full" if any(own.unit == "bar" for own in shown) else None,
    )
    scrolled = _scrolled(whole, table.title or "table")
    return Markup(_markup([_line("p", table.title, "title"), scrolled]))


def _cells(table: Table, at: int, own: Column, texts: Sequence[str]) -> list[Markup]:
    """Return the cells of a column, of the first one heads of rows."""
    rows = [*table.rows, *([table.total] if table.total else [])]
    bars = [bar_parts(row.get(own.key)) if own.unit == "bar" else () for row in rows]
    scale = longest_bar(bars, whole=table.total is not None)
    found = []
    for row, text, parts in zip(rows, texts, bars, strict=True):
        value = row.get(own.key)
        content = _choice(value) if isinstance(value, Cell) else prose(text)
        if own.unit == "bar" and not text:
            content = _bar(parts, scale)
        mono = "m" if own.key in NAMES else None
        found.append(
            tag("td", content, class_=_side(own)) if at else tag("th", content, scope="row", class_=mono)
        )
    return found


def _choice(value: Cell) -> Markup:
    """Return a choice in the colours of the dims that it cuts, each part as wide as its halvings."""
    parts = []
    for word, dim, degree in charts.pieces(value) if value.text else ():
        ground, text, _ = colours_of(dim)
        look = "" if dim == "whole" else f"background:{ground};color:{text};"
        halvings = math.log2(max(degree, 2))
        width = "" if halvings == 1 else f"--k:{halvings:.3g}"
        parts.append(tag("i", word, class_=dim, style=(look + width).rstrip(";") or None))
    return tag("span", _spaced(parts), class_="choice") if parts else Markup("")


def _bar(parts: Sequence[float], scale: float) -> Markup:
    """Return a bar of parts in a cell that the longest one fills; what is longer is cut, with a mark."""
    whole = sum(parts) or 1.0
    share = min(1.0, whole / scale) if scale else 0.0
    pieces = (
        tag("span", class_=kind, style=f"width:{100 * share * part / whole:.1f}%")
        for part, kind in zip(parts, ("first", "second"), strict=False)
        if part
    )
    return tag("span", *pieces, class_="bars cut" if scale and whole > scale else "bars")


def _side(own: Column) -> str | None:
    return "r n" if own.numeric else "wide" if own.unit == "bar" else None
