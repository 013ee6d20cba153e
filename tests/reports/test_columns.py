from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hypar.reports.columns import Cell, Column, Line, Sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = st.text("ab1.", min_size=1, max_size=9)


def sheet(heads: Sequence[Column], *rows: Sequence[str | Cell], turns: bool = False) -> Sheet:
    table = Sheet(columns=heads, turns=turns)
    for row in rows:
        table.add_row(*row)
    return table


def column(head: str, **kinds: bool | str) -> Column:
    return Column(head=head, cells=(), **kinds)  # type: ignore[arg-type]


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_columns_stand_two_spaces_apart_and_numbers_at_the_right() -> None:
    table = sheet(
        [column("layer", key=True), column("time", right=True)], ["conv1", "7 ms"], ["fc", "69.2 ms"]
    )
    assert texts(table.lines(80)) == ["layer     time", "conv1     7 ms", "fc     69.2 ms"]


BARS = [column("layer", key=True), column("time", right=True), column("", bar=True)]
TIMES: tuple[list[str | Cell], ...] = (
    ["a", "2 s", Cell(computes=0.5, receives=0.5)],
    ["b", "1 s", Cell(computes=0.5)],
    ["c", "1 ms", Cell(receives=0.001)],
    ["d", "0 s", Cell()],
    ["e", "9 s", Cell("too big")],
)


@pytest.mark.parametrize(
    ("width", "bars"),
    [
        (80, ["━" * 8 + "┅" * 8, "━" * 8, "╸", "", "too big"]),
        (21, ["━" * 4 + "┅" * 4, "━" * 4, "╸", "", "too big"]),
        (20, ["━" * 4 + "┅" * 3, "━" * 4, "╸", "", "too big"]),
    ],
)
def test_bars_go_first_and_the_texts_beside_them_stay(width: int, bars: list[str]) -> None:
    lines = texts(sheet(BARS, *TIMES).lines(width))[1:]
    assert [line[13:] for line in lines] == bars
    without = texts(sheet(BARS, *TIMES).lines(19))
    assert without == [
        "layer time",
        *("a      2 s", "b      1 s", "c     1 ms", "d      0 s"),
        "e      9 s too big",
    ]


def test_then_prose_breaks_into_lines() -> None:
    table = sheet(
        [column("what", key=True), column("source", prose=True)], ["rows", "a processing unit of Eyeriss's"]
    )
    assert texts(table.lines(30)) == [
        "what  source",
        "rows  a processing unit of",
        "      Eyeriss's",
    ]


def test_then_gaps_shrink() -> None:
    table = sheet([column("a", key=True), column("b"), column("c")], ["11", "22", "33"])
    assert texts(table.lines(10)) == ["a   b   c", "11  22  33"]
    assert texts(table.lines(8)) == ["a  b  c", "11 22 33"]


def test_then_rows_become_columns_where_they_may() -> None:
    heads = [column("strategy", key=True), *(column(f"H{level}", right=True) for level in range(1, 7))]
    rows = (["dp", *["10 MB"] * 6], ["mp", *["2 MB"] * 6])
    assert texts(sheet(heads, *rows, turns=True).lines(24))[:2] == [
        "strategy     dp    mp",
        "H1        10 MB  2 MB",
    ]
    assert len(sheet(heads, *rows, turns=True).lines(80)) == 3


def test_then_columns_stand_below_each_other_with_the_names_of_the_rows() -> None:
    heads = [column("a", key=True), column("bbbbb"), column("ccccc"), column("ddddd")]
    lines = texts(sheet(heads, ["x", "1", "2", ""], ["y", "3", "4", "5"]).lines(15))
    assert lines == ["a  bbbbb  ccccc", "x  1      2", "y  3      4", "", "a  ddddd", "y  5"]


def test_groups_of_columns_stay_together() -> None:
    heads = [column("layer", key=True), column("H1")]
    heads += [column(f"H{level}", group=group) for group in ("fast", "slow") for level in (2, 3)]
    table = sheet(heads, ["conv1", "I", "II", "I", "I", "III"])
    assert texts(table.lines(80)) == [
        "           fast    slow",
        "layer  H1  H2  H3  H2  H3",
        "conv1  I   II  I   I   III",
    ]
    assert texts(table.lines(19)) == [
        "           fast",
        "layer  H1  H2  H3",
        "conv1  I   II  I",
        "",
        "       slow",
        "layer  H2  H3",
        "conv1  I   III",
    ]


def test_at_last_rows_become_two_lines() -> None:
    heads = [
        column("fc1 H1-H3", key=True),
        column("fc2 H1", key=True),
        column("time", right=True),
        column("gain"),
    ]
    assert texts(sheet(heads, ["mp mp mp", "dp", "1.94 s", "3.3x"]).lines(24)) == [
        "    time  gain",
        "fc1 H1-H3: mp mp mp, fc2",
        "H1: dp",
        "  1.94 s  3.3x",
    ]


def test_a_heading_reaches_over_the_columns_to_its_right() -> None:
    table = sheet(
        [column("", key=True), column("value")], [Cell("device.memory", over=True), ""], ["  a", "1"]
    )
    assert texts(table.lines(80)) == ["     value", "device.memory", "  a  1"]


@given(
    st.lists(st.tuples(WORDS, st.booleans(), st.booleans()), min_size=1, max_size=9),
    st.lists(st.lists(WORDS, min_size=10, max_size=10), min_size=1, max_size=4),
    st.integers(20, 90),
    st.booleans(),
)
def test_nothing_is_cut_and_no_line_is_too_wide(
    heads: list[tuple[str, bool, bool]], rows: list[list[str]], width: int, turns: bool
) -> None:
    columns = [
        column("k", key=True),
        *(column(head, right=right, prose=prose) for head, right, prose in heads),
    ]
    lines = texts(sheet(columns, *(row[: len(columns)] for row in rows), turns=turns).lines(width))
    assert max(map(cell_len, lines)) <= width
    shown = " ".join(lines).split()
    for text in [cell for row in rows for cell in row[: len(columns)]] + [head for head, *_ in heads]:
        assert text in shown
