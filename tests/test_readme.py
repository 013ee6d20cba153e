"""What the README shows is what comes out."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from hypar.cli.main import main

if TYPE_CHECKING:
    import pytest

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = [match.group(1) for match in re.finditer(r"```text\n(.*?)\n```", TEXT, re.DOTALL)]


def test_the_first_command_prints_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)
    (arguments,) = re.findall(r"bin/hypar (.*)", TEXT)
    assert CliRunner().invoke(main, shlex.split(arguments)).stdout.rstrip() == BLOCKS[0]


def test_other_commands_print_what_is_shown() -> None:
    for block in BLOCKS[1:]:
        command, _, shown = block.partition("\n")
        arguments = shlex.split(command.removeprefix("$ hypar "))
        assert CliRunner().invoke(main, arguments).stdout.rstrip() == shown


def test_the_reproduced_mean_is_the_page_s() -> None:
    ours, published = re.findall(r"speed-up over dp as (\S+) \(published: ([\d.]+)\)", TEXT)[0]
    page = (README.parent / "docs" / "reproductions" / "hypar.md").read_text(encoding="utf-8")
    assert f"| performance, mean of ten | {published} | {ours} |" in page


def test_the_python_lines_run() -> None:
    assert doctest.testfile(str(README), module_relative=False).failed == 0
