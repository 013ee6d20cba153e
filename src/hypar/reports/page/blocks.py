"""Building blocks of a page: tables, bars, folds and sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.page.html import Markup, spaced, tag
from hypar.reports.page.numbers import TIMES, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.reports.page.html import Content


def section(name: str, title: str, *content: Content) -> Markup:
    """Return a section with a stable id."""
    return tag("section", tag("h2", title), *content, id=name)


def note(*content: Content) -> Markup:
    """Return a note."""
    return tag("p", *content, class_="note")


def details(summary: Content, *content: Content, printed: bool = True) -> Markup:
    """Return a fold; print opens it unless it would fill pages."""
    return tag(
        "details",
        tag("summary", summary),
        tag("div", *content, class_="in"),
        class_="p" if printed else None,
    )


def region(label: str, *content: Content) -> Markup:
    """Return a part that scrolls by itself where it is too wide."""
    return tag("div", *content, class_="x", tabindex=0, role="region", aria_label=label)


def head(text: Content, class_: str | None = None, **attributes: str | int) -> Markup:
    """Return the head of a column."""
    return tag("th", text, scope="col", class_=class_, **attributes)


def name(*text: Content, mono: bool = True) -> Markup:
    """Return the head of a row."""
    return tag("th", *text, scope="row", class_="m" if mono else None)


def counted(label: str, count: int) -> Markup:
    """Return the head of a row of several layers, with their number."""
    return name(label, tag("span", f" {TIMES}{count}", class_="muted") if count > 1 else None)


def cell(content: Content, class_: str | None = None) -> Markup:
    """Return a cell."""
    return tag("td", content, class_=class_)


def number(text: Content) -> Markup:
    """Return a cell with a number."""
    return cell(text, "r n")


def row(*cells: Markup, class_: str | None = None) -> Markup:
    """Return a row of a table."""
    return tag("tr", spaced(cells), class_=class_)


def table(
    heads: Sequence[Markup], body: Iterable[Markup], foot: Iterable[Markup] = (), class_: str | None = None
) -> Markup:
    """Return a table.

    Args:
        heads: the cells of its head, or whole rows of them.
        body: its rows.
        foot: the rows of its sums.
        class_: ``full`` for one as wide as the page.
    """
    top = heads if heads and heads[0].startswith("<tr") else [row(*heads)]
    below = [*foot]
    return tag(
        "table",
        tag("thead", *top),
        tag("tbody", Markup("\n".join(body))),
        tag("tfoot", *below) if below else None,
        class_=class_,
    )


def bar(share: float, kind: str, *, broken: bool = False) -> Markup:
    """Return a bar; ``share`` of its cell's width."""
    classes = f"bar {kind}{' broken' if broken else ''}"
    return tag("span", class_=classes, style=f"width:{100 * min(1.0, share):.1f}%")


def bars(parts: Sequence[tuple[float, str]]) -> Markup:
    """Return bars in a row; each a share of the cell's width."""
    return tag("span", *(bar(share, kind) for share, kind in parts if share), class_="bars")


def wide(content: Content) -> Markup:
    """Return a cell for a bar, which a phone leaves out."""
    return cell(content, "hide-s wide")


def track(share: float) -> Markup:
    """Return a bar against the whole of its width."""
    return tag("span", tag("b", style=f"width:{100 * min(1.0, share):.1f}%"), class_="track")


def stack(parts: Sequence[tuple[str, str, float]], shown: Sequence[str]) -> Markup:
    """Return parts of a whole as one bar, with a legend that gives each one's number and share.

    Args:
        parts: for each its name, its kind of time, and its number.
        shown: each number as text.
    """
    whole = sum(number for _, _, number in parts) or 1.0
    pieces = (
        tag("span", class_=kind, style=f"flex:{number / whole:.5f}") for _, kind, number in parts if number
    )
    items = (
        tag(
            "li",
            tag("span", class_=f"sw {kind}"),
            f"{named} ",
            tag("b", text, class_="n"),
            " ",
            tag("span", percent(number / whole), class_="muted n"),
        )
        for (named, kind, number), text in zip(parts, shown, strict=True)
        if number
    )
    return Markup(
        tag("div", *pieces, class_="stack", aria_hidden="true") + tag("ul", *items, class_="legend")
    )
