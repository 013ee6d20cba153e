"""Figures: bars, lines and timelines, drawn with matplotlib, an optional dependency."""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hypar.errors import OptionError
from hypar.files.text import require_writable, write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.timeline import Timeline

ENDINGS = (".png", ".svg", ".pdf")
"""File endings of the supported formats."""

_KEPT_OUT = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata to omit, such as the date, so that the same input gives the same bytes."""

_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac")
_STROKES = ("-", "--", ":", "-.")
_MOST_ROWS = 200
"""Number of a timeline's rows drawn at full height and labelled."""

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The data of a figure.

    Attributes:
        title: title of the figure.
        x: positions along the axis, texts or numbers.
        x_label: label of the axis.
        y_label: label of the values, with their unit.
        series: values by name, one for each position; None leaves a gap.
        kind: style of drawing.
        log: whether the values need a logarithmic scale.
    """

    title: str
    x: Sequence[str] | Sequence[float]
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[float | None]]
    kind: Literal["bars", "lines", "points"] = "bars"
    log: bool = False


def draw(figure: Figure, file: str | Path) -> None:
    """Draw a figure to a file.

    Raises:
        OptionError: matplotlib is not installed, or the file ending is not a supported format.
        DocumentError: the folder is missing or not writable.
    """
    require_plot(file)
    canvas, axes = _axes(9, 4.5)
    places = range(len(figure.x))
    wide = 0.8 / max(1, len(figure.series))
    for number, (name, values) in enumerate((_plain(name), values) for name, values in figure.series.items()):
        shown = [float("nan") if value is None else value for value in values]
        colour = _COLOURS[number % len(_COLOURS)]
        if figure.kind == "bars":
            left = [place + wide * (number - (len(figure.series) - 1) / 2) for place in places]
            axes.bar(left, shown, wide, label=name, color=colour)
        elif figure.kind == "lines":
            stroke = _STROKES[number // len(_COLOURS) % len(_STROKES)]
            axes.plot(places, shown, stroke, label=name, color=colour, marker="o", markersize=3)
        else:
            axes.plot(
                places, shown, "o", label=name, color=colour, markersize=3 + 2 * number, zorder=2 + number
            )
    step = max(1, len(figure.x) // 24)
    axes.set_xticks(
        list(places)[::step], [_plain(place) for place in figure.x][::step], rotation=30, ha="right"
    )
    axes.set(title=_plain(figure.title), xlabel=_plain(figure.x_label), ylabel=_plain(figure.y_label))
    some = any(value for values in figure.series.values() for value in values if value)
    axes.set_yscale("log" if figure.log and some else "linear")
    axes.grid(axis="y", alpha=0.3)
    if len(figure.series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    _save(canvas, Path(file))


def draw_timeline(timeline: Timeline, title: str, file: str | Path) -> None:
    """Draw a timeline with a row for each resource.

    Raises:
        OptionError: matplotlib is not installed, or the file ending is not a supported format.
        DocumentError: the folder is missing or not writable.
    """
    require_plot(file)
    rows = {name: row for row, name in enumerate(timeline.busy)}
    canvas, axes = _axes(11, 1.2 + 0.5 * min(len(rows), _MOST_ROWS))
    kinds = list(timeline.by_kind)
    scale, unit = next((item for item in _SCALES if timeline.makespan >= item[0]), _SCALES[-1])
    for number, kind in enumerate(kinds):
        tasks = [
            (rows[task.resource], task.seconds / scale, start / scale)
            for task, start in zip(timeline.tasks, timeline.starts, strict=True)
            if task.kind == kind
        ]
        own, seconds, starts = ([item[place] for item in tasks] for place in range(3))
        axes.barh(
            own, seconds, left=starts, label=_plain(kind), color=_COLOURS[number % len(_COLOURS)], height=0.7
        )
    step = -(-len(rows) // _MOST_ROWS) or 1
    axes.set_yticks(list(rows.values())[::step], [_plain(name) for name in rows][::step])
    axes.invert_yaxis()
    axes.set(title=_plain(title), xlabel=unit)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    _save(canvas, Path(file))


def require_plot(file: str | Path, also: str = "") -> None:
    """Raise if a figure could not be drawn, before anything is computed for it.

    Args:
        file: the target file.
        also: another ending to list as allowed.

    Raises:
        OptionError: matplotlib is not installed, or the file ending is not a supported format.
    """
    require_writable(Path(file))
    if Path(file).suffix not in ENDINGS:
        allowed = f"a name that ends in {', '.join(filter(None, (*ENDINGS, also)))}"
        raise OptionError("plot", f"found the file {str(file)!r}", allowed)
    if find_spec("matplotlib") is None:
        raise OptionError("plot", "matplotlib is not installed", hint="pip install matplotlib")


def _plain(text: object) -> str:
    return str(text).replace("$", r"\$")


def _axes(width: float, height: float) -> tuple[Any, Any]:
    """Return an empty figure and its axes, without a window system."""
    from matplotlib import rcParams  # noqa: PLC0415 (an extra, and slow to import)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (as above)
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (as above)

    rcParams["svg.hashsalt"] = "hypar"
    canvas = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas, canvas.subplots()


def _save(canvas: Any, file: Path) -> None:
    stream = io.BytesIO()
    canvas.savefig(stream, format=file.suffix[1:], dpi=110, metadata=_KEPT_OUT[file.suffix])
    write_bytes(file, stream.getvalue())
