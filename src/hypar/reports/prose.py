"""Text in lines of a width, in which no number parts from its unit."""

from __future__ import annotations

from typing import NamedTuple


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
