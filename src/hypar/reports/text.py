"""Documents as lines of text for any width: no number parts from its unit, and no cell is cut.

A table that is too wide gives up its bars, then the length of its lines of prose and heads, then the second space between
columns. Where even that is too wide, each row becomes a record: its name, and below it pairs of a head and a value.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain, groupby, pairwise, zip_longest
from typing import Any, NamedTuple

from hypar.document import Cell, Column, Document, Note, Part, Section, Table
from hypar.reports.words import colours_of
from hypar.units import format_gain

Line = list[tuple[str, str]]
"""Texts, each with its style: words such as ``bold red``."""

GAP, LONGEST_BAR, SHORTEST_BAR, LEAST_PROSE, WIDEST_TEXT = 2, 16, 4, 20, 100
"""Spaces between columns; characters of the longest bar at most and at least, of a column of prose and of a line of a note."""

FIRST, SECOND, LITTLE, CUT = "\u2501", "\u2505", "\u2578", "//"
"""The marks of a bar's parts, as computation and communication; of anything too short for either; and of a bar's missing end."""

ASCII = str.maketrans(FIRST + SECOND + LITTLE, "=-.")
IS_CUT = f"{CUT} a bar that is far longer than the others is cut"
"""The marks of bars where the encoding has no lines, and what is said below a bar that is cut."""

OUTLIER, UNCUT = 20, 0.8
"""A bar so many times longer than the median is cut, because the others would vanish beside it; they take so much of its length."""

TONES = {"": "", "good": "green", "warn": "yellow", "bad": "red", "this": "bold"}
"""The colour of what a value means for its reader."""

_TOGETHER = re.compile(
    r"(?<=[\d)]) (?=(?:[kMGTPmunpf]?(?:B|J|s|Hz|FLOP)\b|[kMGTP]\b))"
    r"|(?<=\bH\d) (?=\d)|(?<=\bH\d\d) (?=\d)|(?<=\w) (?=[\d.]+ [kMGT]?B/s)"
)
"""The space between a number and its unit, a level and its number, or a network and its rate."""

_TIED = "\x00"


def render(document: Document, width: int) -> list[Line]:
    """Return the lines of a document, with an empty line between its parts; only a longer word makes a line longer."""
    head = Section(document.title, about=document.about)
    blocks = [_block(head, width, f"bold {TONES[document.tone]}".strip())]
    for _, run in groupby(document.walk(), key=lambda own: (own[0], isinstance(own[1], Note))):
        parts = [part for _, part in run]
        blocks += [_block(part, width) for part in parts]
        blocks.append(note_lines([part for part in parts if isinstance(part, Note)], width))
    return [*chain.from_iterable([[], *block] for block in blocks if block)][1:]


def plain(lines: Iterable[Line]) -> str:
    """Return lines without their styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def tied(text: str, by: str = _TIED) -> str:
    """Return a text with another character for the spaces at which no line breaks, as between a number and its unit."""
    return _TOGETHER.sub(by, text)


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines between words, but not those that belong together."""
    lines = tied(text).splitlines()
    broken = [textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    return [line.replace(_TIED, " ") for line in chain.from_iterable(broken)] or [""]


def note_lines(notes: Sequence[Note], width: int) -> list[Line]:
    """Return the lines of notes as those of a table of labels and texts; one without a label continues the note above it."""
    columns = Column("label", ""), Column("text", "", prose=True)
    rows = [{"label": note.label and Cell(note.label), "text": note.text} for note in notes]
    return table_lines(Table(columns, rows), min(width, WIDEST_TEXT)) if rows else []


class Shown(NamedTuple):
    """A column that readers see: a text, a style, a value and a bar's parts, up to ``scale``, for each row and for the total."""

    column: Column
    texts: list[str]
    styles: list[str]
    values: list[Any]
    bars: list[tuple[float, ...]]
    scale: float


def columns_of(table: Table) -> list[Shown]:
    """Return the columns that readers see; a number that is not known is a dash, but what a total does not have is empty."""
    rows = [*table.rows, *([table.total] if table.total else [])]
    tones = ["bold" if row is table.total else TONES[row.get("tone", "")] for row in rows]
    found = []
    for own in table.shown:
        values = [row.get(own.key) for row in rows]
        texts = [own.text(row.get(own.key)) * (own.key in row or row is not table.total) for row in rows]
        styles = [f"{_colour(value)} {tone}".strip() for value, tone in zip(values, tones, strict=True)]
        parts = (value if isinstance(value, tuple) else (value,) for value in values)
        bars = [each if own.unit == "bar" and not isinstance(each[0], str | None) else () for each in parts]
        found.append(Shown(own, texts, styles, values, bars, _scale(bars, whole=table.total is not None)))
    return found


def _scale(bars: Iterable[tuple[float, ...]], *, whole: bool) -> float:
    """Return the length at which bars end, those cut that are far longer than the others and no parts of a whole."""
    sums = sorted(own for own in map(sum, bars) if own > 0)
    most = max((own for own in sums if whole or own <= OUTLIER * sums[(len(sums) - 1) // 2]), default=0.0)
    return min(most / UNCUT, *sums[-1:]) if sums else 0.0


def told(columns: Iterable[Shown]) -> list[Shown]:
    """Return the columns that have a text: bars only where texts stand for some."""
    return [own for own in columns if own.column.unit != "bar" or any(own.texts)]


def text_width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def table_lines(table: Table, width: int) -> list[Line]:
    """Return the lines of a table, columns beside each other if there is room, otherwise a record for each row."""
    columns = columns_of(table)
    texts = told(columns)
    tries = ((_drawn(columns, width), GAP, False), (texts, GAP, False), (texts, GAP, True), (texts, 1, True))
    beside = (_beside(own, width, gap, broken=broken) for own, gap, broken in tries)
    lines = next(filter(None, beside), None) or _records(texts, len(table.rows), width)
    cut = any(CUT in text for line in lines for text, _ in line)
    return _lines(table.title, width, "bold") + lines + _lines(IS_CUT * cut, width, "dim")


def _lines(text: str, width: int, style: str = "") -> list[Line]:
    return [[(line, style)] for line in wrapped(text, width)] if text else []


def _block(part: Part, width: int, style: str = "bold") -> list[Line]:
    if isinstance(part, Section):
        return _lines(part.title, width, style) + _lines(part.about, width)
    return table_lines(part, width) if isinstance(part, Table) else []


def _colour(value: Any) -> str:
    if not isinstance(value, Cell) or len(value.parts) > 1:
        return ""
    return colours_of(value.parts[0][1] if value.parts else None).terminal


def _drawn(columns: Sequence[Shown], width: int) -> list[Shown]:
    """Return the columns with bars as texts, below a head if there is room for it; none without room for bars."""
    others = sum(_width(own) + GAP for own in columns if own.column.unit != "bar")
    longest = min(width - others, LONGEST_BAR)
    if longest < SHORTEST_BAR:
        return []
    found = []
    for own in columns:
        title = own.column.title
        if own.column.unit == "bar":
            title = f"{FIRST} " * (", " in title) + title.replace(", ", f", {SECOND} ")
            title *= text_width(title) <= width - others
        drawn = [text or _bar(bar, own.scale, longest) for text, bar in zip(own.texts, own.bars, strict=True)]
        found.append(own._replace(column=own.column._replace(head=title), texts=drawn))
    return found


def _bar(parts: tuple[float, ...], scale: float, longest: int) -> str:
    """Draw a bar whose end is rounded, and so where its first part ends."""
    whole = sum(parts)
    if not whole or not scale:
        return ""
    cut = CUT * (whole > scale)
    each = (longest - len(cut)) / max(whole, scale)
    end, between = round(whole * each), round(parts[0] * each)
    return FIRST * min(between, end) + SECOND * (end - between) + cut if end else LITTLE


def _width(own: Shown) -> int:
    return max(map(text_width, (own.column.title, *own.texts)))


def _beside(columns: Sequence[Shown], width: int, gap: int, *, broken: bool) -> list[Line]:
    """Return the lines of columns beside each other; none if they do not fit.

    Of a ``broken`` head the last word stands in a line of its own, and what is above it reaches over neighbours that have it too.
    """
    titles = [own.column.title.rpartition(" ") if broken else ("", "", own.column.title) for own in columns]
    above, below = [each[0] for each in titles], [each[2] for each in titles]
    sizes = _sizes(columns, above, below, width - gap * (len(columns) - 1), gap)
    once = [name * (name != before) for before, name in pairwise(["", *above])]
    found = [[(head, "dim") for head in heads] for heads in (once, below) if any(heads)]
    rows = zip(*(zip(own.texts, own.styles, strict=True) for own in columns), strict=True)
    for row in rows if sizes else ():
        parts = [
            [(part, style) for part in (wrapped(text, size) if text_width(text) > size else [text])]
            for (text, style), size in zip(row, sizes, strict=True)
        ]
        found += [[*line] for line in zip_longest(*parts, fillvalue=("", ""))]
    return [_line(line, columns, sizes, gap) for line in found] if sizes else []


def _sizes(
    columns: Sequence[Shown], above: Sequence[str], heads: Sequence[str], width: int, gap: int
) -> list[int]:
    """Return the widths of columns in a width without gaps, of prose as much as is left; none if they do not fit."""
    sizes = [_least(own, head) for own, head in zip(columns, heads, strict=True)]
    for name, run in groupby(range(len(columns)), key=above.__getitem__):
        *_, last = together = [*run]
        sizes[last] += max(0, text_width(name) - sum(sizes[at] + gap for at in together) + gap)
    left = width - sum(sizes)
    for at in sorted(range(len(columns)), key=lambda at: _width(columns[at])):
        if columns[at].column.prose and left > 0:
            more = min(left, _width(columns[at]) - sizes[at])
            sizes[at], left = sizes[at] + more, left - more
    return sizes if left >= 0 else []


def _least(own: Shown, head: str) -> int:
    """Return the least width of a column below its head, of prose that of its longest word."""
    if not own.column.prose:
        return max(map(text_width, (head, *own.texts)))
    words = [word for text in (head, *own.texts) for word in text.split()]
    return min(max(LEAST_PROSE, *map(text_width, words), 0), _width(own))


def _line(cells: Iterable[tuple[str, str]], columns: Sequence[Shown], sizes: Sequence[int], gap: int) -> Line:
    """Return a line of texts with their styles, numbers at the right, without blanks at its end."""
    line: Line = []
    start = end = 0
    for (text, style), own, size in zip(cells, columns, sizes, strict=True):
        if text:
            at = start + (max(size - text_width(text), 0) if own.column.numeric else 0)
            line += [(" " * (at - end), ""), (text, style)]
            end = at + text_width(text)
        start += size + gap
    return line


def _records(columns: Sequence[Shown], count: int, width: int) -> list[Line]:
    """Return each row as its head and name and, below it, pairs of a head and a value; those after ``count`` are a total."""
    names, *others = columns
    found: list[Line] = []
    for row, (name, style) in enumerate(zip(names.texts, names.styles, strict=True)):
        found += _lines(f"{names.column.title * (row < count)} {name}".strip(), width, style)
        filled = [own for own in others if own.texts[row]]
        pairs = [(own.column.prose, f"{own.column.title} {own.texts[row]}".strip()) for own in filled]
        short = [text for prose, text in pairs if not prose]
        tied = [text.replace(" ", _TIED) if text_width(text) < width - GAP else text for text in short]
        for text in (", ".join(tied), *(text for prose, text in pairs if prose)):
            found += [[(" " * GAP, ""), *line] for line in _lines(text, width - GAP, style)]
    return found


def faster_than(name: str, first: float, own: float) -> str:
    """Compare a time with that of something else, as ``3.32x faster than dp``, ``as fast as dp`` or ``3.2% slower than dp``."""
    fast, slow = min(first, own), max(first, own)
    if slow - fast < 1e-3 * fast or not fast:
        return f"as fast as {name}"
    ratio = format_gain(slow, fast) if slow >= 1.1 * fast else f"{slow / fast - 1:.1%}"
    return f"{ratio} {'faster' if own < first else 'slower'} than {name}"
