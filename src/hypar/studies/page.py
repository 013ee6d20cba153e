"""Pages of reproductions: sections, each with a table and perhaps a figure."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.files.canvas import draw
from hypar.files.text import make_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.files.figures import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One figure or table of a paper.

    Attributes:
        title: its heading.
        text: its content, the method, and the reason for any miss.
        heads: heads of the table.
        rows: cells of the table.
        figure: the plot beside it.
    """

    title: str
    text: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    figure: Figure | None = None

    @property
    def picture(self) -> str:
        """Return the stem of the figure's file name, made from the heading."""
        return "-".join(self.title.partition(":")[0].lower().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a reproduction.

    Attributes:
        name: name of the plug-in and of the page's file.
        title: its heading.
        text: what was reproduced, and from which inputs.
        sections: in the paper's order.
    """

    name: str
    title: str
    text: str
    sections: tuple[Section, ...]

    def markdown(self, *, pictures: bool) -> str:
        """Return the page as Markdown, with links to its pictures or without."""
        blocks = [f"# {self.title}", _filled(self.text)]
        for section in self.sections:
            blocks += [f"## {section.title}", _filled(section.text)]
            if section.rows:
                blocks.append(_table(section.heads, section.rows))
            if pictures and section.figure is not None:
                blocks.append(f"![{section.figure.title}]({self.name}/{section.picture}.png)")
        return "\n\n".join(blocks) + "\n"

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Write ``NAME.md`` and its pictures, in a folder ``NAME`` beside it.

        Raises:
            DocumentError: the folder cannot be written to.
            OptionError: matplotlib is not installed.
        """
        page = Path(folder) / f"{self.name}.md"
        pictures = Path(folder) / self.name
        make_folder(pictures)
        written = []
        for section in self.sections:
            if section.figure is not None:
                written.append(pictures / f"{section.picture}.png")
                draw(section.figure, written[-1])
        write_text(page, self.markdown(pictures=True))
        return (page, *written)


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(number) for number in numbers]
    return math.exp(math.fsum(logs) / len(logs))


def beside(published: float, ours: float, digits: int = 2) -> tuple[str, str, str]:
    """Format a published number, ours, and the ratio of ours to it."""
    return f"{published:.{digits}f}", f"{ours:.{digits}f}", f"{ours / published:.2f}"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 110, break_long_words=False, break_on_hyphens=False)


def _numeric(text: str) -> bool:
    return not text.strip("0123456789.,-% ")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table, with columns of numbers aligned to the right."""
    columns = list(zip(*rows, strict=True))
    align = "|".join(
        "--:" if number and all(map(_numeric, cells)) else "---" for number, cells in enumerate(columns)
    )
    lines = [f"| {' | '.join(heads)} |", f"|{align}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
