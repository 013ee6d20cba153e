"""Choices as coloured cells: a unit of width is one halving."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.dims import like
from hypar.reports.page.html import Markup, spaced, tag
from hypar.sharding.dims import GRIDS, WORDS, choice_word, grid_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.sharding.placement import Choice


class _Texts(dict[str | None, str]):
    """The meaning of colours; a dim that a model names is named."""

    def __missing__(self, dim: str | None) -> str:
        return f"cut in {dim}"


DIM_TEXTS = _Texts(
    {
        "batch": "cut in batch",
        "in_channels": "cut in input channels",
        "out_channels": "cut in output channels",
        "height": "cut in height",
        "width": "cut in width",
        "groups": "cut in groups of channels",
        "channels": "a join, cut in channels",
        None: "not cut: every device has the whole",
    }
)
"""The meaning of a choice's colour."""

WIDTHS = ((8, ""), (16, "w2"), (math.inf, "w3"))
"""Classes for the width of a unit, by the number of units in a row."""


def halvings(ways: float) -> float:
    """Return the width of a cut in units."""
    return math.log2(ways) if ways > 1 else 0.0


def colour(dim: str | None, words: int) -> str:
    """Return the class of a dim's colour."""
    if dim == "channels":
        return "out_channels" if words == GRIDS else "in_channels"
    return like(dim) or "whole"


def cell(choice: Choice, ways: int, words: int, *, grids: bool, level: str = "") -> Markup:
    """Return the cell of a choice.

    Args:
        choice: the choice.
        ways: devices or groups that it is over.
        words: index of the paper whose words are used.
        grids: whether choices are written as grids.
        level: name of the level, for the cell's title.
    """
    cut, word = divided(choice), choice_word(choice.degrees, ways, words, grids=grids)
    parts = parts_of(choice, ways, words, grids=grids)
    pieces = [_piece(colour(dim, words), text, degree) for dim, text, degree in parts]
    dims = ", ".join(f"{dim.replace('_', ' ')} {degree}" for dim, degree in cut) or "whole"
    spelt = "" if [word] == [text for _, text, _ in parts] else f"{word}: "
    return tag(
        "span", spaced(pieces), class_="cell", title=f"{level}: {spelt}{dims}" if level else spelt + dims
    )


def divided(choice: Choice) -> list[tuple[str, int]]:
    """Return the dims that a choice divides, with their degrees."""
    return [(dim, degree) for dim, degree in choice.degrees if degree > 1]


def parts_of(choice: Choice, ways: int, words: int, *, grids: bool) -> list[tuple[str | None, str, int]]:
    """Return the dim, the word and the degree of each part of a choice's cell, the copies or the idle devices last."""
    cut, word = divided(choice), choice_word(choice.degrees, ways, words, grids=grids)
    if len(cut) <= 1 and word in {WORDS[dim][words] for dim in (*(dim for dim, _ in cut), None)}:
        return [(cut[0][0] if cut else None, word, ways)]
    shown = {text.rstrip("0123456789"): text for text in grid_word(dict(cut)).split()} if cut else {}
    parts: list[tuple[str | None, str, int]] = [
        (dim, shown[WORDS[dim][GRIDS]], degree) for dim, degree in cut
    ]
    others = ways // math.prod(degree for _, degree in cut)
    if others > 1:
        alike = WORDS[None][words] if choice.order else "off"
        parts.append((None, alike if cut else word.split()[0], others))
    return parts


def _piece(kind: str, text: str, degree: int) -> Markup:
    return tag("i", text, class_=kind, style=_width(degree))


def _width(ways: int) -> str | None:
    """Return the style of a width; None for one unit."""
    units = halvings(ways)
    return None if units == 1 else f"--k:{units:.4g}"


def strip(cells: Sequence[Markup], units: float) -> Markup:
    """Return cells in a strip, in a row of so many units."""
    return tag("span", spaced([*cells]), class_=f"strip {_size(units)}".strip())


def level_heads(levels: Iterable[tuple[str, int]], units: float) -> Markup:
    """Return the names of levels above their cells; ``units`` as in ``strip``."""
    spans = [tag("span", level, style=_width(ways)) for level, ways in levels]
    return tag("span", spaced(spans), class_=f"strip h {_size(units)}".strip())


def _size(units: float) -> str:
    return next(name for most, name in WIDTHS if units <= most)


def legend(dims: Iterable[str | None], words: int, unit: str) -> Markup:
    """Return the legend of the dims that a plan cuts.

    Args:
        dims: the dims.
        words: index of the paper whose words are used.
        unit: what the width of a cell says.
    """
    named: dict[str, list[str | None]] = {}
    for dim in dims:
        named.setdefault(WORDS[dim][words], []).append(dim)
    items = [
        tag(
            "li",
            tag(
                "span",
                class_=f"sw {colour(first, words)}",
                style=None if first else "border:1px solid var(--rule)",
            ),
            tag("b", word, class_="m"),
            f" {'; '.join(DIM_TEXTS[dim] for dim in (first, *others))}",
        )
        for word, (first, *others) in named.items()
    ]
    return tag("ul", *items, tag("li", unit, class_="muted"), class_="legend")
