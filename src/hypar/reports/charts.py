"""Figures, grids of choices and timelines of documents as pictures."""

from __future__ import annotations

import math
import re
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Column, Grid, Timeline
from hypar.reports.palette import ENERGIES, TIMES
from hypar.reports.svg import ROW, WIDTH, WORDS, Anchor, Picture, ticks, wide
from hypar.reports.text import longest_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.document import Figure, Span

BAR, GAP, UNIT = 12, 8, 30
"""The height of a bar, a gap, and the width of a halving."""

TALL = 26
"""The height of a row whose spans have labels."""

LONGEST_NAME = 36
DECADES = 30.0
"""The ratio of the largest to the smallest number from which an axis counts their multiples."""

LEFT, RIGHT, HIGH = 78.0, WIDTH - 40, 180.0
"""The ends and the height of lines and areas."""

Bar = list[tuple[str, float]]
"""The parts of a bar: a colour and a length each."""


def picture(part: Figure | Grid | Timeline) -> Picture:
    """Return a part of a document as a picture."""
    if isinstance(part, Grid):
        return _grid(part)
    if isinstance(part, Timeline):
        return _timeline(part, WIDTH, named=True)
    return _curves(part) if part.kind in {"lines", "area"} else _rows(part)


def pictures(parts: Sequence[Figure | Grid | Timeline]) -> Picture:
    """Return parts below each other as one picture; a timeline that has the rows of the grid before it, beside that."""
    first, *others = parts
    rows = [name for name, _ in first.rows] if isinstance(first, Grid) else None
    beside = [other for other in others if isinstance(other, Timeline) and [*other.tracks] == rows]
    whole = _grid(first, alone=not beside) if isinstance(first, Grid) else picture(first)
    for other in others:
        if isinstance(other, Timeline) and other in beside:
            whole.put(_timeline(other, max(440.0, WIDTH - whole.width), named=False), whole.width, 0)
        else:
            whole.text(0, whole.y + 40, other.title)
            whole.put(picture(other), 0, whole.y + 56)
    return whole


def _short(name: str) -> str:
    """Return a name that fits, its middle left out."""
    return name if len(name) <= LONGEST_NAME else f"{name[:17]}\u2026{name[-18:]}"


def _text(value: float | None, unit: str) -> str:
    return "" if value is None else Column(key="", unit=unit).text(value)


def _colours(figure: Figure) -> dict[str, str]:
    """Return the colour of each series: its own if it is a phase or an energy, whatever follows its name."""
    named = {*TIMES, *ENERGIES}
    firsts = {name: name.partition(" ")[0] for name in figure.series}
    if len(firsts) == 1 and not named & {*firsts.values()}:
        return dict.fromkeys(firsts, "backward")
    return {
        name: own if own in named else f"series-{at % 8}" for at, (name, own) in enumerate(firsts.items())
    }


def _known(kind: str) -> str:
    """Return the colour of a kind of length."""
    return kind if kind in {*TIMES, *ENERGIES, "computes", "receives"} else "backward"


def _worded(name: str) -> str:
    """Return a name whose first word is a colour's with the word for it."""
    first, _, rest = name.partition(" ")
    return f"{WORDS.get(first, first)} {rest}".rstrip()


def _start(figure: Figure) -> Picture:
    """Return the legend of a figure, with its first values in words."""
    said = (
        " ".join(filter(None, (str(x), name, _text(own[at], figure.unit))))
        for at, x in enumerate(figure.x[:12])
        for name, own in figure.series.items()
    )
    more = "; and more" * (len(figure.x) > 12)
    found = Picture(figure.title, f"{figure.y_label or figure.title}: {'; '.join(said)}{more}.")
    if len(figure.series) > 1 or figure.kind == "stack":
        found.legend({own: _worded(name) for name, own in _colours(figure).items()})
    return found


def _lines(figure: Figure) -> Iterator[tuple[str, Bar, str]]:
    """Yield bars with the name in front and the text behind: one for each value, or of a stack for each sum."""
    colours = _colours(figure)
    for at, x in enumerate(figure.x):
        parts = [(colours[name], own[at]) for name, own in figure.series.items()]
        rows = [parts] if figure.kind == "stack" else [[part] for part in parts]
        for number, row in enumerate(rows):
            known = [own for _, own in row if own is not None]
            mark = "" if number else figure.marks.get(at, "")
            text = f"{_text(math.fsum(known) if known else None, figure.unit)}  {mark}".rstrip()
            yield "" if number else _short(str(x)), [(colour, own or 0.0) for colour, own in row], text


def _rows(figure: Figure) -> Picture:
    """Return bars that lie on their side, stacks, or points on a scale of multiples, with their numbers."""
    found, lines = _start(figure), [*_lines(figure)]
    points = figure.log or figure.kind == "points"
    left = max((wide(name) for name, *_ in lines), default=0.0) + GAP
    room = WIDTH - left - max((wide(text) for *_, text in lines), default=0.0) - 2 * GAP
    sums = [sum(own for _, own in bar) for _, bar, _ in lines]
    least, longest = min((own for own in sums if own > 0), default=1.0), longest_bar([(own,) for own in sums])
    most = max(sums, default=1.0) if points else max(longest, figure.limit or 0.0) or 1.0
    top = found.y
    for (name, bar, text), total in zip(lines, sums, strict=True):
        found.y += GAP - 3 if name and found.y > top else 0
        found.text(left - GAP, found.y + BAR - 2, name, anchor="end", mono=True)
        if points:
            end = left + room * _logarithm(total, least, most)
            found.rect(end - 4, found.y + 2, 8, 8, bar[0][0])
        else:
            end = _bar(found, bar, left, room / most, left + room)
        found.text(end + GAP, found.y + BAR - 2, text)
        found.y += BAR + 3
    if figure.limit is not None and not points:
        x = left + room * figure.limit / most
        found.line(x, top - 3, x, found.y, colour="ink")
        _below(found, x, f"limit {_text(figure.limit, figure.unit)}", "middle")
    if points:
        _below(found, left, "Each step to the right is a multiple.")
    elif any(own > most * (1 + 1e-9) for own in sums):
        _below(found, left, "A cut bar is longer than drawn.")
    return found


def _below(found: Picture, x: float, text: str, anchor: Anchor = "start") -> None:
    found.text(x, found.y + 13, text, "muted", anchor)
    found.y += ROW


def _logarithm(value: float, least: float, most: float) -> float:
    """Return the place of a number between others, counted in multiples."""
    if not value:
        return 0.0
    return (math.log(max(value, least)) - math.log(least)) / (math.log(most) - math.log(least) or 1.0)


def _bar(found: Picture, bar: Bar, x: float, scale: float, last: float) -> float:
    """Draw the parts of a bar, up to a last place where it is cut; return its end."""
    for colour, value in bar:
        end = min(x + value * scale, last)
        if value:
            found.rect(x, found.y, max(end - x, 0.5), BAR, colour)
        if x + value * scale > last + 0.1:
            low, high = found.y + BAR, found.y
            found.area(end - 14, low, end - 8, high, end - 4, high, end - 10, low, colour="ground")
        x = end
    return x


class _Axes(NamedTuple):
    """Where numbers stand between the ends of axes."""

    first: float
    last: float
    least: float
    most: float
    bottom: float
    log: bool

    def across(self, x: float) -> float:
        """Return the place of a number along the axis, which counts multiples if they are far apart."""
        if 0 < DECADES * self.first <= self.last:
            return LEFT + (RIGHT - LEFT) * _logarithm(x, self.first, self.last)
        return LEFT + (RIGHT - LEFT) * (x - self.first) / (self.last - self.first or 1.0)

    def up(self, value: float) -> float:
        """Return the height of a value."""
        share = _logarithm(value, self.least, self.most) if self.log else value / self.most
        return self.bottom - HIGH * share

    @property
    def levels(self) -> list[float]:
        """The values that are named."""
        if self.log:
            return [self.least ** (1 - at / 3) * self.most ** (at / 3) for at in range(4)]
        return ticks(self.most, 4)


def _curves(figure: Figure) -> Picture:
    """Return lines over numbers, or areas that add up."""
    found, xs = _start(figure), [float(x) for x in figure.x]
    rows: list[list[float | None]] = [[*row] for row in figure.series.values()]
    if figure.kind == "area":
        zeros = ([own or 0.0 for own in row] for row in rows)
        rows = [*accumulate(zeros, lambda one, other: [a + b for a, b in zip(one, other, strict=True)])]
    every = [own for row in rows for own in row if own] or [1.0]
    most, bottom = max(*every, figure.limit or 0.0, 0.0), found.y + 18 + HIGH
    axes = _Axes(min(xs), max(xs), min(every), most, bottom, figure.log)
    _draw_axes(found, figure, axes, xs)
    for colour, row in reversed([*zip(_colours(figure).values(), rows, strict=True)]):
        pairs = zip(xs, row, strict=True)
        for known, run in groupby(pairs, key=lambda pair: pair[1] is not None):
            places = [own for x, value in run for own in (axes.across(x), axes.up(value or 0.0))]
            if figure.kind == "area":
                found.area(LEFT, bottom, *places, RIGHT, bottom, colour=colour)
            elif known:
                found.line(*places, *(places if len(places) == 2 else ()), colour=colour)
    for at, note in figure.marks.items():
        x, y = axes.across(xs[at]), axes.up(rows[0][at] or 0.0)
        found.rect(x - 3, y - 3, 6, 6, "ink")
        found.text(x, y - 7, note, anchor="start" if x < (LEFT + RIGHT) / 2 else "end")
    found.y = bottom + (42 if figure.x_label else 24)
    return found


def _draw_axes(found: Picture, figure: Figure, axes: _Axes, xs: Sequence[float]) -> None:
    """Draw the axes with their numbers, and the limit."""
    found.text(LEFT, found.y + 8, figure.y_label, "muted")
    for level in axes.levels:
        found.line(LEFT, axes.up(level), RIGHT, axes.up(level))
        found.text(LEFT - GAP, axes.up(level) + 4, _text(level, figure.unit), "muted", "end")
    for x in xs if len(xs) <= 8 else [tick for tick in ticks(axes.last, 6) if tick >= axes.first]:
        found.text(axes.across(x), axes.bottom + 18, _text(x, figure.x_unit), "muted", "middle")
    if figure.limit is not None:
        y = axes.up(figure.limit)
        found.line(LEFT, y, RIGHT, y, colour="ink")
        found.text(LEFT + 4, y - 4, f"limit {_text(figure.limit, figure.unit)}")
    found.text(RIGHT, axes.bottom + 36, figure.x_label, "muted", "end")


def _columns(grid: Grid) -> list[float]:
    """Return the width of each column: one unit for each halving, and room for its words."""
    widths = []
    for at, head in enumerate(grid.columns):
        cells = [cells[at] for _, cells in grid.rows]
        words = max((len(cell.text) for cell in cells), default=0)
        halvings = max(
            (sum(_halvings(degree) for _, _, degree in pieces(cell)) for cell in cells), default=1.0
        )
        widths.append(max(UNIT * halvings, 0.55 * 12 * words + 6, wide(head)))
    return widths


def _grid(grid: Grid, *, alone: bool = True) -> Picture:
    """Return a row for each name with its cells, and at the end its lengths where the grid stands alone."""
    words = "; ".join(f"{name} {', '.join(cell.text for cell in cells)}" for name, cells in grid.rows[:24])
    found, widths = Picture(grid.title, f"{len(grid.rows)} rows: {words}."), _columns(grid)
    left = max((wide(_short(name)) for name, _ in grid.rows), default=0.0) + GAP
    starts = [*accumulate((width + 3 for width in widths), initial=left)]
    for head, x, width in zip(grid.columns, starts, widths, strict=False):
        found.text(x + width / 2, 12, head, "muted", "middle")
    for name, cells in grid.rows:
        found.y += ROW
        found.text(0, found.y + 13, _short(name), mono=True)
        for cell, x, width in zip(cells, starts, widths, strict=False):
            _cell(found, cell, x, width)
    found.width = _lengths(found, grid, starts[-1] + GAP, alone=alone)
    found.y += ROW + 10
    kinds = dict.fromkeys(kind for bar in grid.bars for kind in bar if alone)
    found.legend({**grid.keys, **{_known(kind): WORDS.get(kind, kind) for kind in kinds}})
    return found


def _lengths(found: Picture, grid: Grid, x: float, *, alone: bool) -> float:
    """Write the sum of each row's lengths from a place on, draw them where there is room, and return the width."""
    sums = [sum(bar.values()) for bar in grid.bars]
    texts = [_text(own, grid.unit) for own in sums]
    column = x + max(map(wide, texts), default=0.0)
    width = max(WIDTH, column + 200) if alone else column + GAP
    scale = (width - column - GAP) / (longest_bar([(own,) for own in sums]) or 1.0)
    for row, (text, bar) in enumerate(zip(texts, grid.bars, strict=True), 1):
        found.y = row * ROW
        found.text(column, found.y + 13, text, anchor="end")
        found.y += 3
        if alone:
            _bar(found, [(_known(kind), own) for kind, own in bar.items()], column + GAP, scale, width)
    found.y = len(grid.rows) * ROW
    return width


def _cell(found: Picture, cell: Cell, x: float, width: float) -> None:
    """Draw a choice: a part for each dim that it cuts, as wide as its halvings, and one for copies."""
    parts = pieces(cell)
    halvings = sum(_halvings(degree) for _, _, degree in parts)
    for word, dim, degree in parts:
        own = width * _halvings(degree) / halvings
        found.rect(x + 0.5, found.y + 1.5, own - 1, ROW - 4, dim)
        found.text(x + own / 2, found.y + 13, word, f"{dim}-t", "middle", mono=True)
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


def _timeline(timeline: Timeline, width: float, *, named: bool) -> Picture:
    """Return a row for each track, with its spans from left to right."""
    longest = max(timeline.spans, key=lambda span: span.end - span.start, default=None)
    most = max((span.end for span in timeline.spans), default=0.0) or 1.0
    about = f"{len(timeline.spans)} spans on {len(timeline.tracks)} tracks in {_text(most, 'seconds')}"
    if longest is not None:
        about += f"; the longest is {longest.kind} of {longest.track}, {_text(longest.end - longest.start, 'seconds')}"
    found = Picture(timeline.title, f"{about}.", width)
    used = {span.kind for span in timeline.spans}
    kinds = [kind for kind in (*TIMES, *sorted(used - {*TIMES})) if kind in used]
    left = max((wide(_short(name)) for name in timeline.tracks), default=0.0) + GAP if named else GAP
    row = TALL if any(span.label for span in timeline.spans) else ROW
    top, scale = 0.0 if named else float(ROW), (width - left - 1) / most
    bottom = top + row * len(timeline.tracks)
    for tick in ticks(most, 5 if width >= WIDTH else 4):
        found.line(left + tick * scale, top - 2, left + tick * scale, bottom)
        found.text(
            left + tick * scale, bottom + 15, _text(tick, "seconds"), "muted", "middle" if tick else "start"
        )
    for at, track in enumerate(timeline.tracks):
        found.text(0, top + row * at + row / 2 + 4, _short(track) if named else "", mono=True)
        for span in _merged([span for span in timeline.spans if span.track == track], 0.25 / scale):
            _span(found, span, left, scale, (top + row * at + 2, row - 4))
    found.y = bottom + 26
    found.legend({kind: WORDS.get(kind, kind) for kind in kinds})
    return found


def _merged(spans: list[Span], gap: float) -> Iterator[Span]:
    """Yield spans in their order, the low ones last, and those of one kind that nearly touch as one."""
    last = None
    for span in sorted(spans, key=lambda span: (not span.critical, span.start, span.end)):
        if last is None:
            last = span
        elif span[3:] == last[3:] and not span.label and span.start - last.end < gap:
            last = last._replace(end=max(last.end, span.end))
        else:
            yield last
            last = span
    if last is not None:
        yield last


def _span(found: Picture, span: Span, left: float, scale: float, place: tuple[float, float]) -> None:
    """Draw a span, off the critical path in two fifths of the height, with its label where there is room."""
    y, high = place
    if not span.critical:
        y, high = y + 0.6 * high, 0.4 * high
    x, width = left + span.start * scale, max((span.end - span.start) * scale, 0.4)
    found.rect(x, y, width, high, span.kind)
    if span.label and width > wide(span.label):
        found.text(x + width / 2, place[0] + place[1] / 2 + 4, span.label, "ground", "middle")
