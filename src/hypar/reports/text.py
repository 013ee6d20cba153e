"""Documents as lines of text for any width: no number parts from its unit, and no cell is cut.

A table that is too wide gives up its bars, then the length of its lines of prose, then the second space between columns.
Where even that is too wide, each row becomes a record: its name, and below it the other columns as ``head value`` pairs.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import replace
from itertools import groupby, pairwise, zip_longest
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
"""Characters to which a column of prose may shrink, and those of a line of text at most, however wide the terminal is."""

FIRST, SECOND, LITTLE, CUT = "\u2501", "\u2505", "\u2578", "//"
"""The marks of a bar's parts, as computation and communication; of anything too short for either; and of a bar's missing end."""

ASCII = str.maketrans({FIRST: "=", SECOND: "-", LITTLE: "."})
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
    """Return the lines of a document, with an empty line between its parts.

    Args:
        document: what to show.
        width: the characters of a line; only a word that is longer makes a longer line.
        full: whether to show the notes on details too.
    """
    title = _lines(document.title, width, f"bold {TONES[document.tone]}".strip()) + _lines(
        document.about, width
    )
    blocks = [title, *_blocks(document.parts, width, full=full)]
    notes = [note for note in document.notes if full or not note.detail]
    if any(CUT in text for block in blocks for line in block for text, _ in line):
        notes.append(Note("bars", f"one that ends in {CUT} is cut: it is far longer than the others"))
    return apart([*blocks, note_lines(notes, width)])


def plain(lines: Iterable[Line]) -> str:
    """Return lines without their styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def apart(blocks: Iterable[Sequence[Line]]) -> list[Line]:
    """Return blocks of lines below each other, with an empty line between them."""
    found: list[Line] = []
    for block in blocks:
        found += [[], *block] if found and block else block
    return found


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines; only a word that is wider than the width makes a wider line.

    Examples:
        >>> wrapped("time 1.94 s, energy 70.8 J", 16)
        ['time 1.94 s,', 'energy 70.8 J']
    """
    lines = []
    for line in text.splitlines():
        tied = _TOGETHER.sub(_TIED, line)
        lines += textwrap.wrap(tied, max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [line.replace(_TIED, " ") for line in lines] or [""]


def hanging(text: str, width: int) -> list[str]:
    """Break a text into lines of which all but the first are indented."""
    found = []
    for paragraph in text.splitlines():
        first, *others = wrapped(paragraph, min(width, WIDEST_TEXT) - 2)
        found += [first, *(f"  {line}" for line in others)]
    return found


def note_lines(notes: Sequence[Note], width: int) -> list[Line]:
    """Return the lines of notes, whose texts have one indent; one without a label continues the note above it."""
    if not any(note.label for note in notes):
        return [[(line, "")] for note in notes for line in hanging(note.text, width)]
    width = min(width, WIDEST_TEXT)
    indent = max(len(note.label) for note in notes) + 2
    indent = indent if indent <= width // 3 else 2
    found: list[Line] = []
    for note in notes:
        texts = wrapped(note.text, width - indent)
        long = len(note.label) + 2 > indent
        if long:
            found.append([(note.label, "dim")])
        labels = ["" if long else note.label, *[""] * (len(texts) - 1)]
        found += [
            [(label.ljust(indent), "dim"), (text, "")] for label, text in zip(labels, texts, strict=True)
        ]
    return found


def table_lines(table: Table, width: int) -> list[Line]:
    """Return the lines of a table, columns beside each other if there is room, otherwise a record for each row."""
    if not table.shown:
        return []
    sheet = _Sheet.of(table)
    return _lines(table.title, width, "bold") + (sheet.beside(width) or sheet.records(width))


def column_texts(table: Table) -> list[tuple[Column, list[str]]]:
    """Return the columns that readers see, each with the texts of its rows and of the total; a bar's is what stands for it.

    A row that has a name alone is a heading: it, and a total, have no dash for a number that they lack.
    """
    rows = [*table.rows, *([table.total] if table.total else [])]
    bare = [row is table.total or _heads(table, row) for row in rows]
    return [
        (
            own,
            [
                "" if own.key not in row and no else _text(own, row.get(own.key))
                for row, no in zip(rows, bare, strict=True)
            ],
        )
        for own in table.shown
    ]


def text_width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def bar_parts(value: Any) -> tuple[float, ...]:
    """Return the lengths of a bar's parts from a value of its column: a number, a tuple of its parts, or a text for none."""
    if isinstance(value, tuple):
        return value
    return () if value is None or isinstance(value, str) else (value,)


def longest_bar(bars: Iterable[tuple[float, ...]], *, whole: bool = False) -> float:
    """Return the length at which a column of bars ends, so that one far longer than the others does not flatten them.

    Args:
        bars: the lengths of the parts of each.
        whole: whether they are parts of a whole; then none is cut.

    Examples:
        >>> longest_bar([(1.0, 1.0), (3.0,), (999.0,)]), longest_bar([(1.0,), (40.0,)], whole=True)
        (3.0, 40.0)
    """
    sums = sorted(own for own in map(sum, bars) if own > 0)
    return max((own for own in sums if whole or own <= OUTLIER * sums[(len(sums) - 1) // 2]), default=0.0)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _lines(text: str, width: int, style: str = "") -> list[Line]:
    return [[(line, style)] for line in wrapped(text, width)] if text else []


def _blocks(parts: Iterable[Part], width: int, *, full: bool) -> list[list[Line]]:
    """Return the lines of each part that has text; successive notes are one block."""
    found: list[list[Line]] = []
    for noted, run in groupby(parts, key=lambda part: isinstance(part, Note)):
        own = [*run]
        if noted:
            found.append(
                note_lines(
                    [note for note in own if isinstance(note, Note) and (full or not note.detail)], width
                )
            )
        for part in own:
            if isinstance(part, Table):
                found.append(table_lines(part, width))
            elif isinstance(part, Section):
                head = _lines(part.title, width, "bold") + _lines(part.about, width)
                found += [head, *_blocks(part.parts, width, full=full)]
    return found


def _heads(table: Table, row: dict[str, Any]) -> bool:
    shown = table.shown
    return len(shown) > 1 and not any(own.key in row for own in shown[1:])


def _text(own: Column, value: Any) -> str:
    if own.unit == "bar":
        return value if isinstance(value, str) else ""
    return own.text(value)


class _Shown(NamedTuple):
    """A column with its texts, one a row, and their styles."""

    column: Column
    texts: list[str]
    styles: list[str]

    @property
    def wide(self) -> int:
        """The width that it needs."""
        return max(map(text_width, (self.column.title, *self.texts)))

    @property
    def least(self) -> int:
        """The smallest width that it may have."""
        words = (word for text in (self.column.title, *self.texts) for word in text.split())
        return (
            min(self.wide, max(LEAST_PROSE, *map(text_width, words), 0)) if self.column.prose else self.wide
        )


class _Sheet(NamedTuple):
    """A table as texts.

    Attributes:
        columns: the columns without those of bars; the name of a row that heads others is empty.
        bars: the columns of bars, with the lengths of the parts of each.
        heads: the rows that head others, by number, with the name, which may reach over the other columns.
        whole: whether the rows add up to a whole.
    """

    columns: list[_Shown]
    bars: list[tuple[_Shown, list[tuple[float, ...]]]]
    heads: dict[int, str]
    whole: bool

    @classmethod
    def of(cls, table: Table) -> _Sheet:
        """Format the values of a table."""
        rows = [*table.rows, *([table.total] if table.total else [])]
        tones = ["bold" if row is table.total else TONES[row.get("tone", "")] for row in rows]
        columns: list[_Shown] = []
        bars: list[tuple[_Shown, list[tuple[float, ...]]]] = []
        for column, texts in column_texts(table):
            values = [row.get(column.key) for row in rows]
            if column.unit == "bar":
                bars.append((_Shown(column, texts, tones), [bar_parts(value) for value in values]))
            else:
                styles = [
                    f"{_colour(value)} {tone}".strip() for value, tone in zip(values, tones, strict=True)
                ]
                columns.append(_Shown(column, texts, styles))
        names = columns[0].texts if columns else []
        heads = {at: names[at] for at, row in enumerate(rows) if names and _heads(table, row)}
        for at in heads:
            names[at] = ""
        return cls(columns, bars, heads, table.total is not None)

    def beside(self, width: int) -> list[Line]:
        """Return the lines with all columns beside each other; none if they do not fit."""
        room = width - sum(own.wide + GAP for own in self.columns)
        longest = min(room - GAP * (len(self.bars) - 1), LONGEST_BAR)
        if self.bars and longest >= SHORTEST_BAR:
            drawn = [_drawn(own, parts, longest, whole=self.whole) for own, parts in self.bars]
            lines = self._lines([*self.columns, *drawn], width, GAP, whole=True)
            if lines:
                return lines
        columns = [*self.columns, *(own for own, _ in self.bars if any(own.texts))]
        return self._lines(columns, width, GAP) or self._lines(columns, width, 1)

    def _lines(self, columns: Sequence[_Shown], width: int, gap: int, *, whole: bool = False) -> list[Line]:
        """Return the lines of columns; none if they do not fit, or prose would be broken that is to stay whole."""
        columns = _widened(columns, gap)
        wide = [own.wide for own in columns]
        sizes = wide if whole else [own.least for own in columns]
        left = width - sum(sizes) - gap * (len(columns) - 1)
        if left < 0:
            return []
        for at in sorted(range(len(columns)), key=wide.__getitem__):
            more = min(left, wide[at] - sizes[at])
            sizes[at], left = sizes[at] + more, left - more
        groups = ["", *(own.column.group for own in columns)]
        names = [name if name != before else "" for before, name in pairwise(groups)]
        lines = [_line([(name, "dim", False) for name in names], sizes, gap)] if any(names) else []
        if any(own.column.title for own in columns):
            lines += _row([(own.column.title, "dim", own.column) for own in columns], sizes, gap)
        for row in range(len(columns[0].texts)):
            cells = [(own.texts[row], own.styles[row], own.column) for own in columns]
            head = self.heads.get(row)
            lines += [[(head, columns[0].styles[row])]] if head else _row(cells, sizes, gap)
        return lines

    def records(self, width: int) -> list[Line]:
        """Return each row as its name and, below it, pairs of a head and a value."""
        found: list[Line] = []
        columns: list[_Shown] = [*self.columns, *(own for own, _ in self.bars if any(own.texts))]
        names, *others = columns
        for row, (name, style) in enumerate(zip(names.texts, names.styles, strict=True)):
            found += _lines(self.heads.get(row, name), width, style)
            for text in _pairs(others, row, width - GAP):
                found += [[(" " * GAP, ""), (line, style)] for line in wrapped(text, width - GAP)]
        return found


def _pairs(columns: Sequence[_Shown], row: int, width: int) -> list[str]:
    """Return the pairs of a row, a text for each group of columns and for each column of prose."""
    filled = [(own.column, own.texts[row]) for own in columns if own.texts[row]]
    several = sum(own.column.prose for own in columns) > 1
    found = []
    for group, run in groupby((pair for pair in filled if not pair[0].prose), key=lambda pair: pair[0].group):
        pairs = (f"{column.title} {text}".strip() for column, text in run)
        tied = (pair.replace(" ", _TIED) if text_width(pair) < width else pair for pair in pairs)
        found.append((f"{group}: " if group else "") + ", ".join(tied))
    return found + [f"{own.title if several else ''} {text}".strip() for own, text in filled if own.prose]


def _drawn(shown: _Shown, lengths: Sequence[tuple[float, ...]], longest: int, *, whole: bool) -> _Shown:
    """Return a column of bars as texts, each with its own text where it has no bar."""
    scale = longest_bar(lengths, whole=whole)
    texts = [text or _bar(parts, scale, longest) for text, parts in zip(shown.texts, lengths, strict=True)]
    return shown._replace(texts=texts)


def _bar(parts: tuple[float, ...], scale: float, longest: int) -> str:
    """Draw a bar whose end is rounded, and so where its first part ends."""
    whole = sum(parts)
    if not whole or not scale:
        return ""
    if whole > scale:
        first = round(parts[0] / whole * (longest - len(CUT)))
        return FIRST * first + SECOND * (longest - len(CUT) - first) + CUT
    end, between = round(whole / scale * longest), round(parts[0] / scale * longest)
    return FIRST * min(between, end) + SECOND * (end - between) if end else LITTLE


def _colour(value: Any) -> str:
    """Return the colour of a choice; none for several dims at once and for other values."""
    if not isinstance(value, Cell) or len(value.parts) > 1:
        return ""
    return colours_of(value.parts[0][0] if value.parts else None).terminal


def _widened(columns: Sequence[_Shown], gap: int) -> list[_Shown]:
    """Return the columns with room for each group's name where another group follows."""
    found: list[_Shown] = []
    runs = [[*run] for _, run in groupby(columns, key=lambda own: own.column.group)]
    for run, follows in zip_longest(runs, runs[1:]):
        last = run[-1]
        lack = text_width(last.column.group) - sum(own.wide + gap for own in run) + gap
        if follows and last.column.group and lack > 0:
            head = last.column.title.ljust(last.wide + lack)
            run[-1] = last._replace(column=replace(last.column, head=head))
        found += run
    return found


def _row(cells: Sequence[tuple[str, str, Column]], sizes: Sequence[int], gap: int) -> list[Line]:
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
            at = max(start + (size - text_width(text) if right else 0), end)
            line += [(" " * (at - end), ""), (text, style)]
            end = at + text_width(text)
        start += size + gap
    return line
