"""Documents as HTML: a fragment for notebooks, and a page that needs nothing else.

A fragment is one element with its own style, and without ids, scripts or links. All text is escaped.
"""

from __future__ import annotations

import math
import re
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from hypar.document import Cell, Grid, Note, Section, Table
from hypar.reports import charts
from hypar.reports.palette import colours_of
from hypar.reports.svg import svg
from hypar.reports.text import bar_parts, longest_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Column, Document, Figure, Part, Timeline

Content: TypeAlias = "str | int | float | list[Content] | tuple[Content, ...] | None"
"""The content of an element: markup, plain text, nothing, or several of them."""

Value: TypeAlias = "str | int | float | bool | None"
"""The value of an attribute: True for an attribute without a value, False or None for none."""

VOID = frozenset({"meta", "rect", "line", "path"})
"""Elements without content and end tag: HTML's own, and shapes of SVG, which end in a slash."""

THIN = "\u202f"
"""The narrow space between a number and its unit, where no line breaks."""

TONES = {"": None, "good": "good", "warn": "warn", "bad": "bad", "this": "this"}
"""The class of what a value means for its reader."""

NAMES = frozenset({"layer", "task", "what"})
"""The keys of columns of names, which have letters of one width."""

_QUANTITY = re.compile(r"(\d) ((?:[kMGTPmunpf]?(?:B|s|J|Hz)|%)(?![a-zA-Z]))")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(*content: Content) -> Markup:
    """Return content as markup, with plain text escaped."""
    return Markup("".join(map(_text, content)))


def tag(element: str, *content: Content, **attributes: Value) -> Markup:
    """Return an element.

    Args:
        element: its name.
        content: its content, escaped unless it is markup.
        attributes: its attributes; ``class_`` stands for ``class`` and any other ``_`` for ``-``.

    Examples:
        >>> tag("td", "a < b", class_="n", title='"x"')
        '<td class="n" title="&quot;x&quot;">a &lt; b</td>'
    """
    start = f"<{element}{''.join(_attribute(*each) for each in attributes.items())}"
    if element in VOID:
        return Markup(f"{start}>" if element == "meta" else f"{start}/>")
    return Markup(f"{start}>{markup(*content)}</{element}>")


def prose(text: str) -> str:
    """Return a text whose numbers are not split from their units.

    Examples:
        >>> prose("on hmc: 842 us a step, 1.40 J").split(THIN)
        ['on hmc: 842', 'us a step, 1.40', 'J']
    """
    return _QUANTITY.sub(rf"\1{THIN}\2", text)


def table(table: Table) -> Markup:
    """Return a table that scrolls by itself where it is too wide."""
    shown = table.shown
    scales = {own.key: _scale(own, table) for own in shown if own.unit == "bar"}
    groups = [(name, len([*run])) for name, run in groupby(shown, key=lambda own: own.group)]
    above = [tag("th", name, scope="colgroup", colspan=count) for name, count in groups]
    heads = [tag("th", own.title, scope="col", class_=_side(own)) for own in shown]
    body = (_row(row, shown, scales, TONES[row.get("tone", "")]) for row in table.rows)
    return tag(
        "div",
        tag("p", prose(table.title), class_="title") if table.title else None,
        tag(
            "table",
            tag(
                "thead",
                tag("tr", *above) if any(name for name, _ in groups) else None,
                tag("tr", _spaced(heads)),
            ),
            tag("tbody", Markup("\n".join(body))),
            tag("tfoot", _row(table.total, shown, scales, None, whole=False)) if table.total else None,
            class_="full" if scales else None,
        ),
        class_="x",
        tabindex=0,
        role="region",
        aria_label=table.title or "table",
    )


def cell(value: Cell) -> Markup:
    """Return a choice in the colours of the dims that it cuts, each part as wide as its halvings."""
    if not value.text:
        return Markup("")
    parts = []
    for word, dim, degree in charts.pieces(value):
        ground, text, _ = colours_of(dim)
        look = "" if dim == "whole" else f"background:{ground};color:{text};"
        halvings = math.log2(max(degree, 2))
        width = "" if halvings == 1 else f"--k:{halvings:.3g}"
        parts.append(tag("i", word, class_=dim, style=(look + width).rstrip(";") or None))
    return tag("span", _spaced(parts), class_="choice")


def bar(parts: Sequence[float], scale: float) -> Markup:
    """Return a bar of parts in a cell that the longest one fills; what is longer is cut, with a mark."""
    whole = sum(parts) or 1.0
    share = min(1.0, whole / scale) if scale else 0.0
    pieces = (
        tag("span", class_=kind, style=f"width:{100 * share * part / whole:.1f}%")
        for part, kind in zip(parts, ("first", "second"), strict=False)
        if part
    )
    return tag("span", *pieces, class_="bars cut" if scale and whole > scale else "bars")


def notes(notes: Iterable[Note], *, full: bool = False) -> Markup:
    """Return notes; one without a label continues the note above it."""
    kept = [note for note in notes if full or not note.detail]
    lines = ((tag("b", note.label), " ") if note.label else "" for note in kept)
    return markup(
        *(tag("p", label, prose(note.text), class_="note") for label, note in zip(lines, kept, strict=True))
    )


def part(part: Part, *, full: bool = False, level: int = 2) -> Markup:
    """Return a part of a document.

    Args:
        part: a table, note, section, or anything to draw.
        full: whether to show the notes on details too.
        level: the level of a section's heading.
    """
    if isinstance(part, Table):
        return table(part) if part.shown else markup()
    if isinstance(part, Note):
        return notes([part], full=full)
    if isinstance(part, Section):
        head = (tag(f"h{level}", part.title), tag("p", prose(part.about)) if part.about else None)
        return tag("section", *head, *_parts(part.parts, full=full, level=level + 1))
    return picture(part)


def picture(part: Figure | Grid | Timeline) -> Markup:
    """Return a figure as SVG."""
    drawn = Markup(svg(charts.picture(part)))
    return tag(
        "figure",
        tag("figcaption", prose(part.title)) if part.title else None,
        tag("div", drawn, class_="x", tabindex=0, role="region", aria_label=part.title or "picture"),
    )


def style() -> str:
    """Return the style of fragments and pages."""
    return (files("hypar.reports") / "report.css").read_text(encoding="utf-8")


def fragment(document: Document, *, full: bool = False) -> str:
    """Return a document as an element for a notebook, with the words that the terminal shows; ``plot`` draws its figures.

    Args:
        document: what to show.
        full: whether to show the notes on details too.
    """
    return (
        tag(
            "div",
            tag("style", Markup("\n" + style())),
            tag("p", prose(document.title), class_=" ".join(filter(None, ["title", TONES[document.tone]]))),
            tag("p", prose(document.about)) if document.about else None,
            *_parts(document.parts, full=full, level=3),
            notes(document.notes, full=full),
            class_="hy",
        )
        + "\n"
    )


def page(document: Document, commands: Sequence[str] = (), footer: str = "") -> str:
    """Return the page of a document.

    The ids of its sections are the first words of their titles.

    Args:
        document: what to show.
        commands: the commands that make it again.
        footer: a last line.
    """
    sections = [own for own in document.parts if isinstance(own, Section)]
    links = [(_id(own), own.title) for own in sections] + [("again", "Make it again")] * bool(commands)
    first = [own for own in document.parts if not isinstance(own, Section)]
    nav = tag("nav", *(tag("a", title, href=f"#{name}") for name, title in links), aria_label="Sections")
    head = tag(
        "header",
        tag("h1", prose(document.title), class_=document.tone or None),
        tag("p", prose(document.about), class_="lead"),
        *_unfolded(first),
        notes(document.notes),
        nav,
        id="headline",
    )
    again = [_again(commands)] if commands else []
    body = tag("main", head, *map(_section, sections), *again, tag("footer", footer) if footer else None)
    return markup(
        Markup('<!DOCTYPE html>\n<html lang="en">\n'),
        tag(
            "head",
            Markup(
                '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width,initial-scale=1">\n'
            ),
            tag("title", prose(document.title)),
            tag("style", Markup("\n" + style())),
        ),
        tag("body", body, class_="hy"),
        Markup("\n</html>\n"),
    )


def _id(section: Section) -> str:
    return section.title.split()[0].lower()


def _section(section: Section) -> Markup:
    about = tag("p", prose(section.about), class_="note") if section.about else None
    return tag("section", tag("h2", section.title), about, *_unfolded(section.parts), id=_id(section))


def _unfolded(parts: Iterable[Part]) -> list[Content]:
    """Return the parts of a section; a section inside it is folded."""
    return [_folded(own) if isinstance(own, Section) else part(own, full=True) for own in parts]


def _folded(section: Section) -> Markup:
    about = tag("p", prose(section.about), class_="note") if section.about else None
    inside = tag("div", about, *_unfolded(section.parts), class_="in")
    return tag("details", tag("summary", section.title), inside)


def _again(commands: Sequence[str]) -> Markup:
    return tag("section", tag("h2", "Make it again"), tag("pre", "\n".join(commands), tabindex=0), id="again")


def _parts(parts: Iterable[Part], *, full: bool, level: int) -> list[Content]:
    """Return the parts of a notebook's cell."""
    told = (own for own in parts if isinstance(own, Note | Section) or (isinstance(own, Table) and own.shown))
    return [part(own, full=full, level=level) for own in told]


def _row(
    row: dict[str, Any],
    shown: Sequence[Column],
    scales: dict[str, float],
    tone: str | None,
    *,
    whole: bool = True,
) -> Markup:
    """Return a row whose first cell is its head; of a row that is not whole, a number that it lacks is no dash."""
    cells = []
    for at, own in enumerate(shown):
        value = row.get(own.key)
        content: Content
        if isinstance(value, Cell):
            content = cell(value)
        elif own.unit == "bar" and not isinstance(value, str):
            content = bar(bar_parts(value), scales[own.key])
        else:
            content = prose(own.text(value)) if whole or own.key in row else ""
        mono = "m" if own.key in NAMES else None
        kind = (
            tag("th", content, scope="row", class_=mono) if not at else tag("td", content, class_=_side(own))
        )
        cells.append(kind)
    return tag("tr", _spaced(cells), class_=tone)


def _scale(own: Column, table: Table) -> float:
    bars = [bar_parts(row.get(own.key)) for row in table.rows]
    return longest_bar(bars, whole=table.total is not None)


def _side(own: Column) -> str | None:
    return "r n" if own.numeric else "wide" if own.unit == "bar" else None


def _spaced(parts: Sequence[Markup]) -> Markup:
    """Join elements by spaces, so that their words stay apart where styles are not shown."""
    return Markup(" ".join(parts))


def _text(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, list | tuple):
        return markup(*content)
    return escape(str(content), quote=False)


def _attribute(name: str, value: Value) -> str:
    """Return an attribute with a space before it; empty for None and False."""
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-") if name != "viewBox" else name
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
