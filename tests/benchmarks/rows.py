"""A page of the documentation that is one table, of which each row is computed by a test of its own."""

from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[2] / "docs"


class Rows(NamedTuple):
    """A page.

    Attributes:
        name: the name of its file.
        head: the text down to the table's second line.
        starts: what each row that it may have starts with, in their order.
    """

    name: str
    head: str
    starts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return DOCS / self.name

    @property
    def found(self) -> dict[str, str]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return {start: line for start in self.starts for line in lines if line.startswith(start)}

    def text(self, rows: dict[str, str]) -> str:
        """Return the page with some rows; those that are empty are left out."""
        return self.head + "".join(f"{rows[start]}\n" for start in self.starts if rows.get(start))

    def compare(self, start: str, row: str, *, update: bool) -> None:
        """Check a row, which is empty if the page has none, or write it."""
        if update:
            self.path.write_text(self.text(self.found | {start: row}), encoding="utf-8")
        assert self.found.get(start, "") == row
