"""CSV files: lines, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar.errors import DocumentError
from hypar.files.text import read_csv

if TYPE_CHECKING:
    from pathlib import Path


def read(tmp_path: Path, text: str) -> list[dict[str, str]]:
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    return [row.cells for row in read_csv(file)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(end: str, tmp_path: Path) -> None:
    text = end.join(["a,b", '1,"x', 'y"', "", "3,4"])
    assert read(tmp_path, text) == [{"a": "1", "b": f"x{end}y"}, {"a": "3", "b": "4"}]
    assert read(tmp_path, text + end) == read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,a\n", "t.csv:1: column 'a' given twice; allowed: once"),
        ('a,b\n\n1,"x\ny",3\n', "t.csv:3: found 3 cells; allowed: 2, one a column"),
        ('a\n"1"2\n', "t.csv:2: not CSV: ',' expected after '\"'"),
    ],
)
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/{message}"
