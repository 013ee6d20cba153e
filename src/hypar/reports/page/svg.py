"""Pictures as SVG, with a title and a description, drawn once for a page and once for a phone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.page.html import Markup, tag
from hypar.reports.palette import PAGE, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.reports.page.html import Content

FILLS = {kind: shades.light for kind, shades in TIMES.items()}
BOX = {"fill": PAGE["surface"].light, "stroke": PAGE["rule"].light}


class Frame(NamedTuple):
    """The size of a picture.

    Attributes:
        width: its width.
        left: where its data begin.
        right: where they end.
        size: size of its texts.
        narrow: whether it is for a phone.
    """

    width: float
    left: float
    right: float
    size: float
    narrow: bool

    def at(self, share: float) -> float:
        """Return the place of a share of the axis."""
        return self.left + share * (self.right - self.left)


def pictures(
    draw: Callable[[Frame], tuple[list[Markup], float]], frames: tuple[Frame, Frame], title: str, desc: str
) -> Markup:
    """Return a picture for a page and for a phone.

    Args:
        draw: returns the marks of a picture, and its height.
        frames: the two sizes.
        title: name of the picture.
        desc: what it shows.
    """
    found = []
    for frame in frames:
        marks, height = draw(frame)
        image = tag(
            "svg",
            tag("title", title),
            tag("desc", desc),
            *marks,
            role="img",
            viewBox=f"0 0 {frame.width:g} {height:g}",
            width=f"{frame.width:g}",
            height=f"{height:g}",
            class_="fit",
            style=None if frame.narrow else f"max-width:{frame.width:g}px",
            font_family="system-ui,sans-serif",
        )
        found.append(tag("div", image, class_="only-s" if frame.narrow else "hide-s"))
    return tag("figure", *found)


def rect(
    place: tuple[float, float, float, float], kind: str, title: str | None = None, radius: float | None = None
) -> Markup:
    """Return a rectangle: its place is x, y, width and height, its kind one of time, or ``box``."""
    x, y, width, height = place
    colours = BOX if kind == "box" else {"fill": FILLS.get(kind, PAGE["ink"].light)}
    shape = {
        "x": _short(x), "y": _short(y), "width": _short(width), "height": _short(height),
        "rx": None if radius is None else _short(radius),
    }  # fmt: skip
    mark = tag("rect", class_=kind, **shape, **colours)
    return mark if title is None else tag("g", tag("title", title), mark)


def label(
    place: tuple[float, float],
    text: Content,
    size: float,
    *,
    anchor: str | None = None,
    kind: str | None = None,
) -> Markup:
    """Return a text."""
    fill = {"mt": PAGE["muted"].light, "on": PAGE["ground"].light}.get(kind or "")
    attributes = {"x": _short(place[0]), "y": _short(place[1]), "font-size": f"{size:g}"}
    return tag("text", text, class_=kind, text_anchor=anchor, fill=fill, **attributes)


def line(start: tuple[float, float], end: tuple[float, float], kind: str = "gl") -> Markup:
    """Return a line of the grid, or a rule."""
    stroke = PAGE["line" if kind == "gl" else "rule"].light
    return tag(
        "line",
        class_=kind, stroke=stroke,
        x1=_short(start[0]), y1=_short(start[1]), x2=_short(end[0]), y2=_short(end[1]),
    )  # fmt: skip


def ticks(most: float, count: int) -> Iterator[float]:
    """Yield about ``count`` round numbers from 0 up to the most.

    Example:
        >>> [round(tick, 3) for tick in ticks(1.94, 4)]
        [0.0, 0.5, 1.0, 1.5]
    """
    if not most > 0:
        yield 0.0
        return
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * 0.999)
    for number in range(int(most / step * (1 + 1e-9)) + 1):
        yield number * step


def _short(number: float) -> str:
    """Format a coordinate with at most two digits behind the point."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
