"""CSV files: as many rows and columns as are allowed, in time linear in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar.errors import DocumentError
from hypar.files.csv_file import MOST_COLUMNS, MOST_ROWS, read_csv

if TYPE_CHECKING:
    from pathlib import Path


def read(tmp_path: Path, text: str) -> list[dict[str, str]]:
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    return [row.cells for row in read_csv(file)]


class Counted(str):
    """A name of a column that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_columns_are_compared_a_few_times_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not each with each."""
    count = 60_000
    head = [Counted(f"c{number}") for number in range(count)]
    monkeypatch.setattr("hypar.files.csv_file._records", lambda *_: iter([(1, head), (2, ["1"] * count)]))
    assert len(read(tmp_path, "")[0]) == count
    assert Counted.compared < 5 * count


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(end: str, tmp_path: Path) -> None:
    text = end.join(["a,b", '1,"x', 'y"', "", "3,4"])
    assert read(tmp_path, text) == [{"a": "1", "b": f"x{end}y"}, {"a": "3", "b": "4"}]
    assert read(tmp_path, text + end) == read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,a\n", "t.csv:1: column 'a' given twice; allowed: once"),
        ("," * MOST_COLUMNS, f"t.csv:1: too many columns; allowed: at most {MOST_COLUMNS:,}"),
        ("a\n" + "," * MOST_COLUMNS, f"t.csv:2: too many columns; allowed: at most {MOST_COLUMNS:,}"),
        (
            "a\n" + "1\n" * (MOST_ROWS + 1),
            f"t.csv:{MOST_ROWS + 2}: too many rows; allowed: at most {MOST_ROWS:,}",
        ),
        (
            "a\n" + "\n" * (MOST_ROWS + 1),
            f"t.csv:{MOST_ROWS + 2}: too many rows; allowed: at most {MOST_ROWS:,}",
        ),
    ],
    ids=["twice", "wide head", "wide row", "many rows", "many empty rows"],
)
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_as_many_rows_as_allowed(tmp_path: Path) -> None:
    assert len(read(tmp_path, "a\n" + "1\n" * MOST_ROWS)) == MOST_ROWS
