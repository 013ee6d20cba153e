"""Documents as lines: what a narrow width gives up in order, and that nothing is ever cut or lost."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hypar.document import Cell, Column, Document, Table, Tone
from hypar.reports.text import plain, render, table_lines, text_width, wrapped

WORDS = st.text("ab1.", min_size=1, max_size=9)


def table(heads: str, *rows: Sequence[Any], prose: str = "", bars: str = "") -> Table:
    """A table of words; heads with an equals sign have the unit behind it, and an underscore is a space."""
    columns = []
    for number, head in enumerate(heads.split()):
        name, _, unit = head.partition("=")
        own = name.replace("_", " ")
        columns.append(Column(key=str(number), head=own, unit=unit or "text", prose=name in prose.split()))
    if bars:
        columns.append(Column(key=str(len(columns)), head="", unit="bar"))
    return Table(tuple(columns), [dict(zip(map(str, range(99)), row, strict=False)) for row in rows])


def shown(own: Table, width: int) -> list[str]:
    return plain(table_lines(own, width)).splitlines()


TIMES = (
    ["a", 2.0, (1.0, 1.0)],
    ["b", 1.0, 1.0],
    ["c", 0.001, (0.0, 0.001)],
    ["d", 0.0, 0.0],
    ["e", 9.0, "too big"],
)


@pytest.mark.parametrize(
    ("width", "bars"),
    [
        (80, ["━" * 8 + "┅" * 8, "━" * 8, "╸", "", "too big"]),
        (23, ["━" * 4 + "┅" * 3, "━" * 4, "╸", "", "too big"]),
    ],
)
def test_bars_go_first_and_the_texts_beside_them_stay(width: int, bars: list[str]) -> None:
    own = table("layer time=seconds", *TIMES, bars="yes")
    assert [line[15:].strip() for line in shown(own, width)[1:]] == bars
    assert [line.split() for line in shown(own, 22)] == [
        ["layer", "time"],
        *(["a", "2.00", "s"], ["b", "1.00", "s"], ["c", "1.00", "ms"], ["d", "0", "s"]),
        ["e", "9.00", "s", "too", "big"],
    ]


def test_one_bar_that_is_far_longer_is_cut_and_does_not_flatten_the_others() -> None:
    own = table("layer", ["a", 1.0], ["b", 2.0], ["c", (300.0, 300.0)], bars="yes")
    assert [line[7:] for line in shown(own, 80)[1:4]] == ["━" * 6, "━" * 13, "━" * 7 + "┅" * 7 + "//"]
    assert "cut" in plain(render(Document(title="", parts=(own,)), 80))


def test_then_prose_breaks_into_lines_then_gaps_shrink() -> None:
    own = table("what source", ["rows", "a processing unit of Eyeriss's"], prose="source")
    assert shown(own, 30) == ["what  source", "rows  a processing unit of", "      Eyeriss's"]
    narrow = table("a b c", ["11", "22", "33"])
    assert shown(narrow, 10) == ["a   b   c", "11  22  33"]
    assert shown(narrow, 8) == ["a  b  c", "11 22 33"]


def test_at_last_each_row_is_a_record() -> None:
    own = table("layer H1 fast_H2 slow_H3", ["conv1", "dp", "I", "III"], ["fc", "", "I", "II"])
    lines = ["layer conv1", "  H1 dp,", "  fast H2 I,", "  slow H3"]
    assert shown(own, 12) == [*lines, "  III", "layer fc", "  fast H2 I,", "  slow H3 II"]
    whole = own._replace(total={"0": "all layers", "1": "dp"})
    assert shown(whole, 12)[-2:] == ["all layers", "  H1 dp"]


@pytest.mark.parametrize(("tone", "style"), [("", ""), ("good", "green"), ("warn", "yellow"), ("bad", "red")])
def test_rows_and_choices_have_their_colours(tone: Tone, style: str) -> None:
    own = table("layer H1", ["a", Cell("dp", (("dp", "batch"),))], ["b", Cell("-")])
    own.rows[0]["tone"] = tone
    styles = {text.strip(): style for line in table_lines(own, 80) for text, style in line}
    assert styles["a"] == style
    assert styles["dp"] == f"bright_blue {style}".strip()
    assert styles["-"] == "dim"


@given(
    st.lists(st.tuples(WORDS, st.booleans()), min_size=1, max_size=9),
    st.lists(st.lists(WORDS, min_size=10, max_size=10), min_size=1, max_size=4),
    st.integers(20, 90),
)
def test_nothing_is_cut_and_no_line_is_too_wide(
    heads: list[tuple[str, bool]], rows: list[list[str]], width: int
) -> None:
    columns = tuple(
        Column(key=str(number), head=head, prose=prose) for number, (head, prose) in enumerate(heads)
    )
    own = Table(columns, [dict(zip(map(str, range(10)), row, strict=True)) for row in rows])
    lines = shown(own, width)
    assert max(map(cell_len, lines)) <= width
    found = " ".join(lines).replace(",", "").split()
    for row in rows:
        for text in row[: len(heads)]:
            assert text in found


@given(st.text("aé\u4e2d\u0301 1", max_size=20))
def test_wide_characters_take_two_columns(text: str) -> None:
    assert text_width(text) == cell_len(text)


@given(st.lists(st.text("abc1 .", max_size=30)), st.integers(12, 120))
def test_words_are_kept_and_lines_are_no_wider(texts: list[str], width: int) -> None:
    text = "\n".join(texts)
    lines = wrapped(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line for line in lines)
