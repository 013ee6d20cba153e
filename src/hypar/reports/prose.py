"""Text in lines of a width, in which no number parts from its unit."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

WIDEST_TEXT = 100
"""Characters of a line of text at most, however wide the terminal is."""

_TOGETHER = re.compile(
    r"(?<=[\d)]) (?=(?:[kMGTPmunpf]?(?:B|J|s|Hz|FLOP)\b|[kMGTP]\b))"
    r"|(?<=\bH\d) (?=\d)|(?<=\bH\d\d) (?=\d)|(?<=\w) (?=[\d.]+ [kMGT]?B/s)"
)
"""The space between a number and its unit, a level and its number, or a network and its rate."""

_TIED = "\x00"


class Note(NamedTuple):
    """A text below a table.

    Attributes:
        label: what it is about, in front of the text.
        text: the text; lines after the first have the same indent.
    """

    label: str
    text: str

    @property
    def line(self) -> str:
        """The note as one line of a page."""
        return f"{self.label}: {self.text}"


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


def note_lines(notes: list[Note], width: int) -> list[tuple[str, str]]:
    """Return the lines of notes, each as its label, padded, and its text; a note without a label is indented too."""
    width = min(width, WIDEST_TEXT)
    indent = max(len(note.label) for note in notes) + 2 if notes else 0
    indent = indent if indent <= width // 3 else 2
    found = []
    for note in notes:
        long = len(note.label) + 2 > indent
        texts = wrapped(note.text, width - indent)
        if long:
            found.append((note.label, ""))
        first = "" if long else note.label
        found += [((first if at == 0 else "").ljust(indent), text) for at, text in enumerate(texts)]
    return found
