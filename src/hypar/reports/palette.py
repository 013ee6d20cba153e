"""The colours of dims and of kinds of time, for a light page, a dark page and a terminal.

Colours are told apart with each of the three colour blindnesses, and every text on its ground has a contrast that
WCAG 2.2 calls sufficient; the tests compute both.
"""

from __future__ import annotations

from typing import NamedTuple

from hypar.network.dims import like


class DimColours(NamedTuple):
    """The colours of a choice that cuts one dim.

    Attributes:
        light: ground of a cell on a light page.
        light_text: text of that cell.
        dark: ground of a cell on a dark page.
        dark_text: text of that cell.
        terminal: ANSI colour of the word, whose tone the reader's theme sets.
    """

    light: str
    light_text: str
    dark: str
    dark_text: str
    terminal: str


class Shades(NamedTuple):
    """One colour on a light and on a dark page."""

    light: str
    dark: str


DIMS = {
    "batch": DimColours("#bddaf3", "#1b1f24", "#1f4a70", "#e6e9ec", "bright_blue"),
    "in_channels": DimColours("#f0a02e", "#1b1f24", "#ee9f2d", "#10151a", "yellow"),
    "out_channels": DimColours("#8a3577", "#ffffff", "#b866a6", "#10151a", "magenta"),
    "height": DimColours("#1f9e7a", "#10151a", "#2fbf93", "#10151a", "green"),
    "width": DimColours("#f4e96a", "#1b1f24", "#f0e66b", "#10151a", "cyan"),
    "groups": DimColours("#5c4636", "#ffffff", "#a08571", "#10151a", "red"),
    "whole": DimColours("#ffffff", "#1b1f24", "#0f1419", "#e6e9ec", "dim"),
}
"""The colours of each dim, and of a layer that is left whole."""

TIMES = {
    "forward": Shades("#7a91a6", "#6c8196"),
    "backward": Shades("#52677a", "#9bb0c4"),
    "gradient": Shades("#2b3a48", "#d3dee8"),
    "update": Shades("#0b0f13", "#ffffff"),
    "communication": Shades("#c4472b", "#ff8a66"),
}
"""The colours of the phases' computation, and of communication."""

PAGE = {
    "ground": Shades("#ffffff", "#0f1419"),
    "surface": Shades("#f6f7f9", "#181e25"),
    "ink": Shades("#1b1f24", "#e6e9ec"),
    "muted": Shades("#57606a", "#a2acb7"),
    "line": Shades("#d8dee4", "#2e3740"),
    "rule": Shades("#8c959f", "#6b7681"),
}
"""The colours of a page's ground, text and lines."""


def colours_of(dim: str | None) -> DimColours:
    """Return the colours of a dim; a join's ``channels`` have those of ``in_channels``, no dim those of a whole layer.

    A dim that a model names has those of the dim that it is like.
    """
    name = "in_channels" if dim == "channels" else dim or "whole"
    return DIMS[name if name in DIMS else like(name) or "whole"]
