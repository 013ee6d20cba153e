"""Pages at a terminal and in a pipe: width, parts, bars, styles."""

import io
import os
import subprocess
import sys

import pytest

from hypar.document import Document, Note
from hypar.reports.renderers import csv_text
from hypar.reports.terminal import WIDTH_OF_A_PIPE, note, show_document, width, write


@pytest.mark.parametrize(
    ("columns", "expected"),
    [("60", 60), ("", WIDTH_OF_A_PIPE), ("wide", WIDTH_OF_A_PIPE), ("0", WIDTH_OF_A_PIPE), ("1", 20)],
)
def test_a_pipe_is_as_wide_as_columns_says(
    columns: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert width() == expected


def test_a_terminal_is_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((133, 40)))
    monkeypatch.setattr("sys.stdout", sys.__stdout__)
    assert width() == 133


@pytest.mark.parametrize(
    ("encoding", "bar"), [("ascii", "==-- ."), ("utf-8", "\u2501\u2501\u2505\u2505 \u2578")]
)
@pytest.mark.parametrize("colour", [{}, {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}])
def test_bars_are_drawn_in_ascii_where_the_encoding_has_no_lines(
    encoding: str, bar: str, colour: dict[str, str]
) -> None:
    code = (
        "from hypar.document import *; from hypar.reports.terminal import show_document\n"
        "table = Table((Column(key='b', head='', unit='bar'),), [{'b': (.5, .5)}] * 2 + [{'b': .001}])\n"
        "show_document(Document(title='', parts=(table,)))"
    )
    env = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "20", **colour}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stderr == b""
    both, little = bar.split()
    assert done.stdout.decode(encoding).split() == [both[0] * 8 + both[-1] * 8] * 2 + [little]


def test_control_characters_reach_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "a\x1b[31m\x9bb"
    for colour in ("", "1"):
        monkeypatch.setenv("FORCE_COLOR", colour)
        show_document(Document(title=hostile, notes=(Note("", hostile),)))
        write(hostile)
        write(hostile, document=True)
        note(hostile, "bold red")
        note(hostile)
        found = "".join(capsys.readouterr())
        assert found.count("a?[31m?b") == 6
        assert "\x9b" not in found


def test_a_text_that_spreadsheets_take_for_a_formula_is_none() -> None:
    rows = [{"a": "=1+1", "b": -2.5, "c": "dp"}, {"a": "@x", "b": 1, "c": "-"}]
    assert csv_text(rows) == "a,b,c\n'=1+1,-2.5,dp\n'@x,1,'-\n"
