"""Fragments for notebooks: one element with its own style, and without ids, scripts or links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.page.css import cell_style
from hypar.reports.page.html import Markup, spaced, tag
from hypar.reports.page.numbers import prose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.reports.page.html import Content

NUMBERS = frozenset("0123456789+-<\u2013")
"""Characters with which a number begins; a column of such cells is aligned to the right."""


def cell(*content: Content) -> str:
    """Return a notebook's cell with its style."""
    return tag("div", tag("style", Markup("\n" + cell_style())), *content, class_="hy") + "\n"


def fragment(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Content]], notes: Sequence[str] = ()
) -> str:
    """Return a styled table for a notebook.

    Args:
        title: the line above it, which says the result.
        heads: the names of its columns.
        rows: the cells of each row, the first one its name; text is escaped, markup is not. A column of numbers is
            aligned to the right.
        notes: the lines below it.
    """
    right = [bool(rows) and all(_numeric(row[at]) for row in rows) for at in range(1, len(heads))]
    aligned = ["", *("r n" if each else "" for each in right)]
    head = (
        tag("th", name, scope="col", class_=side or None) for name, side in zip(heads, aligned, strict=True)
    )
    return cell(
        tag("p", prose(title), class_="title"),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", spaced([*head]))),
                tag("tbody", Markup("\n".join(_row(row, aligned) for row in rows))),
            ),
            class_="x",
        ),
        *(tag("p", prose(note), class_="note") for note in notes),
    )


def _row(row: Sequence[Content], aligned: Sequence[str]) -> Markup:
    """Return a row whose first cell is its head."""
    first = tag("th", row[0], scope="row")
    rest = (tag("td", each, class_=side or None) for each, side in zip(row[1:], aligned[1:], strict=True))
    return tag("tr", spaced([first, *rest]))


def _numeric(content: Content) -> bool:
    """Return whether a cell begins like a number, or is empty."""
    text = "" if content is None or isinstance(content, Markup) else str(content)
    return not isinstance(content, Markup) and (not text or text[0] in NUMBERS)
