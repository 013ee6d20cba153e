"""Every example runs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
WORDS = {
    "quickstart.py": ("times less volume than dp", "still what planning gives: True"),
    "conventions.py": ("| model | hypar | moved |", "\n| lenet-c | 0.0176 | 0.0186 | "),
    "machines.py": ("on hmc: 379 ms a step", "least time: 0.760 of it", "<- the plan", "hypar   16 devices"),
}

ARGUMENTS = {"conventions.py": ("lenet-c",)}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_example_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(file), *ARGUMENTS.get(file.name, ())])
    runpy.run_path(str(file), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.err == ""
    assert all(words in printed.out for words in WORDS[file.name])
