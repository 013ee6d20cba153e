"""Figures, grids of choices and timelines of documents as pictures: rectangles on tracks, and lines between axes."""

from __future__ import annotations

import math
import re
from itertools import accumulate, chain, groupby, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Column, Grid, Span, Timeline
from hypar.reports.palette import TIMES
from hypar.reports.svg import ROW, WIDTH, WORDS, Picture, ticks, wide
from hypar.reports.text import longest_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.document import Figure

GAP, UNIT, TALL = 8, 30, 26
"""A gap, the width of a halving, and the height of a row whose spans have labels."""

LONGEST_NAME = 36
DECADES = 30.0
"""The ratio of the largest to the smallest number from which an axis counts their multiples."""

LEFT, RIGHT, HIGH = 78.0, WIDTH - 40, 180.0
"""The ends and the height of lines."""


def picture(*parts: Figure | Grid | Timeline, title: str = "") -> Picture:
    """Return parts of a document below each other; a timeline that has the rows of the grid before it, beside that."""
    found, grid = Picture(title or parts[0].title), None
    for part, after in zip_longest(parts, parts[1:]):
        if part is not parts[0] and grid is None:
            found.text(0, found.y + 40, part.title)
            found.y += 56
        if isinstance(part, Timeline):
            _timeline(found, part, grid)
        elif not isinstance(part, Grid):
            _figure(found, part)
        elif isinstance(after, Timeline) and after.tracks == tuple(name for name, _ in part.rows):
            grid = part
            continue
        else:
            _rows(found, [*_grid_rows(found, part)], part.columns)
            kinds = dict.fromkeys(kind for bar in part.bars for kind in bar)
            found.legend({**part.keys, **{_known(kind): kind for kind in kinds}})
        grid = None
    return found


def _short(name: str) -> str:
    """Return a name that fits, its middle left out."""
    return name if len(name) <= LONGEST_NAME else f"{name[:17]}\u2026{name[-18:]}"


def _text(value: float | None, unit: str) -> str:
    return "" if value is None else Column(key="", unit=unit).text(value)


def _left(names: Iterable[str]) -> float:
    """Return the place beside the longest of names."""
    return max((wide(_short(name)) for name in names), default=0.0) + GAP


def _colours(figure: Figure) -> list[str]:
    several = len(figure.series) > 1
    return [f"series-{at % 8}" if several else "backward" for at in range(len(figure.series))]


def _figure(found: Picture, figure: Figure) -> None:
    """Draw the legend of a figure and its values, and say the first ones in words."""
    said = (
        f"{x} {name} {_text(own[at], figure.unit)}"
        for at, x in enumerate(figure.x[:12])
        for name, own in figure.series.items()
    )
    found.about += f"{figure.y_label or figure.title}: {'; '.join(said)}. "
    if len(figure.series) > 1:
        found.legend(dict(zip(_colours(figure), figure.series, strict=True)))
    if figure.kind == "lines":
        _lines(found, figure)
    else:
        _rows(found, [*_bars(figure)])


class _Row(NamedTuple):
    """A row: its name, its cells, a text, and rectangles on a track."""

    name: str
    text: str
    spans: Sequence[Span]
    cells: tuple[Cell, ...] = ()


def _bars(figure: Figure) -> Iterator[_Row]:
    """Yield a row for each value, those of one name below each other."""
    series = [*zip(_colours(figure), figure.series.values(), strict=True)]
    for at, x in enumerate(figure.x):
        name, mark = str(x), figure.marks.get(at, "")
        for colour, own in series:
            text = f"{mark}  {_text(own[at], figure.unit)}".strip()
            yield _Row(name, text, [Span(name, 0.0, own[at] or 0.0, colour)])
            name = mark = ""


def _grid_rows(found: Picture, grid: Grid) -> Iterator[_Row]:
    """Yield a row for each of a grid with the sum of its lengths, and say the first ones in words."""
    words = "; ".join(f"{name} {', '.join(cell.text for cell in cells)}" for name, cells in grid.rows[:24])
    found.about += f"{len(grid.rows)} rows: {words}."
    for (name, cells), bar in zip(grid.rows, grid.bars or [{} for _ in grid.rows], strict=True):
        ends = [*accumulate(bar.values(), initial=0.0)]
        spans = [Span(name, *own, _known(kind)) for kind, own in zip(bar, pairwise(ends), strict=True)]
        yield _Row(name, _text(ends[-1], grid.unit) if bar else "", spans, cells)


def _known(kind: str) -> str:
    """Return the colour of a kind of length."""
    return kind if kind in {"computes", "receives"} else "backward"


def _timeline(found: Picture, timeline: Timeline, grid: Grid | None = None) -> None:
    """Draw when each track works, beside the cells of a grid that has its rows if one is given."""
    end = max((span.end for span in timeline.spans), default=0.0)
    found.about += (
        f"{len(timeline.spans)} spans on {len(timeline.tracks)} tracks in {_text(end, 'seconds')}. "
    )
    rows = [*_grid_rows(found, grid)] if grid else [_Row(track, "", ()) for track in timeline.tracks]
    spans = {track: [span for span in timeline.spans if span.track == track] for track in timeline.tracks}
    merged = [row._replace(spans=[*_merged(spans[row.name], end / WIDTH / 4)]) for row in rows]
    _rows(found, merged, grid.columns if grid else (), times=True)
    used = {span.kind for span in timeline.spans}
    kinds = {kind: WORDS.get(kind, kind) for kind in TIMES if kind in used}
    found.legend({**(grid.keys if grid else {}), **kinds})


def _merged(spans: list[Span], gap: float) -> Iterator[Span]:
    """Yield spans in their order, the low ones last; those of one kind and label, or that nearly touch, as one."""
    last = None
    for span in sorted(spans, key=lambda span: (not span.critical, span.start, span.end)):
        if last is not None and span[3:] == last[3:] and (span.label or span.start - last.end < gap):
            last = last._replace(end=max(last.end, span.end))
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _rows(found: Picture, rows: Sequence[_Row], heads: Sequence[str] = (), *, times: bool = False) -> None:
    """Draw rows below their heads, with an axis of times; without it a bar far longer than the others is cut."""
    widths = [_width(head, [row.cells[at] for row in rows]) for at, head in enumerate(heads)]
    starts = [*accumulate((width + 3 for width in widths), initial=_left(row.name for row in rows))]
    for head, x, width in zip(heads, starts, widths, strict=False):
        found.text(x + width / 2, found.y + 12, head, "muted", anchor="middle")
    found.y += ROW * bool(heads)
    ends = [max((span.end for span in row.spans), default=0.0) for row in rows]
    longest = max(ends, default=0.0) if times else longest_bar([(end,) for end in ends])
    texts = max((wide(row.text) for row in rows), default=0.0)
    x, high = (
        starts[-1] + texts + GAP * bool(texts),
        TALL if any(own.label for row in rows for own in row.spans) else ROW,
    )
    found.width = max(WIDTH, x + 440)
    axis = _Axis(0.0, longest or 1.0, x, found.width - 1)
    if times:
        _times(found, axis, found.y + high * len(rows))
    for row in rows:
        found.text(0, found.y + high / 2 + 4, _short(row.name), mono=True)
        found.text(x - GAP, found.y + high / 2 + 4, row.text, anchor="end")
        for cell, start, width in zip(row.cells, starts, widths, strict=False):
            _cell(found, cell, start, width)
        for span in row.spans:
            _span(found, span, axis, high)
        found.y += high
    found.y += 26 if times else GAP


def _times(found: Picture, axis: _Axis, bottom: float) -> None:
    """Draw a line for each time that is named."""
    for tick in axis.ticks(5):
        x = axis.place(tick)
        found.line(x, found.y - 2, x, bottom)
        found.text(x, bottom + 15, _text(tick, "seconds"), "muted", anchor="middle" if tick else "start")


def _span(found: Picture, span: Span, axis: _Axis, row: float) -> None:
    """Draw a span, cut at the end of its axis, off the critical path in two fifths of the height, with its label if there is room."""
    x, last, high = axis.place(span.start), axis.place(span.end), (row - 4) * (1 if span.critical else 0.4)
    width = min(last, axis.end) - x
    found.rect(x, found.y + row - 2 - high, width, high, span.kind)
    if last > axis.end + 0.1:
        found.rect(axis.end - 12, found.y + 2, 4, high, "ground")
    if span.label and width > wide(span.label):
        found.text(x + width / 2, found.y + row / 2 + 4, span.label, "ground", anchor="middle")


class _Axis(NamedTuple):
    """Numbers between two places: from 0, or by their multiples where they are far apart."""

    least: float
    most: float
    start: float
    end: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        """Return the axis of values."""
        far = 0 < DECADES * min(values) <= max(values)
        return cls(min(values) if far else 0.0, max(values), start, end)

    def place(self, value: float) -> float:
        """Return the place of a number."""
        share = value / (self.most or 1.0)
        if self.least:
            least, most, own = map(math.log, (self.least, self.most, value))
            share = (own - least) / (most - least)
        return self.start + (self.end - self.start) * share

    def ticks(self, count: int) -> list[float]:
        """Return the numbers to name, about so many."""
        if self.least:
            return [self.least ** (1 - at / 3) * self.most ** (at / 3) for at in range(4)]
        return ticks(self.most, count)


def _lines(found: Picture, figure: Figure) -> None:
    """Draw lines over numbers between axes, with the limit and marks."""
    xs, series = [float(x) for x in figure.x], [*figure.series.values()]
    every = [own for row in (*series, [figure.limit]) for own in row if own is not None] or [1.0]
    bottom = found.y + 18 + HIGH
    across, up = _Axis.of(xs, LEFT, RIGHT), _Axis.of(every, bottom, bottom - HIGH)
    found.text(LEFT, found.y + 8, figure.y_label, "muted")
    for level in up.ticks(4):
        found.line(LEFT, up.place(level), RIGHT, up.place(level))
        found.text(LEFT - GAP, up.place(level) + 4, _text(level, figure.unit), "muted", anchor="end")
    for x in xs if len(xs) <= 8 else across.ticks(6):
        found.text(across.place(x), bottom + 18, _text(x, figure.x_unit), "muted", anchor="middle")
    found.text(RIGHT, bottom + 36, figure.x_label, "muted", anchor="end")
    if figure.limit is not None:
        y = up.place(figure.limit)
        found.line(LEFT, y, RIGHT, y, colour="ink")
        found.text(LEFT + 4, y - 4, f"limit {_text(figure.limit, figure.unit)}")
    for colour, row in zip(_colours(figure), series, strict=True):
        places = [
            None if own is None else (across.place(x), up.place(own)) for x, own in zip(xs, row, strict=True)
        ]
        _line(found, colour, places)
    for at, note in figure.marks.items():
        x, y = across.place(xs[at]), up.place(series[0][at] or 0.0)
        found.rect(x - 3, y - 3, 6, 6, "ink")
        found.text(x, y - 7, note, anchor="start" if x < (LEFT + RIGHT) / 2 else "end")
    found.y = bottom + (42 if figure.x_label else 24)


def _line(found: Picture, colour: str, places: Iterable[tuple[float, float] | None]) -> None:
    """Draw a line through places, with gaps where one is not known."""
    for known, run in groupby(places, key=bool):
        if known:
            own = [*chain.from_iterable(filter(None, run))]
            found.line(*own, *own[-2:], colour=colour)


def _width(head: str, cells: Sequence[Cell]) -> float:
    """Return the width of a column: one unit for each halving, and room for its words."""
    words = max((wide(cell.text) for cell in cells), default=0.0)
    halvings = max((sum(_halvings(own[2]) for own in pieces(cell)) for cell in cells), default=1.0)
    return max(UNIT * halvings, words + 6, wide(head))


def _cell(found: Picture, cell: Cell, x: float, width: float) -> None:
    """Draw a choice: a part for each dim that it cuts, as wide as its halvings, and one for copies."""
    parts = pieces(cell)
    unit = width / sum(_halvings(degree) for _, _, degree in parts)
    for word, dim, degree in parts:
        own = unit * _halvings(degree)
        found.rect(x + 0.5, found.y + 1.5, own - 1, ROW - 4, dim)
        found.text(x + own / 2, found.y + 13, word, f"{dim}-t", anchor="middle", mono=True)
        x += own


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
