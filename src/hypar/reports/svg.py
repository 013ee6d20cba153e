"""Pictures as shapes with places and colours, and shapes as SVG: the same bytes on every machine.

Places are pixels from the top left. No font is measured: a letter is taken to be six tenths as wide as it is high.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hypar.reports.palette import RULE, colour_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SANS = "system-ui,-apple-system,Segoe UI,Roboto,Liberation Sans,Arial,sans-serif"
MONO = "ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace"
WIDTH, TEXT, HEAD, ROW, MARGIN = 880.0, 12, 16, 19, 20
"""The width of a picture, the size of its text and of its title, the height of a row, and what is left free around it."""


class Shape(NamedTuple):
    """A ``rect`` (x, y, width, height), a ``line`` (x and y of each corner) or a ``text`` (x, y of its base line).

    Its colour is a name, which is its class in SVG too. The ``anchor`` is the end of a text that is at its place; a
    ``mono`` text has letters of one width, and one larger than ``TEXT`` is bold.
    """

    kind: Literal["rect", "line", "text"]
    at: tuple[float, ...]
    colour: str
    text: str = ""
    anchor: Literal["start", "middle", "end"] = "start"
    mono: bool = False
    size: int = TEXT


@dataclass(slots=True, repr=False)
class Picture:
    """Shapes below a title and, for those who do not see them, what they show; ``y`` is the height that is drawn."""

    title: str
    about: str = ""
    width: float = WIDTH
    y: float = 0.0
    shapes: list[Shape] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, colour: str = "ink", **look: Any) -> None:
        """Write words on a base line; ``look`` holds the other fields of a shape."""
        if words:
            self.shapes.append(Shape("text", (x, y), colour, words, **look))

    def rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Draw a rectangle, if it has a width, so that it is seen."""
        if width:
            self.shapes.append(Shape("rect", (x, y, max(width, 0.4), height), colour))

    def line(self, *at: float, colour: str = "line") -> None:
        """Draw a line through places."""
        self.shapes.append(Shape("line", at, colour))

    def legend(self, words: Mapping[str, str]) -> None:
        """Draw a mark and words for each colour, in as many lines as they need."""
        x = 0.0
        for colour, each in words.items():
            if x and x + 18 + wide(each) > self.width:
                x, self.y = 0.0, self.y + ROW
            self.rect(x, self.y + 1, 11, 11, colour)
            self.text(x + 17, self.y + 11, each)
            x += 32 + wide(each)
        self.y += ROW + 6 if words else 0

    def framed(self) -> tuple[tuple[float, float, float, float], list[Shape]]:
        """Return the box with margins (x, y, width, height), and the shapes on a ground and below the title."""
        lines = wrap(self.title, int(self.width / (0.6 * HEAD)))
        top = -1.3 * HEAD * len(lines) - 0.9 * HEAD
        box = -MARGIN, top - MARGIN, self.width + 2 * MARGIN, self.y - top + 2 * MARGIN
        bases = [top + HEAD * (1 + 1.3 * at) for at in range(len(lines))]
        heads = [Shape("text", (0, y), "ink", line, size=HEAD) for y, line in zip(bases, lines, strict=True)]
        return box, [Shape("rect", box, "ground"), *heads, *self.shapes]

    def _repr_svg_(self) -> str:
        return svg_file(self)

    def __repr__(self) -> str:
        """Return what it shows."""
        return f"<Picture: {self.title}>"


def wide(text: str) -> float:
    """Return the width of a text."""
    return 0.6 * TEXT * len(text)


def svg(picture: Picture) -> str:
    """Return a picture as an element of a page."""
    box, shapes = picture.framed()
    left, top, width, height = map(_n, box)
    size = f'viewBox="{left} {top} {width} {height}" width="{width}" height="{height}"'
    known = f"<title>{escape(picture.title)}</title><desc>{escape(picture.about)}</desc>"
    lines = "\n".join(map(_element, shapes))
    return f'<svg {size} role="img" font-family="{SANS}" font-size="{TEXT}">{known}\n{lines}\n</svg>\n'


def svg_file(picture: Picture) -> str:
    """Return a picture as a file."""
    return svg(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def _element(shape: Shape) -> str:
    """Return a shape as an element with its class and its colour."""
    at, colour = [*map(_n, shape.at)], colour_of(shape.colour)
    look = f'class="{escape(shape.colour)}" fill="{colour}"'
    if shape.kind == "text":
        end = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
        font = f' font-family="{MONO}"' if shape.mono else ""
        font += f' font-size="{shape.size}" font-weight="600"' if shape.size > TEXT else ""
        return f'<text x="{at[0]}" y="{at[1]}" {look}{end}{font}>{escape(shape.text)}</text>'
    if shape.kind == "rect":
        edge = f' stroke="{RULE}"' if shape.colour == "whole" else ""
        return f'<rect x="{at[0]}" y="{at[1]}" width="{at[2]}" height="{at[3]}" {look}{edge}/>'
    return f'<polyline points="{" ".join(at)}" class="{escape(shape.colour)}" fill="none" stroke="{colour}"/>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
