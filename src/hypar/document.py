"""What a result shows, as data: tables of raw values with units, figures and notes; and results that have such a document.

A result knows nothing of how it looks. The function ``document_of`` of a module of ``reports/of``, found by the name of the
result's class when it is asked for, makes its document; renderers know documents and no result. So importing hypar imports
neither pandas nor matplotlib, and no package imports one above it.
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
    "whole": lambda value: f"{value:,}",
    "ratio": lambda value: format_gain(value, 1),
    "percent": lambda value: f"{value:.1%}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        key: the key of its values in the rows, and in JSON, CSV and data frames.
        head: its head for readers; the key if None.
        unit: ``text``, ``count`` (with a prefix), ``whole`` (with all digits), ``bytes``, ``seconds``, ``joules``, ``ratio`` (3.31x), ``percent`` (of 1), ``bar`` (a number,
            or a tuple of the numbers of its parts; shown as a length, and no data), or the unit of a cost.
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
        rows: the values of each row by the columns' keys, a choice as a ``Cell``, which has its colour; the key ``tone`` gives
            a row's tone.
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
    """A text below a table.

    Attributes:
        label: what it is about, in front of the text.
        text: the text.
        detail: whether it is shown where all is asked for alone, as by ``--full``.
    """

    label: str
    text: str
    detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Values along an axis.

    Attributes:
        kind: ``bars`` over names, side by side for several series; ``stack``, bars whose series add up; ``lines`` over
            numbers; ``area``, lines whose series add up; ``points`` over names, for values that span decades.
        title: what it shows.
        x: the names or numbers along the axis.
        series: the values of each series by its name, one for each x; None leaves a gap.
        unit: the unit of the values, as of a column.
        x_label: what the axis counts.
        x_unit: the unit of numbers along the axis.
        y_label: what the values are.
        log: whether the values need a logarithmic scale.
        limit: a value to draw as a line, as the memory of a device.
        marks: texts beside values of the first series, by position.
    """

    kind: Literal["bars", "stack", "lines", "area", "points"]
    title: str
    x: Sequence[str] | Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    unit: str
    x_label: str = ""
    x_unit: str = "count"
    y_label: str = ""
    log: bool = False
    limit: float | None = None
    marks: Mapping[int, str] = field(default_factory=dict)


class Cell(NamedTuple):
    """A cell of a grid.

    Attributes:
        text: what is written in it.
        parts: the dims that a choice cuts with their degrees, for colours; empty for a whole layer.
    """

    text: str
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Named rows of cells, as the choices of layers at levels.

    Attributes:
        title: what it shows.
        columns: the heads of the cells.
        rows: a name and its cells, one for each column.
        bars: for each row, named lengths beside it, as the seconds of a layer by phase.
        unit: the unit of the bars.
        keys: what each text means.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    bars: tuple[Mapping[str, float], ...] = ()
    unit: str = "seconds"
    keys: Mapping[str, str] = field(default_factory=dict)


class Span(NamedTuple):
    """A time in which a track works.

    Attributes:
        track: the device group, stage or resource.
        start: in seconds.
        end: in seconds.
        kind: the phase, for its colour.
        label: what is written on it where there is room, as the number of a microbatch.
        critical: whether it is on the critical path.
    """

    track: str
    start: float
    end: float
    kind: str
    label: str = ""
    critical: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Who works when.

    Attributes:
        title: what it shows.
        tracks: the tracks, from above.
        spans: what they do.
    """

    title: str
    tracks: tuple[str, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document with a heading of its own.

    Attributes:
        title: the heading.
        parts: what stands below it.
        about: a line below the heading.
    """

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
    """A result that has a document.

    Its module of ``reports/of`` has a function ``document_of(result) -> Document`` as its ``plugin``.
    """

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
        """Draw it, and return a picture that a notebook shows.

        Args:
            file: a file to write it to as well: .svg, or with matplotlib .png or .pdf.

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
    """The objects and the file from which a plan or a score was made, as far as they are known.

    Attributes:
        plan: for a score, the plan that was run.
        network: the network, if it is not to be found by the plan's model name.
        machine: the machine, if it is not to be found by its name.
        profile: the measured times, if they are not to be found by their name.
        file: the plan's file; names are looked up beside it.
    """

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
