"""The common style of all pictures, and their files. Pictures are drawn with matplotlib, an optional dependency.

A picture has a white ground, no frame but the line from which values are counted, a grid along the values alone, and a
title on the left.
"""

from __future__ import annotations

import io
import re
import textwrap
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hypar.errors import OptionError
from hypar.files.text import require_writable, write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = (".png", ".svg", ".pdf")
"""File endings of the supported formats."""

INK, MUTED, LINE, RULE = "#1b1f24", "#57606a", "#d8dee4", "#8c959f"
"""The colours of text, of secondary text, of grid lines and of axes."""

SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#5c4636", "#8c959f")
"""The colours of several series, which the colour-blind can tell apart.

Source: Okabe and Ito, Color Universal Design, 2008; the last two replace yellow and black.
"""

SINGLE = "#52677a"
"""The colour of one series alone."""

TEXT = 8
"""Size of the text on a picture, in points."""

_DOTS = 110
_TITLE_WIDTH = 11
"""Characters of a title to an inch."""

_KEPT_OUT = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata to omit, such as the date, so that the same input gives the same bytes."""


class Drawing(Protocol):
    """The data of a picture."""

    def picture(self) -> Any:
        """Draw it with matplotlib, and return the figure."""


def draw(drawing: Drawing, file: str | Path) -> None:
    """Draw a picture to a file.

    Raises:
        OptionError: matplotlib is not installed, or the file ending is not a supported format.
        DocumentError: the folder is missing or not writable.
    """
    require_plot(file)
    save(drawing.picture(), Path(file))


def save(canvas: Any, file: Path) -> None:
    """Write a matplotlib figure to a file, whole or not at all."""
    write_bytes(file, _encoded(canvas, file.suffix))


def require_plot(file: str | Path, also: str = "") -> None:
    """Raise if a picture could not be drawn, before anything is computed for it.

    Args:
        file: the target file.
        also: another ending to list as allowed.

    Raises:
        OptionError: matplotlib is not installed, or the file ending is not a supported format.
        DocumentError: the folder is missing or not writable.
    """
    require_writable(Path(file))
    if Path(file).suffix not in ENDINGS:
        allowed = f"a name that ends in {', '.join(filter(None, (*ENDINGS, also)))}"
        raise OptionError("plot", f"found the file {str(file)!r}", allowed)
    require_matplotlib()


def require_matplotlib() -> None:
    """Raise if matplotlib is not installed.

    Raises:
        OptionError: it is not.
    """
    if find_spec("matplotlib") is None:
        raise OptionError("plot", "matplotlib is not installed", hint="pip install matplotlib")


def plain(text: object) -> str:
    """Return a text that matplotlib does not take for a formula."""
    return str(text).replace("$", r"\$")


def blank(width: float, height: float, title: str) -> tuple[Any, Any]:
    """Return an empty figure of a size in inches and its axes, without a window system."""
    from matplotlib import rcParams  # noqa: PLC0415 (an extra, and slow to import)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (as above)

    rcParams["svg.hashsalt"] = "hypar"
    canvas = _figure_class()(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(canvas)
    together = re.sub(r"(\d) (?=[A-Za-z])", "\\1\u00a0", title)  # a number and its unit
    lines = textwrap.wrap(together, int(width * _TITLE_WIDTH)) or [""]
    canvas.suptitle(plain("\n".join(lines)), x=0.01, ha="left", fontsize=TEXT + 3, color=INK)
    axes = canvas.subplots()
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", labelsize=TEXT, colors=INK, length=0)
    axes.set_axisbelow(True)
    return canvas, axes


def value_axis(axes: Any, which: str, shown: Callable[[float], str]) -> None:
    """Style the axis along which values are counted, ``x`` or ``y``: a grid, and ticks with units."""
    axes.grid(axis=which, color=LINE, linewidth=0.8)
    axes.spines["left" if which == "x" else "bottom"].set(visible=True, color=RULE)
    axis = getattr(axes, f"{which}axis")
    axis.get_label().set(color=MUTED, fontsize=TEXT)
    axis.set_major_formatter(lambda value, _place: shown(value))
    if axis.get_scale() == "log":
        # Of the ticks inside a decade 2 and 5 have labels.
        axis.set_minor_formatter(lambda value, _place: shown(value) if f"{value:.0e}"[0] in "25" else "")


@cache
def _figure_class() -> Any:
    """Return matplotlib's figure with a method that notebooks look for: without pyplot they show none."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to import)

    class Picture(Figure):
        """A figure that shows itself in a notebook."""

        def _repr_png_(self) -> bytes:
            return _encoded(self, ".png")

    return Picture


def _encoded(canvas: Any, ending: str) -> bytes:
    stream = io.BytesIO()
    canvas.savefig(stream, format=ending[1:], dpi=_DOTS, metadata=_KEPT_OUT[ending])
    return stream.getvalue()
