"""Figures: bars, lines and timelines, drawn with matplotlib where it is installed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError
from hypar.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.timeline import Timeline

ENDINGS = (".png", ".svg", ".pdf")
"""Formats of a figure."""

_KEPT_OUT = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What matplotlib would write of the day and itself: the same input gives the same bytes."""

_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Numbers to draw.

    Attributes:
        title: what it shows.
        x: the places along the axis, texts or numbers.
        x_label: what they are.
        y_label: what the numbers are, with their unit.
        series: numbers by name, one a place; None leaves a gap.
        lines: whether to join them instead of bars.
        log: whether the numbers span decades.
    """

    title: str
    x: Sequence[str] | Sequence[float]
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[float | None]]
    lines: bool = False
    log: bool = False


def draw(figure: Figure, file: str | Path) -> None:
    """Draw a figure to a file.

    Raises:
        OptionError: matplotlib is not installed, or the ending is no picture's.
        DocumentError: the folder is missing or cannot be written to.
    """
    _require_picture(Path(file))
    canvas, axes = _axes(9, 4.5)
    places = range(len(figure.x))
    wide = 0.8 / max(1, len(figure.series))
    for number, (name, values) in enumerate(figure.series.items()):
        shown = [float("nan") if value is None else value for value in values]
        colour = _COLOURS[number % len(_COLOURS)]
        if figure.lines:
            axes.plot(places, shown, label=name, color=colour, marker="o", markersize=3)
        else:
            left = [place + wide * (number - (len(figure.series) - 1) / 2) for place in places]
            axes.bar(left, shown, wide, label=name, color=colour)
    step = max(1, len(figure.x) // 24)
    axes.set_xticks(list(places)[::step], [str(place) for place in figure.x][::step], rotation=30, ha="right")
    axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    axes.set_yscale("log" if figure.log else "linear")
    axes.grid(axis="y", alpha=0.3)
    if len(figure.series) > 1:
        axes.legend()
    _save(canvas, Path(file))


def draw_timeline(timeline: Timeline, title: str, file: str | Path) -> None:
    """Draw when every task runs, a row for each resource.

    Raises:
        OptionError: matplotlib is not installed, or the ending is no picture's.
        DocumentError: the folder is missing or cannot be written to.
    """
    _require_picture(Path(file))
    rows = {name: row for row, name in enumerate(timeline.busy)}
    canvas, axes = _axes(11, 1.2 + 0.5 * len(rows))
    kinds = list(timeline.by_kind)
    for number, kind in enumerate(kinds):
        tasks = [
            (rows[task.resource], task.seconds, start)
            for task, start in zip(timeline.tasks, timeline.starts, strict=True)
            if task.kind == kind
        ]
        own, seconds, starts = ([item[place] for item in tasks] for place in range(3))
        axes.barh(own, seconds, left=starts, label=kind, color=_COLOURS[number % len(_COLOURS)], height=0.7)
    axes.set_yticks(list(rows.values()), list(rows))
    axes.invert_yaxis()
    axes.set(title=title, xlabel="seconds")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    _save(canvas, Path(file))


def _axes(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure and its axes, without a window system."""
    try:
        from matplotlib import rcParams  # noqa: PLC0415 (an extra, and slow to import)
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (as above)
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (as above)
    except ImportError:
        hint = "pip install 'hypar-planner[plot]'"
        raise OptionError("plot", "matplotlib is not installed", hint=hint) from None
    rcParams["svg.hashsalt"] = "hypar"
    canvas = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas, canvas.subplots()


def _require_picture(file: Path) -> None:
    """Refuse an ending that no picture has."""
    if file.suffix not in ENDINGS:
        raise OptionError(
            "plot", f"found the file {str(file)!r}", f"a name that ends in {', '.join(ENDINGS)}"
        )


def _save(canvas: Any, file: Path) -> None:
    """Write a figure whole or not at all."""
    stream = io.BytesIO()
    canvas.savefig(stream, format=file.suffix[1:], dpi=110, metadata=_KEPT_OUT[file.suffix])
    write_bytes(file, stream.getvalue())
