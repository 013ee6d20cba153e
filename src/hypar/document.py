"""What a result shows, as data: tables of raw values with units, figures and notes; and results that have such a document.

A module of ``reports/of``, found by name when it is asked for, makes the document of a result, and renderers know documents
alone. So importing hypar imports neither pandas nor matplotlib, and no package one above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

from hypar.errors import OptionError
from hypar.registry import load_plugin
from hypar.units import amount

Tone = Literal["", "good", "warn", "bad", "this"]
"""What a value means for its reader: it fits, it barely does, it does not; a row is the one that is asked about."""


class Column(NamedTuple):
    """A column of a table, whose values stand below its ``key`` in the rows, JSON, CSV and data frames; ``head`` is for readers.

    A ``unit`` is ``text``, ``count`` (with a prefix), ``whole`` (all digits), ``bytes``, ``seconds``, ``joules``, ``ratio`` (3.31x),
    ``percent`` (of 1), ``bar`` (a number, a tuple of its parts, or a text instead), or a cost's. ``prose`` may have several lines. Without ``show`` it is data alone, without ``data`` for readers alone, as every bar.
    """

    key: str
    head: str | None = None
    unit: str = "text"
    prose: bool = False
    show: bool = True
    data: bool = True

    @property
    def title(self) -> str:
        """The head that readers see."""
        return self.key if self.head is None else self.head

    @property
    def numeric(self) -> bool:
        """Whether its values stand at the right of the column."""
        return self.unit not in {"text", "bar"}

    def text(self, value: Any) -> str:
        """Format a value; a number that is not known is a dash, and a bar has no text."""
        if value is None or (self.unit == "bar" and not isinstance(value, str)):
            return "-" * self.numeric
        return str(value) if self.unit == "text" or isinstance(value, str) else amount(value, self.unit)


class Cell(NamedTuple):
    """A choice: its text, and for colours its words, each with the dim that it cuts, ``whole`` for none."""

    text: str
    parts: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.text


class Table(NamedTuple):
    """Rows of raw values by key, a choice as a ``Cell``, with the key ``tone`` for a row's tone; ``total`` is a last row."""

    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    total: dict[str, Any] | None = None
    title: str = ""

    @property
    def shown(self) -> list[Column]:
        """The columns for readers: those that have a value that is not 0."""
        rows = [*self.rows, self.total or {}]
        valued = {key for row in rows for key, value in row.items() if value not in (None, "", 0, (0, 0))}
        return [own for own in self.columns if own.show and own.key in valued]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows with every key, as JSON, CSV and data frames have them; one without any is none."""
        keys = [own.key for own in self.columns if own.data and own.unit != "bar"]
        found = ({key: row.get(key) for key in keys} for row in self.rows)
        return [row for row in found if any(value is not None for value in row.values())]


class Note(NamedTuple):
    """A text below a table with a label in front; ``detail`` is shown where all is asked for, as by ``--full``."""

    label: str
    text: str
    detail: bool = False


class Span(NamedTuple):
    """A time in seconds in which a track, as a stage, does one kind of work; the label is a microbatch's number, as an example."""

    track: str
    start: float
    end: float
    kind: str
    label: str = ""
    critical: bool = True


class Timeline(NamedTuple):
    """Who works when: tracks, from above, and what they do."""

    title: str
    tracks: tuple[str, ...]
    spans: tuple[Span, ...]


class Section(NamedTuple):
    """Parts of a document below a heading and a line about them."""

    title: str
    parts: tuple[Part, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The answer, what was asked, parts, and notes below them; the rows of the first table are those of data frames and CSV."""

    title: str
    about: str = ""
    parts: tuple[Part, ...] = ()
    notes: tuple[Note, ...] = ()
    tone: Tone = ""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that stand in no section."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    def shortened(self) -> Document:
        """Return it without its notes on details."""
        return replace(self, notes=tuple(note for note in self.notes if not note.detail))

    def walk(self, parts: Iterable[Part] | None = None, depth: int = 0) -> Iterator[tuple[int, Part]]:
        """Yield what readers see with the number of sections around it: parts, a section before its own, then notes."""
        for part in (*self.parts, *self.notes) if parts is None else parts:
            if not isinstance(part, Table) or part.shown:
                yield depth, part
            if isinstance(part, Section):
                yield from self.walk(part.parts, depth + 1)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the first table: raw numbers by key."""
        return self.tables[0].records() if self.tables else []


Part = Table | Timeline | Note | Section


class Result:
    """A result that has a document, by the ``plugin`` of its module of ``reports/of``."""

    __slots__ = ()
    _document: ClassVar[str]

    def document(self) -> Document:
        """Return what it shows."""
        return cast("Document", load_plugin("documents", self._document)(self))

    def __repr__(self) -> str:
        """Return its kind and its answer, short enough for a prompt."""
        return f"<{type(self).__name__} of {self.document().title}>"

    def to_frame(self) -> Any:
        """Return its rows as a pandas data frame with plain numbers and texts; raises ``OptionError`` without pandas."""
        if find_spec("pandas") is None:
            raise OptionError("to_frame", "pandas is not installed", hint="pip install pandas")
        return import_module("pandas").DataFrame(self.document().records())

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw it and return a picture for notebooks; a file is .svg, or with matplotlib .png or .pdf; raises ``InputError``."""
        return import_module("hypar.reports.plots").plot(self.document(), file)

    def _repr_html_(self) -> str:
        return str(import_module("hypar.reports.renderers").fragment(self.document().shortened()))
