"""Tables, timelines and figures of documents as pictures: rows with a track of bars or of times, and lines between axes."""

from __future__ import annotations

import math
import re
from itertools import accumulate, chain, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Column, Figure, Section, Span, Table, Timeline
from hypar.reports.palette import TIMES
from hypar.reports.svg import ROW, WIDTH, Picture, wide
from hypar.reports.text import columns_of
from hypar.reports.words import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Part
    from hypar.reports.text import Shown

GAP, UNIT, TALL, TRACK = 14, 30, 26, 440
"""A gap, the width of a halving, the height of a row whose spans have labels, and the least width of a track."""

LEFT, RIGHT, HIGH = 78.0, WIDTH - 40, 180.0
"""The ends and the height of lines."""

WORDS = {
    "computes": "computes",
    "receives": "receives",
    **{kind: kind for kind in TIMES},
    "communication": "receives",
}
"""The words for the kinds of spans, which are the names of their colours; first those of the parts of a bar."""


def picture(parts: Sequence[Part], title: str) -> Picture:
    """Return what is drawn of parts of a document below each other: figures, timelines and tables with bars.

    A timeline whose tracks are the names of the table before it is drawn beside that, in place of its bars.
    """
    found, table, head = Picture(title), None, ""
    for part, after in zip(parts, [*parts[1:], None], strict=False):
        if isinstance(part, Section):
            head = part.title
        if isinstance(part, Table) and isinstance(after, Timeline) and after.tracks == _names(part):
            table = part
        elif isinstance(part, Figure | Timeline) or (isinstance(part, Table) and part.has_bars):
            if found.shapes:
                found.text(0, found.y + 40, part.title or head)
                found.y += 56
            if isinstance(part, Figure):
                _lines(found, part)
            elif isinstance(part, Table):
                _bars(found, columns_of(part))
            else:
                _times(found, columns_of(table or _tracks(part)), part)
            table = None
    return found


def _names(table: Table) -> tuple[str, ...]:
    return tuple(columns_of(table)[0].texts[: len(table.rows)]) if table.shown else ()


def _tracks(timeline: Timeline) -> Table:
    return Table((Column(key=""),), [{"": track} for track in timeline.tracks])


def _bars(found: Picture, columns: Sequence[Shown]) -> None:
    bar = next(own for own in columns if own.column.unit == "bar")
    x = _columns(found, columns, ROW)
    for at, text in enumerate(bar.texts):
        found.text(x, found.y + ROW * at + 13, text)
    rows = [
        [
            Span("", *ends, kind)
            for kind, ends in zip(WORDS, pairwise(accumulate(parts, initial=0.0)), strict=False)
        ]
        for parts in bar.bars
    ]
    _spans(found, rows, _Axis(bar.scale, x, found.width - 1), ROW)
    found.y += GAP
    kinds = _kinds(rows)
    found.legend({**_dims(columns), **(kinds if len(kinds) > 1 else {})})


def _times(found: Picture, columns: Sequence[Shown], timeline: Timeline) -> None:
    high = TALL if any(span.label for span in timeline.spans) else ROW
    x, most = _columns(found, columns, high), max((span.end for span in timeline.spans), default=0.0)
    axis, bottom = _Axis(most, x, found.width - 1), found.y + high * len(columns[0].texts)
    for tick in axis.ticks(5):
        found.line(axis.place(tick), found.y - 2, axis.place(tick), bottom)
        anchor = "middle" if tick else "start"
        found.text(axis.place(tick), bottom + 15, _text(tick, "seconds"), "muted", anchor=anchor)
    rows = [_merged(timeline.spans, name, most / WIDTH / 4) for name in columns[0].texts]
    _spans(found, rows, axis, high)
    found.y += 26
    found.legend({**_dims(columns), **_kinds(rows)})


def _kinds(rows: Iterable[Iterable[Span]]) -> dict[str, str]:
    used = {span.kind for row in rows for span in row}
    return {kind: word for kind, word in WORDS.items() if kind in used}


def _columns(found: Picture, columns: Iterable[Shown], high: float) -> float:
    """Draw the heads, texts and choices of rows, say the first ones in words, and return the place beside them."""
    told = [own for own in columns if own.column.unit != "bar" and not own.column.prose]
    found.y += ROW * any(own.column.title for own in told)
    x = 0.0
    for own in told:
        x += _column(found, own, x, high)
    found.width = max(found.width, x + TRACK)
    said = (" ".join(filter(None, row)) for row in zip(*(own.texts for own in told), strict=True))
    found.about += f"{'; '.join([*said][:24])}. "
    return x


def _column(found: Picture, own: Shown, x: float, high: float) -> float:
    """Draw the head of a column and its texts or choices, and return its width with a gap."""
    cells = [pieces(value) if isinstance(value, Cell) and value.text else [] for value in own.values]
    units = max((sum(_halvings(degree) for *_, degree in cell) for cell in cells), default=0)
    width = max(UNIT * units, *map(wide, (own.column.title, *own.texts)))
    side = "end" if own.column.numeric else "middle" if units else "start"
    place = x + {"start": 0, "middle": width / 2, "end": width}[side]
    found.text(place, found.y - ROW + 12, own.column.title, "muted", anchor=side)
    for at, (text, cell) in enumerate(zip(own.texts, cells, strict=True)):
        y = found.y + high * at + (high - ROW) / 2
        if cell:
            _cell(found, cell, x, y, width)
        else:
            found.text(place, y + 13, text, anchor=side, mono=not own.column.numeric)
    return width + (3 if units else GAP)


def _cell(found: Picture, parts: Sequence[tuple[str, str, int]], x: float, y: float, width: float) -> None:
    """Draw a choice: a part for each dim that it cuts, as wide as its halvings, and one for copies."""
    unit = width / sum(_halvings(degree) for _, _, degree in parts)
    for word, dim, degree in parts:
        own = unit * _halvings(degree)
        found.rect(x + 0.5, y + 1.5, own - 1, ROW - 4, dim)
        found.text(x + own / 2, y + 13, word, f"{dim}-t", anchor="middle", mono=True)
        x += own


def _dims(columns: Iterable[Shown]) -> dict[str, str]:
    """Return what the colour of each dim of choices means, with its word."""
    cells = dict.fromkeys(value for own in columns for value in own.values if isinstance(value, Cell))
    parts = [(dim, word.rstrip("0123456789")) for cell in cells for word, dim, _ in pieces(cell)]
    words = {dim: word for dim, word in reversed(parts) if word.isidentifier()}
    return {
        dim: f"{word} cuts {PLACES[dim]}" if dim in PLACES else word for dim, word in [*words.items()][::-1]
    }


def pieces(cell: Cell) -> list[tuple[str, str, int]]:
    """Return the parts of a choice: the word of each dim that it cuts, the dim and its degree, and one for copies.

    Examples:
        >>> pieces(Cell("n8 c2", (("batch", 8), ("out_channels", 2)))), pieces(Cell("rep"))
        ([('n8', 'batch', 8), ('c2', 'out_channels', 2)], [('rep', 'whole', 2)])
    """
    words = [word for word in cell.text.split() if not re.fullmatch("[a-z]1", word)] or [cell.text]
    parts = [*cell.parts]
    if len(words) == len(parts) + 1:
        parts.append(("whole", 2))
    if len(words) != len(parts):
        words = [cell.text, *[""] * (len(parts) - 1)]
    joins = {"channels": "out_channels" if re.match(r"c\d", words[-1]) else "in_channels"}
    return [(word, joins.get(dim, dim), degree) for word, (dim, degree) in zip(words, parts, strict=True)]


def _halvings(degree: int) -> float:
    return math.log2(max(degree, 2))


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


def _spans(found: Picture, rows: Sequence[Sequence[Span]], axis: _Axis, high: float) -> None:
    """Draw the spans of rows, those off the critical path low; one that ends beyond the axis is cut, a label needs room."""
    for row in rows:
        for span in row:
            x, last, own = (
                axis.place(span.start),
                axis.place(span.end),
                (high - 4) * (1 if span.critical else 0.4),
            )
            width = min(last, axis.end) - min(x, axis.end)
            found.rect(x, found.y + high - 2 - own, width, own, span.kind)
            if last > axis.end + 0.1:
                found.rect(axis.end - 12, found.y + 2, 4, own, "ground")
            if span.label and width > wide(span.label):
                found.text(x + width / 2, found.y + high / 2 + 4, span.label, "ground", anchor="middle")
        found.y += high


class _Axis(NamedTuple):
    """Numbers from 0 between two places."""

    most: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / (self.most or 1.0)

    def ticks(self, count: int) -> list[float]:
        """Return round numbers from 0 to at most the largest, about so many."""
        if self.most <= 0:
            return [0.0]
        rough = self.most / count
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(own * power for own in (1, 2, 5, 10) if own * power >= rough * 0.999)
        return [at * step for at in range(int(self.most / step * (1 + 1e-9)) + 1)]


def _text(value: float, unit: str) -> str:
    return Column(key="", unit=unit).text(value)


def _lines(found: Picture, figure: Figure) -> None:
    """Draw lines over numbers between axes, with the limit and marks."""
    series = [*figure.series.values()]
    colours = [f"series-{at % 8}" if len(series) > 1 else "backward" for at in range(len(series))]
    found.legend(dict(zip(colours, figure.series, strict=True)) if len(series) > 1 else {})
    every = [own for row in (*series, [figure.limit]) for own in row if own is not None]
    bottom = found.y + 18 + HIGH
    across, up = _Axis(max(figure.x), LEFT, RIGHT), _Axis(max(every, default=1.0), bottom, bottom - HIGH)
    found.text(LEFT, found.y + 8, figure.y_label, "muted")
    for level in up.ticks(4):
        found.line(LEFT, up.place(level), RIGHT, up.place(level))
        found.text(LEFT - 8, up.place(level) + 4, _text(level, figure.unit), "muted", anchor="end")
    for x in figure.x if len(figure.x) <= 8 else across.ticks(6):
        found.text(across.place(x), bottom + 18, _text(x, figure.x_unit), "muted", anchor="middle")
    found.text(RIGHT, bottom + 36, figure.x_label, "muted", anchor="end")
    if figure.limit is not None:
        found.line(LEFT, up.place(figure.limit), RIGHT, up.place(figure.limit), colour="ink")
        found.text(LEFT + 4, up.place(figure.limit) - 4, f"limit {_text(figure.limit, figure.unit)}")
    for colour, row in zip(colours, series, strict=True):
        for known, run in groupby(zip(figure.x, row, strict=True), key=lambda own: own[1] is not None):
            at = [*chain.from_iterable((across.place(x), up.place(own or 0.0)) for x, own in run)]
            if known:
                found.line(*at, *at[-2:], colour=colour)
    for place, note in figure.marks.items():
        x, y = across.place(figure.x[place]), up.place(series[0][place] or 0.0)
        found.rect(x - 3, y - 3, 6, 6, "ink")
        found.text(x, y - 7, note, anchor="start" if x < (LEFT + RIGHT) / 2 else "end")
    said = (_text(own, figure.unit) for row in series for own in row[:12] if own is not None)
    found.about += f"{figure.y_label or figure.title}: {'; '.join(said)}. "
    found.y = bottom + (42 if figure.x_label else 24)
