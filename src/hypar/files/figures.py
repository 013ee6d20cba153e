"""Figures: bars and points over categories, lines over numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from hypar.files.canvas import INK, LINE, SERIES, SINGLE, TEXT, blank, plain, value_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_STROKES = ("-", "--", ":", "-.")
_WIDTH, _HEIGHT = 9.0, 4.5
_MOST_TICKS = 24
_LETTER = 0.06
"""Width of a digit in inches, which decides whether the number at a bar is turned."""

_TOO_NARROW = 0.1
"""Width in inches of bars that have no numbers: these are in the table beside the figure."""

_LEAST_GAP = 0.05
"""Part of the height between the ends of lines that are named at their ends; nearer ones need a legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The data of a figure.

    Attributes:
        title: title of the figure.
        x: positions along the axis, texts or numbers.
        x_label: label of the axis.
        y_label: label of the values, with their unit.
        series: values by name, one for each position; None leaves a gap.
        kind: ``bars`` over categories, counted from 0; ``points`` over categories whose values span decades; ``lines``
            over numbers.
        log: whether lines or points need a logarithmic scale.
        shown: function that formats a value with its unit; by default three digits.
        marks: texts to write at positions of the first series.
    """

    title: str
    x: Sequence[str] | Sequence[float]
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[float | None]]
    kind: Literal["bars", "lines", "points"] = "bars"
    log: bool = False
    shown: Callable[[float], str] | None = None
    marks: Mapping[int, str] = field(default_factory=dict)

    def picture(self) -> Any:
        """Draw the figure with matplotlib; one series of bars lies on its side, with the names beside it."""
        if self.kind == "bars" and len(self.series) == 1:
            return _lying_bars(self)
        canvas, axes = blank(_WIDTH, _HEIGHT, self.title)
        axes.set(xlabel=plain(self.x_label), ylabel=plain(self.y_label))
        axes.xaxis.get_label().set_fontsize(TEXT)
        if self.kind == "lines":
            _lines(axes, self)
        else:
            _groups(axes, self)
        some = any(value for values in self.series.values() for value in values if value)
        axes.set_yscale("log" if self.log and some else "linear")
        value_axis(axes, "y", self.shown or _three_digits)
        _name_places(axes, self)
        if len(self.series) > 1 and not (self.kind == "lines" and _named_at_ends(axes, self)):
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=TEXT, frameon=False)
        return canvas

    def numbered(self) -> Iterator[tuple[int, str, list[float]]]:
        """Yield the number, the name and the values of each series, with NaN for a gap."""
        for number, (name, values) in enumerate(self.series.items()):
            yield number, plain(name), [float("nan") if value is None else value for value in values]

    def text(self, value: float | None) -> str:
        """Format a value; return an empty text for a gap."""
        return "" if value is None or value != value else (self.shown or _three_digits)(value)  # noqa: PLR0124 (NaN)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _lying_bars(figure: Figure) -> Any:
    """Draw one series as horizontal bars, the first on top."""
    canvas, axes = blank(_WIDTH, 1.1 + 0.3 * len(figure.x), figure.title)
    ((_, _, values),) = figure.numbered()
    places = list(range(len(figure.x)))
    bars = axes.barh(places, values, 0.7, color=SINGLE)
    labels = [f"{figure.text(value)}{_note(figure, place)}" for place, value in enumerate(values)]
    axes.bar_label(bars, labels, padding=3, fontsize=TEXT, color=INK)
    axes.set_yticks(places, [plain(place) for place in figure.x])
    axes.invert_yaxis()
    axes.set(xlabel=plain(figure.y_label), ylabel=plain(figure.x_label), xmargin=0.18)
    axes.autoscale_view()
    axes.set_xlim(left=min([0.0, *(value for value in values if value < 0)]))
    value_axis(axes, "x", figure.shown or _three_digits)
    return canvas


def _note(figure: Figure, place: int) -> str:
    return f"  {plain(figure.marks[place])}" if place in figure.marks else ""


def _groups(axes: Any, figure: Figure) -> None:
    """Draw bars or points beside each other at each category, with their numbers where there is space."""
    count = max(1, len(figure.series))
    wide = 0.8 / count
    inches = 0.85 * _WIDTH * wide / max(1, len(figure.x))
    for number, name, values in figure.numbered():
        places = [place + wide * (number - (count - 1) / 2) for place in range(len(figure.x))]
        colour = SERIES[number % len(SERIES)]
        if figure.kind == "bars":
            axes.bar(places, values, wide * 0.94, label=name, color=colour)
        else:
            axes.plot(places, values, "o", label=name, color=colour, markersize=5)
        texts = [figure.text(value) for value in values]
        turned = inches < _LETTER * max(map(len, texts), default=0)
        for place, value, text in zip(places, values, texts, strict=True):
            if text and inches >= _TOO_NARROW:
                axes.annotate(
                    text, (place, value), xytext=(0, 2 if figure.kind == "bars" else 5), textcoords="offset points",
                    ha="center", va="bottom", rotation=90 if turned else 0, fontsize=TEXT - 2, color=INK,
                )  # fmt: skip
    if figure.kind == "points":
        between = [place + 0.5 for place in range(len(figure.x) - 1)]
        axes.vlines(between, 0, 1, LINE, linewidth=0.8, transform=axes.get_xaxis_transform())
    axes.margins(y=0.16)


def _lines(axes: Any, figure: Figure) -> None:
    """Draw a line for each series, and the marks on the first."""
    places = range(len(figure.x))
    many = len(figure.x) > 2 * _MOST_TICKS
    count = len(figure.series)
    for number, name, values in figure.numbered():
        stroke = _STROKES[number // len(SERIES) % len(_STROKES)]
        colour = SERIES[number % len(SERIES)] if count > 1 else SINGLE
        # Of lines that run together each shows as a ring around the next.
        size = 4 + 4 * (count - 1 - number) / max(1, count - 1)
        axes.plot(
            places, values, stroke, label=name, color=colour, marker="" if many else "o", markersize=size
        )
    if not figure.log:
        axes.set_ylim(bottom=0)
    first = next(iter(figure.series.values()), ())
    for mark, (place, text) in enumerate(figure.marks.items()):
        value = first[place]
        if value is not None:
            right = place > len(figure.x) / 2
            axes.plot([place], [value], "o", color=INK, markersize=6, zorder=3)
            axes.annotate(
                plain(text), (place, value), xytext=(-24, 24 + 14 * mark) if right else (24, -24 - 14 * mark), textcoords="offset points",
                ha="right" if right else "left", va="center", fontsize=TEXT, color=INK, arrowprops={
                    "arrowstyle": "-", "color": INK, "linewidth": 0.8, "relpos": (1, 0.5) if right else (0, 0.5),
                },
            )  # fmt: skip


def _name_places(axes: Any, figure: Figure) -> None:
    """Label the positions, turned if their texts are too long for the width."""
    names = [plain(place) for place in figure.x]
    most = 10 if len(names) > _MOST_TICKS and isinstance(figure.x[0], int) else _MOST_TICKS
    step = max(1, len(names) // most)
    turned = sum(map(len, names[::step])) + 2 * len(names[::step]) > 110
    style = {"rotation": 30, "ha": "right"} if turned else {}
    axes.set_xticks(range(0, len(names), step), names[::step], **style)


def _named_at_ends(axes: Any, figure: Figure) -> bool:
    """Write each line's name at its last value if no two ends are near each other, and return whether."""
    ends = []
    for number, name, values in figure.numbered():
        given = [(place, value) for place, value in enumerate(values) if value == value]  # noqa: PLR0124 (NaN)
        if not given:
            return False
        ends.append((*given[-1], name, SERIES[number % len(SERIES)]))
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = sorted(to_axes.transform((place, value))[1] for place, value, _, _ in ends)
    if any(after - before < _LEAST_GAP for before, after in pairwise(heights)):
        return False
    for place, value, name, colour in ends:
        axes.annotate(
            name, (place, value), xytext=(6, 0), textcoords="offset points", va="center", fontsize=TEXT, color=colour
        )  # fmt: skip
    return True
