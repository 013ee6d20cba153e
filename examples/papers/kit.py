"""A paper's page from rows: published values and tolerances in a YAML file, ours measured by a script of the same name.

A section of the YAML names a function of the script. It returns our cells as ``rows``, the numbers of the text by name, and
the data of a figure where these are no columns of the table. Page and tests follow from the merged rows.
"""

from __future__ import annotations

import importlib
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import figures
import yaml

if TYPE_CHECKING:
    import hypar

HERE = Path(__file__).parent
FROZEN = "† Frozen: computed by hypar at commit 85fb9d4c and not computed again."

Cells = Sequence[Any]
Result = Mapping[str, Any]
"""What a script's function returns: rows, numbers of the text by name, and perhaps a figure's data."""


class Row(NamedTuple):
    """A published number beside ours: printed on the page, asserted by the tests."""

    section: str  # title of the table
    name: str  # name of the row
    head: str  # head of our column
    published: float  # the paper's number
    ours: float  # the number of the script
    within: str  # the tolerance: absolute, or a fraction of the published number if it ends in a percent sign
    missed: str  # why the row is known to be beyond it; empty for a row that is not

    @property
    def holds(self) -> bool:
        """Whether ours is within the tolerance."""
        size = float(self.within.rstrip("%"))
        most = size / 100 * abs(self.published) if self.within.endswith("%") else size
        return abs(self.ours - self.published) <= most + 1e-9


class Column(NamedTuple):
    """A column of a table: its head, where its cells come from, their form, and the tolerance of ours."""

    head: str
    source: str
    form: str
    within: str

    @classmethod
    def of(cls, stated: str | Mapping[str, str]) -> Column:
        """Read ``head`` or ``{head: [published | frozen | ratio] [form] [±tolerance]}``."""
        head, words = (stated, "") if isinstance(stated, str) else next(iter(stated.items()))
        found = re.fullmatch(r"(published|frozen|ratio)? ?([^±]*?) ?(?:±(.*))?", words)
        if found is None:
            raise ValueError(words)
        source = found[1] or "ours"
        return cls(f"{head} †" if source == "frozen" else head, source, found[2], found[3] or "")


class Table(NamedTuple):
    """The merged cells of a section, with its columns."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    cells: tuple[tuple[Any, ...], ...]

    def pair(self, index: int) -> tuple[int, int]:
        """Return our column at or before a place, and the published column before that, or else behind it."""
        kinds = [column.source for column in self.columns]
        ours = max(place for place in range(index + 1) if kinds[place] == "ours")
        known = [place for place, kind in enumerate(kinds) if kind == "published"]
        return ours, max((place for place in known if place < ours), default=known[0])

    def texts(self) -> list[list[str]]:
        """Return every cell as it is printed."""
        return [
            [self._text(line, index, column) for index, column in enumerate(self.columns)]
            for line in self.cells
        ]

    def _text(self, line: Cells, index: int, column: Column) -> str:
        if column.source != "ratio":
            return printed(line[index], column.form)
        ours, known = (number(line[place]) for place in self.pair(index))
        return "" if ours is None or not known else f"{ours / known:.2f}"

    def markdown(self) -> str:
        """Return the table as Markdown, with columns of numbers aligned to the right."""
        body = self.texts()
        numeric = [not "".join(column).strip("0123456789.,-% ") for column in zip(*body, strict=True)]
        align = "|".join("--:" if index and own else "---" for index, own in enumerate(numeric))
        heads = " | ".join(column.head for column in self.columns)
        return "\n".join([f"| {heads} |", f"|{align}|", *(f"| {' | '.join(line)} |" for line in body)])


class Section(NamedTuple):
    """A figure or table of a paper: what its YAML says, and what the script found."""

    title: str
    stated: Mapping[str, Any]
    found: Result

    @property
    def table(self) -> Table | None:
        """Merge published, our and frozen cells."""
        if "columns" not in self.stated:
            return None
        columns = tuple(map(Column.of, self.stated["columns"]))
        published, keys = self.stated.get("published", {}), self.stated.get("keys", 1)
        names, lines = [], []
        for own in self.found.get("rows", ()):
            names.append(", ".join(map(str, own[:keys])))
            known = published.get(names[-1], [])
            stated = iter(known if isinstance(known, list) else [known])
            sources = {"ours": iter(own), "published": stated, "frozen": stated}
            lines.append(tuple(next(sources.get(column.source, iter(())), None) for column in columns))
        unknown = {*published} - {*names}
        if unknown:
            raise KeyError(f"{self.title}: no row {sorted(unknown)}")
        for first, *others in self.stated.get("frozen", ()):
            lines.append((f"{first} †", *others))
        lines += map(tuple, self.stated.get("lines", ()))
        return Table(columns, tuple(names), tuple(lines))

    def rows(self) -> Iterator[Row]:
        """Yield every number of ours that has a published one and a tolerance."""
        table = self.table
        missed, own = self.stated.get("missed", {}), self.stated.get("within", {})
        for index, column in enumerate(table.columns) if table else ():
            if not column.within or table is None:
                continue
            for name, line in zip(table.names, table.cells, strict=False):
                ours, known = (number(line[place]) for place in table.pair(index))
                if ours is not None and known is not None:
                    reason = missed.get(name, missed.get(f"{name} | {index}", ""))
                    within = own.get(name, column.within)
                    yield Row(self.title, name, column.head, known, ours, within, reason)

    @property
    def figure(self) -> figures.Figure | None:
        """Its plot, of columns of the table or of the script's series."""
        stated = dict(self.stated.get("figure", {}))
        if not stated:
            return None
        columns, count = stated.pop("series", None), stated.pop("rows", None)
        cells = () if self.table is None else self.table.cells[:count]
        if columns is not None:
            series = {name: [number(line[place]) for line in cells] for name, place in columns.items()}
        else:
            series = self.found["series"]
        x = self.found.get("x", [str(line[0]) for line in cells])
        return figures.Figure(**stated, places=[str(place) for place in x], series=series)

    @property
    def picture(self) -> str:
        """The name of the figure's file."""
        return "-".join(self.title.partition(":")[0].lower().split()) + ".svg"

    def blocks(self, folder: str | None) -> Iterator[str]:
        """Yield its Markdown, with a link to the figure in a folder if one is given."""
        yield f"## {self.title}"
        text = filled(self.stated["text"], self.found)
        yield text
        table = self.table
        if table is not None:
            yield table.markdown()
        if "†" in text + ("" if table is None else table.markdown()):
            yield FROZEN
        figure = self.figure
        if folder is not None and figure is not None:
            yield f"![{figure.title}]({folder}/{self.picture})"


class Page(NamedTuple):
    """The page of a paper."""

    name: str
    stated: Mapping[str, Any]
    sections: tuple[Section, ...]

    def markdown(self, *, pictures: bool) -> str:
        """Return the page as Markdown, with links to its pictures or without."""
        blocks = [f"# {self.stated['title']}", filled(self.stated["text"], {})]
        for section in self.sections:
            blocks += section.blocks(self.name if pictures else None)
        return "\n\n".join(blocks) + "\n"

    def files(self) -> dict[str, str]:
        """Return the text of the page and of each picture by file name."""
        drawn = ((section.picture, section.figure) for section in self.sections)
        pictures = {f"{self.name}/{name}": figure.svg() for name, figure in drawn if figure is not None}
        return {f"{self.name}.md": self.markdown(pictures=True), **pictures}

    def write(self, folder: Path) -> list[Path]:
        """Write ``NAME.md`` and its pictures, in a folder ``NAME`` beside it."""
        for name, text in self.files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in self.files()]


def papers() -> tuple[str, ...]:
    """Return the names of all papers: their files without the year."""
    return tuple(sorted(file.stem.partition("_")[0] for file in HERE.glob("*_[0-9]*.yaml")))


def stated(name: str) -> tuple[str, dict[str, Any]]:
    """Return a paper's script and what its YAML says."""
    (file,) = HERE.glob(f"{name}_[0-9]*.yaml")
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return file.stem, found


def given(name: str) -> dict[str, Any]:
    """Return the published numbers from which a paper's script computes others."""
    return dict(stated(name)[1]["given"])


def published(name: str, of: str) -> dict[str, Any]:
    """Return the published rows of a section, from which a paper's script computes others."""
    return next(
        dict(section["published"]) for section in stated(name)[1]["sections"] if section.get("of") == of
    )


@cache
def page(name: str) -> Page:
    """Compute the page of a paper."""
    script, data = stated(name)
    module = importlib.import_module(script)
    known: dict[str, Result] = {}
    sections = []
    for section in data["sections"]:
        of = section.get("of")
        if of is not None and of not in known:
            function, *argument = of.split(" ", 1)
            known[of] = getattr(module, function)(*argument)
        sections.append(Section(section["title"], section, known.get(of, {})))
    return Page(name, data, tuple(sections))


def scored(plan: hypar.Plan) -> hypar.Score:
    """Return the score of a plan for a machine."""
    if plan.score is None:
        raise ValueError(plan.strategy)
    return plan.score


def number(cell: Any) -> float | None:
    """Return a cell as a number; None if it is none."""
    if isinstance(cell, int | float):
        return float(cell)
    try:
        return float(Fraction(str(cell).replace(",", "")))
    except ValueError:
        return None


def printed(cell: Any, form: str) -> str:
    """Format a cell; texts stay as they are, and nothing is empty."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    return format(cell, form)


def filled(text: str, words: Result) -> str:
    """Insert numbers by name into a text, and break its lines."""
    return textwrap.fill(
        " ".join(text.format_map(words).split()), 110, break_long_words=False, break_on_hyphens=False
    )


def geometric_mean(numbers: Iterator[float] | Sequence[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(own) for own in numbers]
    return math.exp(math.fsum(logs) / len(logs))
