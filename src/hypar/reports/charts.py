"""Tables, timelines and figures of documents as pictures: rows with a track of bars or of times, and lines between axes."""

from __future__ import annotations

import math
import re
from itertools import accumulate, chain, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Column, Figure, Span, Table, Timeline
from hypar.reports.palette import TIMES
from hypar.reports.svg import ROW, WIDTH, Picture, wide
from hypar.reports.text import columns_of
from hypar.reports.words import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.reports.text import Shown

GAP, UNIT, TALL, TRACK = 14, 30, 26, 440
"""A gap, the width of a halving, the height of a row whose spans have labels, and the least width of a track."""

LONGEST_NAME = 36
LEFT, RIGHT, HIGH = 78.0, WIDTH - 40, 180.0
"""The ends and the height of lines."""

BARS = ("computes", "receives")
"""The kinds of the parts of a bar, which are the names of their colours too."""

WORDS = {"communication": "receives"}
"""The words for kinds whose name is none."""


def picture(*parts: Figure | Table | Timeline, title: str = "") -> Picture:
    """Return parts of a document below each other; a timeline of the rows of the table before it, beside that."""
    found, table = Picture(title or parts[0].title), None
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        if isinstance(part, Table) and isinstance(after, Timeline) and after.tracks == names_of(part):
            table = part
            continue
        if found.shapes:
            found.text(0, found.y + 40, part.title)
            found.y += 56
        if isinstance(part, Figure):
            _lines(found, part)
        elif isinstance(part, Table):
            _rows(found, part)
        else:
            rows = [{"": track} for track in part.tracks]
            _rows(found, table or Table((Column(key=""),), rows), part)
        table = None
    return found


def names_of(table: Table) -> tuple[str, ...]:
    """Return the texts of the first column, a total left out."""
    return tuple(columns_of(table)[0].texts[: len(table.rows)]) if table.shown else ()


def _rows(found: Picture, table: Table, timeline: Timeline | None = None) -> None:
    """Draw rows below their heads: their texts and cells, and on a track the bars of the table or when they work."""
    columns = columns_of(table)
    told = [own for own in columns if own.column.unit != "bar" and not own.column.prose]
    spans = timeline.spans if timeline else ()
    high = TALL if any(span.label for span in spans) else ROW
    found.y += ROW * any(own.column.title for own in told)
    x = 0.0
    for own in told:
        x += _column(found, own, x, high)
    found.width = max(found.width, x + TRACK)
    bar = next((own for own in columns if own.column.unit == "bar"), None)
    if timeline is not None:
        most = max((span.end for span in spans), default=0.0)
        rows = [[*_merged(spans, name, most / WIDTH / 4)] for name in told[0].texts]
        axis = _Axis(most, x, found.width - 1)
        _times(found, axis, found.y + high * len(rows))
    else:
        rows = [[*_bar(parts)] for parts in bar.bars] if bar else []
        axis = _Axis(bar.scale if bar else 0.0, x, found.width - 1)
        for at, text in enumerate(bar.texts if bar else ()):
            found.text(x, found.y + high * at + high / 2 + 4, text)
    for at, row in enumerate(rows):
        for span in row:
            _span(found, span, axis, found.y + high * at, high)
    found.y += high * len(told[0].texts) + (26 if timeline else GAP)
    used = {span.kind for row in rows for span in row}
    kinds = {kind: WORDS.get(kind, kind) for kind in (TIMES if timeline else BARS) if kind in used}
    found.legend({**_dims(told), **(kinds if timeline or len(kinds) > 1 else {})})
    said = (" ".join(filter(None, row)) for row in zip(*(own.texts for own in told), strict=True))
    found.about += f"{len(told[0].texts)} rows: {'; '.join([*said][:24])}. "


def _column(found: Picture, own: Shown, x: float, high: float) -> float:
    """Draw the head of a column and its texts or choices, and return its width with a gap."""
    cells = [pieces(value) if isinstance(value, Cell) and value.text else [] for value in own.values]
    units = max(sum(_halvings(degree) for *_, degree in cell) for cell in cells) if cells else 0
    texts = [_short(text) for text in own.texts]
    width = max(UNIT * units, *map(wide, (own.column.title, *texts)))
    side = "end" if own.column.numeric else "middle" if units else "start"
    place = x + {"start": 0, "middle": width / 2, "end": width}[side]
    found.text(place, found.y - ROW + 12, own.column.title, "muted", anchor=side)
    for at, (text, cell) in enumerate(zip(texts, cells, strict=True)):
        y = found.y + high * at
        if cell:
            _cell(found, cell, x, y + (high - ROW) / 2, width)
        else:
            found.text(place, y + high / 2 + 4, text, anchor=side, mono=not own.column.numeric)
    return width + (3 if units else GAP)


def _short(name: str) -> str:
    """Return a name that fits, its middle left out."""
    return name if len(name) <= LONGEST_NAME else f"{name[:17]}\u2026{name[-18:]}"


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
    found: dict[str, str] = {}
    cells = dict.fromkeys(value for own in columns for value in own.values if isinstance(value, Cell))
    for word, dim, _ in (piece for cell in cells for piece in pieces(cell)):
        own = word.rstrip("0123456789")
        if own.isidentifier():
            found.setdefault(dim, f"{own} cuts {PLACES[dim]}" if dim in PLACES else own)
    return found


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


def _bar(parts: Sequence[float]) -> Iterator[Span]:
    """Yield the parts of a bar behind each other."""
    for kind, ends in zip(BARS, pairwise(accumulate(parts, initial=0.0)), strict=False):
        yield Span("", *ends, kind)


def _merged(spans: Sequence[Span], track: str, gap: float) -> Iterator[Span]:
    """Yield a track's spans in their order, the low ones last; those of one kind and label, or that nearly touch, as one."""
    last = None
    own = (span for span in spans if span.track == track)
    for span in sorted(own, key=lambda span: (not span.critical, span.start, span.end)):
        if last is not None and span[3:] == last[3:] and (span.label or span.start - last.end < gap):
            last = last._replace(end=max(last.end, span.end))
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _span(found: Picture, span: Span, axis: _Axis, y: float, row: float) -> None:
    """Draw a span, cut at the end of its axis, off the critical path in two fifths of the height, with its label if there is room."""
    x, last, high = axis.place(span.start), axis.place(span.end), (row - 4) * (1 if span.critical else 0.4)
    width = min(last, axis.end) - min(x, axis.end)
    found.rect(x, y + row - 2 - high, width, high, span.kind)
    if last > axis.end + 0.1:
        found.rect(axis.end - 12, y + 2, 4, high, "ground")
    if span.label and width > wide(span.label):
        found.text(x + width / 2, y + row / 2 + 4, span.label, "ground", anchor="middle")


def _times(found: Picture, axis: _Axis, bottom: float) -> None:
    """Draw a line for each time that is named."""
    for tick in axis.ticks(5):
        x = axis.place(tick)
        found.line(x, found.y - 2, x, bottom)
        found.text(x, bottom + 15, _text(tick, "seconds"), "muted", anchor="middle" if tick else "start")


class _Axis(NamedTuple):
    """Numbers from 0 between two places."""

    most: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the place of a number."""
        return self.start + (self.end - self.start) * value / (self.most or 1.0)

    def ticks(self, count: int) -> list[float]:
        """Return round numbers from 0 to at most the largest, about so many.

        Examples:
            >>> _Axis(1.94, 0, 9).ticks(5), _Axis(0, 0, 9).ticks(5)
            ([0.0, 0.5, 1.0, 1.5], [0.0])
        """
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
    xs, series = [float(x) for x in figure.x], [*figure.series.values()]
    colours = [f"series-{at % 8}" if len(series) > 1 else "backward" for at in range(len(series))]
    found.legend(dict(zip(colours, figure.series, strict=True)) if len(series) > 1 else {})
    every = [own for row in (*series, [figure.limit]) for own in row if own is not None]
    bottom = found.y + 18 + HIGH
    across = _Axis(max(xs), LEFT, RIGHT)
    up = _Axis(max(every, default=1.0), bottom, bottom - HIGH)
    found.text(LEFT, found.y + 8, figure.y_label, "muted")
    for level in up.ticks(4):
        found.line(LEFT, up.place(level), RIGHT, up.place(level))
        found.text(LEFT - 8, up.place(level) + 4, _text(level, figure.unit), "muted", anchor="end")
    for x in xs if len(xs) <= 8 else across.ticks(6):
        found.text(across.place(x), bottom + 18, _text(x, figure.x_unit), "muted", anchor="middle")
    found.text(RIGHT, bottom + 36, figure.x_label, "muted", anchor="end")
    if figure.limit is not None:
        found.line(LEFT, up.place(figure.limit), RIGHT, up.place(figure.limit), colour="ink")
        found.text(LEFT + 4, up.place(figure.limit) - 4, f"limit {_text(figure.limit, figure.unit)}")
    for colour, row in zip(colours, series, strict=True):
        known = [(x, own) for x, own in zip(xs, row, strict=True)]
        for here, run in groupby(known, key=lambda own: own[1] is not None):
            at = [*chain.from_iterable((across.place(x), up.place(own or 0.0)) for x, own in run)]
            if here:
                found.line(*at, *at[-2:], colour=colour)
    for place, note in figure.marks.items():
        x, y = across.place(xs[place]), up.place(series[0][place] or 0.0)
        found.rect(x - 3, y - 3, 6, 6, "ink")
        found.text(x, y - 7, note, anchor="start" if x < (LEFT + RIGHT) / 2 else "end")
    said = (f"{_text(own, figure.unit)}" for row in series for own in row[:12] if own is not None)
    found.about += f"{figure.y_label or figure.title}: {'; '.join(said)}. "
    found.y = bottom + (42 if figure.x_label else 24)
