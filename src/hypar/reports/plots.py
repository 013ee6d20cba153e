"""Pictures of documents as SVG, the same bytes on every machine: rows with a track of bars or of times.

Where a .png or .pdf is asked for, matplotlib draws the same shapes. Places are pixels from the top left. No font is measured: a
letter is taken to be six tenths as wide as it is high.
"""

from __future__ import annotations

import io
import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from hypar.document import Cell, Column, Document, Part, Section, Span, Table, Timeline
from hypar.errors import OptionError
from hypar.files.text import require_writable, write
from hypar.reports.text import Shown, columns_of
from hypar.reports.words import PLACES, RULE, TIMES, colour_of
from hypar.units import format_seconds

SANS = "system-ui,-apple-system,Segoe UI,Roboto,Liberation Sans,Arial,sans-serif"
WIDTH, TEXT, HEAD, ROW, MARGIN, GAP, UNIT, TRACK = 880.0, 12, 16, 19, 20, 14, 30, 440
"""The least width of a picture, the size of its text and of its title, the height of a row, what is left free around it, a gap,
and the least widths of a part of a choice and of a track."""

WORDS = dict.fromkeys(("computes", "receives", "energy", *TIMES)) | {"communication": "receives"}
"""The kinds of spans, which are the names of their colours, first those of a bar's parts, with the word for one whose name is none."""

ENDINGS, _KEPT_OUT = (".png", ".svg", ".pdf"), {".png": {"Software": None}, ".pdf": {"CreationDate": None}}
"""The supported formats; and metadata to omit, so that the same input gives the same bytes."""


@dataclass(slots=True)
class Picture:
    """Elements below a title, up to the height ``y``; a colour is a name, which is the class of an element too."""

    title: str
    width: float = field(default=WIDTH, repr=False)
    y: float = field(default=0.0, repr=False)
    elements: list[str] = field(default_factory=list, repr=False)

    def text(
        self, x: float, y: float, words: str, colour: str = "ink", anchor: str = "start", size: int = TEXT
    ) -> None:
        """Write words on a base line, with their start, middle or end at a place; those of another size are bold."""
        if words:
            look = f'text-anchor="{anchor}" {_fill(colour)}'
            look += f' font-size="{size}" font-weight="700"' * (size != TEXT)
            self.elements.append(f'<text x="{_n(x)}" y="{_n(y)}" {look}>{escape(words)}</text>')

    def rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Draw a rectangle, if it has a width, so that it is seen."""
        if width:
            at = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.4))}" height="{_n(height)}"'
            edge = f' stroke="{RULE}"' if colour == "whole" else ""
            self.elements.append(f"<rect {at} {_fill(colour)}{edge}/>")

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

    def svg(self) -> str:
        """Return it as an element of a page, with its title, on a ground of its own."""
        lines = wrap(self.title, int(self.width / (0.6 * HEAD)))
        top = -1.3 * HEAD * len(lines) - 0.9 * HEAD
        ground = Picture("", self.width + 2 * MARGIN, self.y - top + 2 * MARGIN)
        ground.rect(-MARGIN, top - MARGIN, ground.width, ground.y, "ground")
        for at, line in enumerate(lines):
            ground.text(0, top + HEAD * (1 + 1.3 * at), line, size=HEAD)
        width, height = _n(ground.width), _n(ground.y)
        box = f'viewBox="-{MARGIN} {_n(top - MARGIN)} {width} {height}" width="{width}" height="{height}"'
        body = "\n".join([f"<title>{escape(self.title)}</title>", *ground.elements, *self.elements])
        return f'<svg {box} font-family="{SANS}" font-size="{TEXT}">{body}\n</svg>\n'

    def _repr_svg_(self) -> str:
        return self.svg().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def _fill(colour: str) -> str:
    return f'class="{escape(colour)}" fill="{colour_of(colour)}"'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def wide(text: str) -> float:
    """Return the width of a text."""
    return 0.6 * TEXT * len(text)


def picture(parts: Sequence[Part], title: str) -> Picture:
    """Draw timelines and tables with bars, a timeline in place of the bars of a table before it whose names are its tracks."""
    found, table, head = Picture(title), None, ""
    for part, after in zip(parts, [*parts[1:], None], strict=False):
        if isinstance(part, Section):
            head = part.title
        bare = part._replace(total=None) if isinstance(part, Table) else None
        barred = isinstance(part, Table) and any(own.unit == "bar" for own in part.shown)
        if bare and isinstance(after, Timeline) and after.tracks == tuple(columns_of(bare)[0].texts):
            table = bare
        elif isinstance(part, Timeline) or (isinstance(part, Table) and barred):
            if found.elements:
                found.text(0, found.y + 40, part.title or head)
                found.y += 56
            if isinstance(part, Table):
                _bars(found, columns_of(part))
            else:
                tracks = Table((Column(""),), [{"": track} for track in part.tracks])
                _times(found, columns_of(table or tracks), part)
            table = None
    return found


def _bars(found: Picture, columns: Sequence[Shown]) -> None:
    bar = next(own for own in columns if own.column.unit == "bar")
    axis = _columns(found, columns, bar.scale)
    for at, text in enumerate(bar.texts):
        found.text(axis.start, found.y + ROW * at + 13, text)
    ends = [pairwise(accumulate(parts, initial=0.0)) for parts in bar.bars]
    rows = [[Span("", *at, kind) for kind, at in zip(WORDS, own, strict=False)] for own in ends]
    used = _spans(found, rows, axis, GAP)
    found.legend({**_dims(columns), **(used if len(used) > 1 else {})})


def _times(found: Picture, columns: Sequence[Shown], timeline: Timeline) -> None:
    most = max((span.end for span in timeline.spans), default=0.0)
    axis = _columns(found, columns, most)
    bottom = found.y + ROW * len(columns[0].texts)
    for tick in axis.ticks():
        x, anchor = axis.place(tick), "middle" if tick else "start"
        found.rect(x - 0.5, found.y - 2, 1, bottom - found.y + 2, "line")
        found.text(x, bottom + 15, format_seconds(tick), "muted", anchor=anchor)
    rows = [_merged(timeline.spans, name, most / WIDTH / 4) for name in columns[0].texts]
    found.legend({**_dims(columns), **_spans(found, rows, axis, ROW + 7)})


def _columns(found: Picture, columns: Iterable[Shown], most: float) -> _Axis:
    told = [own for own in columns if own.column.unit != "bar" and not own.column.prose]
    found.y += ROW * any(own.column.title for own in told)
    x = 0.0
    for own in told:
        x += _column(found, own, x)
    found.width = max(found.width, x + TRACK)
    return _Axis(most, x, found.width - 1)


def _column(found: Picture, own: Shown, x: float) -> float:
    """Draw the head of a column and its texts or choices, and return its width with a gap."""
    cells = [value.parts if isinstance(value, Cell) else () for value in own.values]
    parts = max(map(len, cells), default=0)
    width = max(UNIT * parts, *map(wide, (own.column.title, *own.texts)))
    side = "end" if own.column.numeric else "middle" if parts else "start"
    place = x + {"start": 0, "middle": width / 2, "end": width}[side]
    found.text(place, found.y - ROW + 12, own.column.title, "muted", anchor=side)
    for at, (text, cell) in enumerate(zip(own.texts, cells, strict=True)):
        y = found.y + ROW * at
        found.text(place, y + 13, text * (not cell), anchor=side)
        for number, (word, dim) in enumerate(cell):
            each = width / len(cell)
            found.rect(x + each * number + 0.5, y + 1.5, each - 1, ROW - 4, dim)
            found.text(x + each * (number + 0.5), y + 13, word, f"{dim}-t", anchor="middle")
    return width + (3 if parts else GAP)


def _dims(columns: Iterable[Shown]) -> dict[str, str]:
    cells = dict.fromkeys(value for own in columns for value in own.values if isinstance(value, Cell))
    found: dict[str, str] = {}
    for word, dim in (part for cell in cells for part in cell.parts):
        own = word.rstrip("0123456789")
        if own.isidentifier():
            found.setdefault(dim, f"{own} cuts {PLACES[dim]}" if dim in PLACES else own)
    return found


def _merged(spans: Sequence[Span], track: str, gap: float) -> list[Span]:
    """Return a track's spans in their order, the low ones last; those of one kind and label, or that nearly touch, as one."""
    found: list[Span] = []
    own = (span for span in spans if span.track == track)
    for span in sorted(own, key=lambda span: (not span.critical, span.start, span.end)):
        last = found[-1] if found else span
        if found and span[3:] == last[3:] and (span.label or span.start - last.end < gap):
            found[-1] = last._replace(end=max(last.end, span.end))
        else:
            found.append(span)
    return found


def _spans(found: Picture, rows: Iterable[Sequence[Span]], axis: _Axis, gap: float) -> dict[str, str]:
    """Draw spans, low off the critical path and cut at the end of the axis, with labels if there is room; return their kinds."""
    used = set()
    for row in rows:
        for span in row:
            x, last, high = axis.place(span.start), axis.place(span.end), 15 if span.critical else 6
            width = min(last, axis.end) - min(x, axis.end)
            found.rect(x, found.y + ROW - 2 - high, width, high, span.kind)
            found.rect(axis.end - 12, found.y + 2, 4 * (last > axis.end + 0.1), high, "ground")
            label = span.label * (width > wide(span.label))
            found.text(x + width / 2, found.y + 13, label, "ground", anchor="middle")
            used.add(span.kind)
        found.y += ROW
    found.y += gap
    return {kind: word or kind for kind, word in WORDS.items() if kind in used}


class _Axis(NamedTuple):
    most: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / (self.most or 1.0)

    def ticks(self) -> list[float]:
        """Return about five round numbers from 0 to at most the largest."""
        rough = self.most / 5
        if rough <= 0:
            return [0.0]
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(own * power for own in (1, 2, 5, 10) if own * power >= rough * 0.999)
        return [at * step for at in range(int(self.most / step * (1 + 1e-9)) + 1)]


def plot(document: Document, file: str | Path | None = None) -> Picture:
    """Draw the timelines and bars of a document as one picture, and write it to a file; raises as ``require_plot``, or without any."""
    if file is not None:
        require_plot(file)
    found = picture([part for _, part in document.walk()], document.title)
    if not found.elements:
        raise OptionError("plot", "this result has no picture")
    if file is not None:
        ending = Path(file).suffix
        svg = ending == ".svg"
        write(Path(file), found._repr_svg_().encode() if svg else _with_matplotlib(found, ending))
    return found


def require_plot(file: str | Path, also: str = "") -> None:
    """Raise ``OptionError`` for a file of no format, ``also`` allowed, or that needs matplotlib; ``DocumentError`` if not writable."""
    require_writable(Path(file))
    ending = Path(file).suffix
    if ending not in ENDINGS:
        allowed = f"a name that ends in {', '.join(filter(None, (*ENDINGS, also)))}"
        raise OptionError("plot", f"found the file {str(file)!r}", allowed)
    if ending != ".svg" and find_spec("matplotlib") is None:
        other = "a name that ends in .svg"
        raise OptionError("plot", "matplotlib is not installed", other, "pip install matplotlib")


def _with_matplotlib(found: Picture, ending: str) -> bytes:
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (an extra, and slow to import)

    root, stream = ET.fromstring(found.svg()), io.BytesIO()  # noqa: S314 (written above)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    canvas = Canvas(figsize=(width / 100, height / 100))
    axes = canvas.add_axes((0, 0, 1, 1), xlim=(left, left + width), ylim=(top + height, top))
    axes.set_axis_off()
    for element in root:
        _draw(axes, element.tag, element.attrib, element.text or "")
    canvas.savefig(stream, format=ending[1:], dpi=110, metadata=_KEPT_OUT[ending])
    return stream.getvalue()


def _draw(axes: Any, kind: str, look: Mapping[str, str], words: str) -> None:
    if kind == "text":
        side = {"start": "left", "middle": "center", "end": "right"}[look["text-anchor"]]
        size, weight = 0.66 * float(look.get("font-size", TEXT)), look.get("font-weight", 400)
        font = {"color": look["fill"], "ha": side, "size": size, "weight": int(weight)}
        axes.text(float(look["x"]), float(look["y"]), words.replace("$", r"\$"), **font)
    elif kind == "rect":
        x, y, width, height = (float(look[key]) for key in ("x", "y", "width", "height"))
        corners = (x, x + width, x + width, x), (y, y, y + height, y + height)
        axes.fill(*corners, facecolor=look["fill"], edgecolor=look.get("stroke", "none"), linewidth=0.6)
