"""Figures as SVG: bars and points over categories, and lines."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#5c4636", "#8c959f")
"""Okabe and Ito, Color Universal Design, 2008; the last two replace yellow and black."""

WIDTH, LEFT, TOP, HIGH, BELOW = 640, 60, 40, 260, 110
"""Of the plot and its margins, in pixels; the names of the series stand to its right."""

MOST_NAMES = 24
"""The most names along the axis."""


class Scale(NamedTuple):
    """The axis of values: its ends and whether it is logarithmic."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], *, log: bool) -> Scale:
        """Return a scale for some values; a linear one begins at nothing."""
        if log:
            shown = [value for value in values if value > 0]
            return cls(min(shown) / 1.3, max(shown) * 1.3, log)
        return cls(min(0.0, *values), max(values) * 1.08, log)

    def y(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, own = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return round(TOP + HIGH * (1 - (own - low) / (high - low)), 1)

    def ticks(self) -> list[float]:
        """Return round values inside the scale."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1,) if len(decades) > 4 else (1, 2, 5)
            found = [step * 10.0**decade for decade in decades for step in steps]
        else:
            size = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
            step = next(size * one for one in (1, 2, 5, 10) if (self.high - self.low) / (size * one) <= 6)
            found = [step * number for number in range(math.ceil(self.low / step), int(self.high / step) + 1)]
        return [tick for tick in found if self.low <= tick <= self.high]


class Figure(NamedTuple):
    """The data of a figure."""

    title: str  # its title
    y: str  # label of the values
    places: Sequence[str]  # names along the axis
    series: Mapping[str, Sequence[float | None]]  # values by name, one for each place; None leaves a gap
    kind: str = "bars"  # ``bars``, ``points`` or ``lines``
    x: str = ""  # label of the places
    log: bool = False  # whether values have a logarithmic scale

    def svg(self) -> str:
        """Draw it."""
        values = [value for own in self.series.values() for value in own if value is not None]
        scale = Scale.of(values, log=self.log)
        parts = [text(LEFT, 20, self.title, size=15), text(LEFT, TOP - 6, self.y, fill="#57606a")]
        for tick in scale.ticks():
            parts.append(line(LEFT, scale.y(tick), LEFT + WIDTH, scale.y(tick), "#d8dee4"))
            parts.append(text(LEFT - 6, scale.y(tick) + 4, f"{tick:,.6g}", anchor="end"))
        parts += self._names()
        for number, (name, own) in enumerate(self.series.items()):
            colour = COLOURS[number % len(COLOURS)]
            dashes = ' stroke-dasharray="6 3"' if number >= len(COLOURS) else ""
            draw = self._lines if self.kind == "lines" else self._marks
            parts += draw(number, own, scale, colour, dashes)
            parts.append(text(LEFT + WIDTH + 12, TOP + 12 + 18 * number, name, fill=colour))
        full, high = LEFT + WIDTH + 220, TOP + HIGH + BELOW
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {high}" font-family="sans-serif">'
        )
        ground = f'<rect width="{full}" height="{high}" fill="white"/>'
        return "\n".join([head, ground, *parts, "</svg>"]) + "\n"

    def _at(self, place: float) -> float:
        return round(LEFT + WIDTH * (place + 0.5) / len(self.places), 1)

    def _names(self) -> Iterator[str]:
        step = math.ceil(len(self.places) / MOST_NAMES)
        turned = sum(map(len, self.places[::step])) > WIDTH // 8
        for place in range(0, len(self.places), step):
            at, below = self._at(place), TOP + HIGH + 16
            turn = f' transform="rotate(-35 {at} {below})"' if turned else ""
            yield text(at, below, self.places[place], anchor="end" if turned else "middle", more=turn)
        yield text(LEFT + WIDTH / 2, TOP + HIGH + BELOW - 8, self.x, anchor="middle", fill="#57606a")

    def _marks(
        self, number: int, values: Sequence[float | None], scale: Scale, colour: str, _dashes: str
    ) -> Iterator[str]:
        """Yield a bar or a point at each place, beside those of the other series."""
        wide = 0.8 / len(self.series)
        for place, value in enumerate(values):
            if value is None or (self.log and value <= 0):
                continue
            middle = self._at(place + wide * (number - (len(self.series) - 1) / 2))
            if self.kind == "points":
                yield f'<circle cx="{middle}" cy="{scale.y(value)}" r="4" fill="{colour}"/>'
                continue
            size, top, base = WIDTH * wide / len(self.places), scale.y(max(value, 0)), scale.y(min(value, 0))
            left = round(middle - size / 2, 1)
            yield (
                f'<rect x="{left}" y="{top}" width="{size * 0.94:.1f}" height="{base - top:.1f}" fill="{colour}"/>'
            )

    def _lines(
        self, _number: int, values: Sequence[float | None], scale: Scale, colour: str, dashes: str
    ) -> Iterator[str]:
        """Yield a line through all places that have a value."""
        shown = [(place, value) for place, value in enumerate(values) if value is not None]
        shown = [(place, value) for place, value in shown if value > 0 or not self.log]
        points = " ".join(f"{self._at(place)},{scale.y(value)}" for place, value in shown)
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    """Return a line between two points."""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, **style: Any) -> str:
    """Return words at a point: their size, anchor, colour and further attributes."""
    size, anchor, fill = style.get("size", 12), style.get("anchor", "start"), style.get("fill", "#1b1f24")
    shape = f'x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{style.get("more", "")}'
    return f"<text {shape}>{escape(words)}</text>"
