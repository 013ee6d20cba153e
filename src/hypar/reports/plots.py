"""Plots of documents: SVG of our own, and the same shapes drawn by matplotlib where a .png or .pdf is asked for."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError
from hypar.files.text import require_writable, write_bytes, write_text
from hypar.reports.charts import TEXT, picture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.document import Document
    from hypar.reports.charts import Picture

ENDINGS = (".png", ".svg", ".pdf")
"""File endings of the supported formats."""

_KEPT_OUT = {".png": {"Software": None}, ".pdf": {"CreationDate": None}}
"""Metadata to omit, so that the same input gives the same bytes."""


def plot(document: Document, file: Path | None = None) -> Picture:
    """Draw the figures, timelines and bars of a document as one picture, and write it to a file if one is named.

    Raises:
        OptionError: as ``require_plot``, or nothing is to be drawn.
        DocumentError: the folder is missing or not writable.
    """
    if file is not None:
        require_plot(file)
    found = picture([part for _, part in document.walk()], document.title)
    if not found.elements:
        raise OptionError("plot", "this result has no picture")
    if file is not None and file.suffix == ".svg":
        write_text(file, found._repr_svg_())
    elif file is not None:
        write_bytes(file, _with_matplotlib(found, file.suffix))
    return found


def require_plot(file: str | Path, also: str = "") -> None:
    """Raise if a picture could not be drawn, before anything is computed for it; ``also`` is another ending that is allowed.

    Raises:
        OptionError: matplotlib is not installed where it is needed, or the ending is not a supported format.
        DocumentError: the folder is missing or not writable.
    """
    require_writable(Path(file))
    ending = Path(file).suffix
    if ending not in ENDINGS:
        allowed = f"a name that ends in {', '.join(filter(None, (*ENDINGS, also)))}"
        raise OptionError("plot", f"found the file {str(file)!r}", allowed)
    if ending != ".svg" and find_spec("matplotlib") is None:
        other = "a name that ends in .svg"
        raise OptionError("plot", "matplotlib is not installed", other, "pip install matplotlib")


def _with_matplotlib(found: Picture, ending: str) -> bytes:
    """Return a picture as the bytes of a .png or .pdf."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an extra, and slow to import)
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (as above)

    root, stream = ET.fromstring(found.svg()), io.BytesIO()  # noqa: S314 (written above)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    canvas = Canvas(figsize=(width / 100, height / 100))
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1), xlim=(left, left + width), ylim=(top + height, top))
    axes.set_axis_off()
    for element in root:
        _draw(axes, element.tag, element.attrib, element.text or "")
    canvas.savefig(stream, format=ending[1:], dpi=110, metadata=_KEPT_OUT[ending])
    return stream.getvalue()


def _draw(axes: Any, kind: str, look: Mapping[str, str], words: str) -> None:
    """Draw an element of SVG on axes whose units are pixels."""
    if kind == "polyline":
        at = [*map(float, look["points"].split())]
        axes.plot(at[::2], at[1::2], color=look["stroke"], linewidth=0.8, zorder=1)
    elif kind == "text":
        side = {"start": "left", "middle": "center", "end": "right"}[look["text-anchor"]]
        size, weight = 0.66 * float(look.get("font-size", TEXT)), look.get("font-weight", 400)
        font = {"color": look["fill"], "ha": side, "size": size, "weight": int(weight)}
        axes.text(float(look["x"]), float(look["y"]), words.replace("$", r"\$"), **font)
    elif kind == "rect":
        x, y, width, height = (float(look[key]) for key in ("x", "y", "width", "height"))
        corners = (x, x + width, x + width, x), (y, y, y + height, y + height)
        axes.fill(*corners, facecolor=look["fill"], edgecolor=look.get("stroke", "none"), linewidth=0.6)
