"""What a result shows, as data: tables of raw values with units, figures and notes; and results that have such a document.

A result knows nothing of how it looks: a module of ``reports/of``, found by name when it is asked for, makes its document, and
renderers know documents and no result. So importing hypar imports neither pandas nor matplotlib, and no package one above it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from hypar.errors import OptionError
from hypar.registry import load_plugin
from hypar.units import amount, format_count, format_gain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Tone = Literal["", "good", "warn", "bad", "this"]
"""What a value means for its reader: it fits, it barely does, it does not; a row is the one that is asked about."""

DASH = "-"
"""A number that is not known."""

_FORMATS: dict[str, Callable[[float], str]] = {
    "count": format_count,
    "whole": lambda value: f"{value:,}" if value == int(value) else f"{value:,.1f}",
    "ratio": lambda value: format_gain(value, 1),
    "percent": lambda value: f"{value:.1%}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        key: the key of its values in the rows, and in JSON, CSV and data frames.
        head: its head for readers; the key if None.
        unit: ``text``, ``count`` (with a prefix), ``whole`` (with all digits), ``bytes``, ``seconds``, ``joules``, ``ratio``
            (3.31x), ``percent`` (of 1), ``bar`` (a number, or a tuple of the numbers of its parts), or the unit of a cost.
        group: a head above neighbouring columns, as the name of a device group.
        prose: whether a text may have several lines.
        show: whether readers see it; otherwise it is data alone.
        data: whether JSON, CSV and data frames have it; otherwise it is for readers alone, as every bar.
    """

    key: str
    head: str | None = None
    unit: str = "text"
    group: str = ""
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

    def filled(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has something for readers in it."""
        value = row.get(self.key)
        return value is not None and value != ""

    def text(self, value: Any) -> str:
        """Format a value; a number that is not known is a dash."""
        if self.unit == "text":
            return "" if value is None else str(plain(value))
        if value is None or isinstance(value, str):
            return DASH if value is None else value
        shown = _FORMATS.get(self.unit)
        return shown(value) if shown else amount(value, self.unit)


def plain(value: Any) -> Any:
    """Return a value of a row as data: the text of a cell."""
    return value.text if isinstance(value, Cell) else value


class Table(NamedTuple):
    """Rows of raw values.

    Attributes:
        columns: the columns, in order.
        rows: the values of each row by key, a choice as a ``Cell``; the key ``tone`` gives a row's tone.
        total: a last row that adds them up.
        title: what the table is about; empty where its document says so.
    """

    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    total: dict[str, Any] | None = None
    title: str = ""

    @property
    def shown(self) -> list[Column]:
        """The columns for readers: those that have a value."""
        rows = [*self.rows, self.total or {}]
        return [own for own in self.columns if own.show and any(map(own.filled, rows))]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows with every key, as JSON, CSV and data frames have them; a heading is no row."""
        keys = [own.key for own in self.columns if own.data and own.unit != "bar"]
        found = ({key: plain(row.get(key)) for key in keys} for row in self.rows)
        return [row for row in found if any(value is not None for value in row.values())]


class Note(NamedTuple):
    """A text below a table with a label in front; ``detail`` is shown where all is asked for, as by ``--full``."""

    label: str
    text: str
    detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Values along an axis: ``series`` by name, each with a value or None for each ``x``, a name or of lines a number.

    ``unit`` and ``x_unit`` are those of columns; ``limit`` is a value drawn as a line, as the memory of a device; ``marks`` are
    texts beside values of the first series, by position.
    """

    kind: Literal["bars", "lines"]
    title: str
    x: Sequence[str] | Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    unit: str
    x_label: str = ""
    x_unit: str = "count"
    y_label: str = ""
    limit: float | None = None
    marks: Mapping[int, str] = field(default_factory=dict)


class Cell(NamedTuple):
    """A choice: its text, and the dims that it cuts with their degrees, for colours; none for a whole layer."""

    text: str
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Named rows of cells, one for each column, as the choices of layers at levels.

    ``bars`` are named lengths beside each row, in a ``unit``, as the seconds of a layer by phase; ``keys`` says what a text means.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    bars: tuple[Mapping[str, float], ...] = ()
    unit: str = "seconds"
    keys: Mapping[str, str] = field(default_factory=dict)


class Span(NamedTuple):
    """A time in seconds in which a track, as a stage, does one kind of work; the label is a microbatch's number, as an example."""

    track: str
    start: float
    end: float
    kind: str
    label: str = ""
    critical: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Who works when: tracks, from above, and what they do."""

    title: str
    tracks: tuple[str, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts of a document below a heading and a line about them."""

    title: str
    parts: tuple[Part, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A result as people and programs read it.

    Attributes:
        title: the answer, in a line.
        about: what was asked.
        parts: tables, figures, notes and sections, in the order of their reading. The first table is the answer in full: its
            rows are those of data frames and CSV.
        notes: notes below all parts.
        tone: what the answer means for its reader.
    """

    title: str
    about: str = ""
    parts: tuple[Part, ...] = ()
    notes: tuple[Note, ...] = ()
    tone: Tone = ""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that stand in no section."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of the first table: raw numbers by key."""
        return self.tables[0].records() if self.tables else []


Part = Table | Figure | Grid | Timeline | Note | Section


class Result:
    """A result that has a document, by the ``plugin`` of its module of ``reports/of``."""

    __slots__ = ()
    _document: ClassVar[str]

    def document(self) -> Document:
        """Return what it shows."""
        found: Document = load_plugin("documents", self._document)(self)
        return found

    def to_frame(self) -> Any:
        """Return its rows as a pandas data frame with plain numbers and texts.

        Raises:
            OptionError: pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise OptionError("to_frame", "pandas is not installed", hint="pip install pandas")
        return importlib.import_module("pandas").DataFrame(self.document().records())

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw it, and return a picture that a notebook shows; a file is .svg, or with matplotlib .png or .pdf.

        Raises:
            OptionError: matplotlib is not installed where it is needed, or the ending is not a supported format.
            DocumentError: the folder is missing or not writable.
        """
        plots = importlib.import_module("hypar.reports.plots")
        return plots.plot(self.document(), None if file is None else Path(file))

    def _repr_html_(self) -> str:
        return str(importlib.import_module("hypar.reports.html").fragment(self.document()))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Origin:
    """From what a plan or a score was made; None is what the names in it find, beside ``file``, the plan's."""

    plan: Any = None
    network: Any = None
    machine: Any = None
    profile: Any = None
    file: Path = Path("plan")


def remember(result: Any, origin: Origin) -> None:
    """Note the origin of a plan or a score; it is no part of the record, of its equality or of its file."""
    object.__setattr__(result, "_origin", origin)


def origin_of(result: Any) -> Origin:
    """Return the origin of a plan or a score; an empty one if it is not known."""
    found: Origin = getattr(result, "_origin", Origin())
    return found
