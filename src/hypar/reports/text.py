"""Documents as lines of text for any width: no number parts from its unit, and no cell is cut.

A table that is too wide gives up its bars, then the length of its lines of prose, then the second space between columns.
Where even that is too wide, each row becomes a record: its name, and below it the other columns as ``head value`` pairs.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from itertools import chain, groupby, pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.document import Cell, Column, Note, Section, Table
from hypar.reports.palette import colours_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.document import Document, Part

Line = list[tuple[str, str]]
"""Texts, each with its style: words such as ``bold red``."""

GAP = 2
"""Spaces between columns, as long as there is room for them."""

LONGEST_BAR, SHORTEST_BAR = 16, 4
"""Characters of the longest bar, at most and at least."""

LEAST_PROSE, WIDEST_TEXT = 20, 100
"""Characters to which a column of prose may shrink, and those of a line of a note at most, however wide the terminal is."""

FIRST, SECOND, LITTLE, CUT = "\u2501", "\u2505", "\u2578", "//"
"""The marks of a bar's parts, as computation and communication; of anything too short for either; and of a bar's missing end."""

ASCII = str.maketrans(FIRST + SECOND + LITTLE, "=-.")
"""The marks of bars where the encoding has no lines."""

OUTLIER = 20
"""A bar so many times longer than the median is cut, because the others would vanish beside it."""

TONES = {"": "", "good": "green", "warn": "yellow", "bad": "red", "this": "bold"}
"""The colour of what a value means for its reader."""

_TOGETHER = re.compile(
    r"(?<=[\d)]) (?=(?:[kMGTPmunpf]?(?:B|J|s|Hz|FLOP)\b|[kMGTP]\b))"
    r"|(?<=\bH\d) (?=\d)|(?<=\bH\d\d) (?=\d)|(?<=\w) (?=[\d.]+ [kMGT]?B/s)"
)
"""The space between a number and its unit, a level and its number, or a network and its rate."""

_TIED = "\x00"


def render(document: Document, width: int, *, full: bool = False) -> list[Line]:
    """Return the lines of a document, ``full`` with the notes on details, and an empty line between its parts.

    Only a word that is longer than the width makes a longer line.
    """
    title = _lines(document.title, width, f"bold {TONES[document.tone]}".strip())
    blocks = [title + _lines(document.about, width), *_blocks(document.parts, width, full=full)]
    notes = [note for note in document.notes if full or not note.detail]
    if any(CUT in text for block in blocks for line in block for text, _ in line):
        notes.append(Note("bars", f"one that ends in {CUT} is cut: it is far longer than the others"))
    return apart([*blocks, note_lines(notes, width)])


def plain(lines: Iterable[Line]) -> str:
    """Return lines without their styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def apart(blocks: Iterable[Sequence[Line]]) -> list[Line]:
    """Return blocks of lines below each other, with an empty line between them."""
    return [*chain.from_iterable([[], *block] for block in blocks if block)][1:]


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines between words, but not those that belong together."""
    lines = _TOGETHER.sub(_TIED, text).splitlines()
    broken = [textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    return [line.replace(_TIED, " ") for line in chain.from_iterable(broken)] or [""]


def note_lines(notes: Sequence[Note], width: int) -> list[Line]:
    """Return the lines of notes, whose texts have one indent; one without a label continues the note above it."""
    width = min(width, WIDEST_TEXT)
    longest = max((len(note.label) for note in notes), default=0)
    indent = longest + GAP if 0 < longest <= width // 3 - GAP else GAP
    found: list[Line] = []
    for note in notes:
        label = note.label.ljust(indent if longest else 0)
        if len(note.label) > indent - GAP:
            found.append([(note.label, "dim")])
            label = " " * indent
        for line in wrapped(note.text, width - indent):
            found.append([(label, "dim"), (line, "")])
            label = " " * indent
    return found


def table_lines(table: Table, width: int) -> list[Line]:
    """Return the lines of a table, columns beside each other if there is room, otherwise a record for each row."""
    columns = columns_of(table)
    if not columns:
        return []
    names = columns[0].texts
    heads = {at: names[at] for at, row in enumerate(table.rows) if _heads(table, row)}
    for at in heads:
        names[at] = ""
    told = [own for own in columns if own.column.unit != "bar" or any(own.texts)]
    lines = (
        _beside(_with_bars(columns, width), heads, width, whole=True)
        or _beside(told, heads, width)
        or _beside(told, heads, width, 1)
        or _records(told, heads, width)
    )
    return _lines(table.title, width, "bold") + lines


class Shown(NamedTuple):
    """A column that readers see: a text, a style, a value and the lengths of a bar's parts for each row and for the total.

    The text of a bar is what stands for it; a column of bars ends at ``scale``.
    """

    column: Column
    texts: list[str]
    styles: list[str]
    values: list[Any]
    bars: list[tuple[float, ...]]
    scale: float


def columns_of(table: Table) -> list[Shown]:
    """Return the columns that readers see.

    A row that has a name alone is a heading: it, and a total, have no dash for a number that they lack.
    """
    rows = [*table.rows, *([table.total] if table.total else [])]
    tones = ["bold" if row is table.total else TONES[row.get("tone", "")] for row in rows]
    bare = [row is table.total or _heads(table, row) for row in rows]
    found = []
    for own in table.shown:
        values = [row.get(own.key) for row in rows]
        known = [own.key in row or not few for row, few in zip(rows, bare, strict=True)]
        texts = [own.text(value) * here for value, here in zip(values, known, strict=True)]
        styles = [f"{_colour(value)} {tone}".strip() for value, tone in zip(values, tones, strict=True)]
        bars = [_bar_parts(value) if own.unit == "bar" else () for value in values]
        scale = longest_bar(bars, whole=table.total is not None)
        found.append(Shown(own, texts, styles, values, bars, scale))
    return found


def text_width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def longest_bar(bars: Iterable[tuple[float, ...]], *, whole: bool = False) -> float:
    """Return the length at which a column of bars ends, so that one far longer than the others does not flatten them.

    Parts of a whole are not cut.

    Examples:
        >>> longest_bar([(1.0, 1.0), (3.0,), (999.0,)]), longest_bar([(1.0,), (40.0,)], whole=True)
        (3.0, 40.0)
    """
    sums = sorted(own for own in map(sum, bars) if own > 0)
    return max((own for own in sums if whole or own <= OUTLIER * sums[(len(sums) - 1) // 2]), default=0.0)


def _lines(text: str, width: int, style: str = "") -> list[Line]:
    return [[(line, style)] for line in wrapped(text, width)] if text else []


def _blocks(parts: Iterable[Part], width: int, *, full: bool) -> list[list[Line]]:
    """Return the lines of each part that has text; successive notes are one block."""
    found: list[list[Line]] = []
    for _, run in groupby(parts, key=lambda part: isinstance(part, Note)):
        notes = []
        for part in run:
            if isinstance(part, Note):
                notes += [part] * (full or not part.detail)
            elif isinstance(part, Table):
                found.append(table_lines(part, width))
            elif isinstance(part, Section):
                found.append(_lines(part.title, width, "bold") + _lines(part.about, width))
                found += _blocks(part.parts, width, full=full)
        found.append(note_lines(notes, width))
    return found


def _heads(table: Table, row: dict[str, Any]) -> bool:
    shown = table.shown
    return len(shown) > 1 and not any(own.key in row for own in shown[1:])


def _colour(value: Any) -> str:
    """Return the colour of a choice; none for several dims at once and for other values."""
    if not isinstance(value, Cell) or len(value.parts) > 1:
        return ""
    return colours_of(value.parts[0][0] if value.parts else None).terminal


def _with_bars(columns: Sequence[Shown], width: int) -> list[Shown]:
    """Return the columns with bars as texts, each with its own text where it has no bar; none without room for them."""
    others = [own for own in columns if own.column.unit != "bar"]
    longest = min(width - sum(_width(own) + GAP for own in others), LONGEST_BAR)
    if len(others) == len(columns) or longest < SHORTEST_BAR:
        return []
    texts = [
        [t or _bar(b, own.scale, longest) for t, b in zip(own.texts, own.bars, strict=True)]
        for own in columns
    ]
    return [own._replace(texts=drawn) for own, drawn in zip(columns, texts, strict=True)]


def _bar_parts(value: Any) -> tuple[float, ...]:
    if isinstance(value, tuple):
        return value
    return () if value is None or isinstance(value, str) else (value,)


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


def _beside(
    columns: Sequence[Shown], heads: dict[int, str], width: int, gap: int = GAP, *, whole: bool = False
) -> list[Line]:
    """Return the lines with columns beside each other; none if they do not fit, or prose would be broken that is to stay whole.

    ``heads`` are the rows that head others, by number, with the name, which may reach over the other columns.
    """
    sizes = _sizes(columns, width, gap, whole=whole)
    if not sizes:
        return []
    names = ["", *(own.column.group for own in columns)]
    groups = [(name * (name != before), "dim", False) for before, name in pairwise(names)]
    lines = [_line(groups, sizes, gap)] if any(names) else []
    if any(own.column.title for own in columns):
        lines += _row([(own.column.title, "dim", own.column) for own in columns], sizes, gap)
    for row, (_, *texts) in enumerate(zip(columns[0].styles, *(own.texts for own in columns), strict=True)):
        styles = [own.styles[row] for own in columns]
        cells = zip(texts, styles, (own.column for own in columns), strict=True)
        lines += [[(heads[row], styles[0])]] if row in heads else _row(cells, sizes, gap)
    return lines


def _sizes(columns: Sequence[Shown], width: int, gap: int, *, whole: bool) -> list[int]:
    """Return the widths of columns, with room for the name of each group; none if they do not fit."""
    wide = [_width(own) for own in columns]
    for name, run in groupby(range(len(columns)), key=lambda at: columns[at].column.group):
        *_, last = together = [*run]
        wide[last] += max(0, text_width(name) - sum(wide[at] + gap for at in together) + gap)
    sizes = [*wide]
    for at, own in enumerate(columns):
        if own.column.prose and not whole:
            words = " ".join((own.column.title, *own.texts)).split()
            sizes[at] = min(wide[at], max(LEAST_PROSE, *map(text_width, words), 0))
    left = width - sum(sizes) - gap * (len(columns) - 1)
    for at in sorted(range(len(columns)), key=wide.__getitem__):
        more = min(max(left, 0), wide[at] - sizes[at])
        sizes[at], left = sizes[at] + more, left - more
    return sizes if left >= 0 else []


def _row(cells: Iterable[tuple[str, str, Column]], sizes: Sequence[int], gap: int) -> list[Line]:
    """Return the lines of a row of texts with their styles, several if a text of prose is wider than its column."""
    broken = [
        [(part, style, own.numeric) for part in (wrapped(text, size) if own.prose else [text])]
        for (text, style, own), size in zip(cells, sizes, strict=True)
    ]
    return [_line(each, sizes, gap) for each in zip_longest(*broken, fillvalue=("", "", False))]


def _line(cells: Iterable[tuple[str, str, bool]], sizes: Sequence[int], gap: int) -> Line:
    """Return a line without blanks at its end, of texts, their styles, and whether they stand at the right."""
    line: Line = []
    start = end = 0
    for (text, style, right), size in zip(cells, sizes, strict=True):
        if text:
            at = start + (size - text_width(text) if right else 0)
            line += [(" " * (at - end), ""), (text, style)]
            end = at + text_width(text)
        start += size + gap
    return line


def _records(columns: Sequence[Shown], heads: dict[int, str], width: int) -> list[Line]:
    """Return each row as its name and, below it, pairs of a head and a value."""
    names, *others = columns
    found: list[Line] = []
    for row, (name, style) in enumerate(zip(names.texts, names.styles, strict=True)):
        found += _lines(heads.get(row, name), width, style)
        filled = [(own.column, own.texts[row]) for own in others if own.texts[row]]
        pairs = [(own.prose, " ".join(filter(None, (own.group, own.title, text)))) for own, text in filled]
        tied = [text.replace(" ", _TIED) if text_width(text) < width - GAP else text for _, text in pairs]
        joined = ", ".join(text for (prose, _), text in zip(pairs, tied, strict=True) if not prose)
        texts = [joined, *(text for prose, text in pairs if prose)]
        broken = chain.from_iterable(wrapped(text, width - GAP) for text in texts if text)
        found += [[(" " * GAP, ""), (line, style)] for line in broken]
    return found
