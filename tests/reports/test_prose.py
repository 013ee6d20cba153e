from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hypar.reports.prose import Note, note_lines, wrapped


def test_a_number_keeps_its_unit_and_a_level_its_number() -> None:
    text = "levels H1 171 MB, H2 307 MB, H12 1.13 GB; 1,234 s, 5 us, 138 M"
    for width in range(8, 60):
        lines = wrapped(text, width)
        assert " ".join(lines) == text
        for whole in ("H1 171 MB", "H2 307 MB", "H12 1.13 GB", "1,234 s", "5 us", "138 M"):
            assert any(whole in line for line in lines), (width, whole)


def test_the_last_word_of_a_rate_stays_with_it() -> None:
    assert wrapped("switch 12.5 GB/s, fully_connected 20.0 GB/s", 26) == [
        "switch 12.5 GB/s,",
        "fully_connected 20.0 GB/s",
    ]


def test_notes_have_one_indent() -> None:
    notes = [Note("time", "1.94 s: forward 419 ms"), Note("claim", "greedy"), Note("", "no lower")]
    assert note_lines(notes, 21) == [
        ("time   ", "1.94 s:"),
        ("       ", "forward 419 ms"),
        ("claim  ", "greedy"),
        ("       ", "no lower"),
    ]


def test_a_long_label_stands_on_a_line_of_its_own() -> None:
    assert note_lines([Note("a-strategy-of-another-package", "fixed"), Note("dp", "fixed")], 40) == [
        ("a-strategy-of-another-package", ""),
        ("  ", "fixed"),
        ("dp", ""),
        ("  ", "fixed"),
    ]


@given(st.lists(st.text("abc1 .", max_size=30)), st.integers(12, 120))
def test_words_are_kept_and_lines_are_no_wider(texts: list[str], width: int) -> None:
    text = "\n".join(texts)
    lines = wrapped(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line for line in lines)
