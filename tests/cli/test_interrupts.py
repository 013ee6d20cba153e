"""An interrupt ends the program with one line and status 130, whenever it comes; a closed or full stdout with one too."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar.cli.main import main
from tests.effort import crossed

pytestmark = pytest.mark.usefixtures("folder", "interruptible")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs that are started may be interrupted: what a shell runs in the background ignores it, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


FULL = Path("/dev/full")
ONE_LINE = (130, "", "interrupted\n")


def program(code: str) -> tuple[int, str, str]:
    text = f"import os, signal, sys\n{code}\nfrom hypar.__main__ import run\nrun()"
    command = [sys.executable, "-c", text, "plan", "lenet-c", "--levels", "1", "-o", "p.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


WHERE = {
    "while a module is imported": """
class Finder:
    def find_spec(self, name, *_):
        if name == "hypar.planning.planner":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())""",
    "while a file is written": """
sync = os.fsync
def interrupted(descriptor):
    os.kill(os.getpid(), signal.SIGINT)
    sync(descriptor)
os.fsync = interrupted""",
}


@pytest.mark.parametrize("where", WHERE)
def test_an_interrupt_is_one_line_and_leaves_no_file(where: str) -> None:
    assert program(WHERE[where]) == ONE_LINE
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("raised", "line"), [
    ("MemoryError", "MemoryError"),
    ("RecursionError('too deep')", "RecursionError: too deep"),
    ("AssertionError('a\\x1b')", "AssertionError: a?"),
])  # fmt: skip
def test_any_other_error_is_one_line_that_asks_for_a_report(
    raised: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"def failing(_): raise {raised}\nos.fsync = failing"
    said = f"error: hypar failed: {line}; please report it, with what HYPAR_TRACEBACK=1 prints\n"
    assert program(code) == (70, "", said)
    assert list(Path().iterdir()) == []
    monkeypatch.setenv("HYPAR_TRACEBACK", "1")
    status, _, text = program(code)
    assert status == 70
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith(said)


def test_the_line_of_an_interrupt_inside_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hypar.planning.planner.plan_model", interrupted)
    result = CliRunner().invoke(main, ["plan", "lenet-c"])
    assert (result.exit_code, result.stdout, result.stderr) == ONE_LINE


@crossed(
    {
        "stdout,reason": [
            (">/dev/full", "No space left on device"),
            (">&-", "Bad file descriptor"),
            ("| true", ""),
        ],
        "arguments": [
            "strategies",
            "plan --help",
            *(
                pytest.param(text, marks=pytest.mark.slow)
                for text in ("models", "models --json", "--help", "--version")
            ),
        ],
    }
)
def test_a_stdout_that_takes_no_more_is_one_line(arguments: str, stdout: str, reason: str) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full")
    command = f"{sys.executable} -m hypar {arguments} {stdout}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    # A closed pipe is silent: its reader has what it wants.
    line = f"error: standard output: cannot be written: {reason}\n" if reason else ""
    assert (done.returncode, done.stdout, done.stderr) == (3, "", line)


def test_a_full_or_closed_stderr_changes_no_answer() -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full")
    planned = "plan lenet-c --json -o p.json"
    for arguments, status in (
        ("plan nosuch 2>/dev/full", 3),
        (f"{planned} 2>/dev/full", 0),
        (f"{planned} 2>&-", 0),
    ):
        command = f"{sys.executable} -m hypar {arguments}"
        assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == status


def test_an_interrupt_of_a_joint_search_shows_and_writes_the_best_plan(folder: Path) -> None:
    """It is an interrupt all the same: one line on stderr besides what is written, and status 130."""
    code = f"""
sys.argv = [sys.argv[0], "plan", "resnet18", "--levels", "8", "--strategy", "optimal", "-o", "{folder}/p.json"]
from hypar.planning.searches import named
from hypar.reports import terminal
terminal.EVERY_S = 1e6
tell = named._tell
def interrupted(question, found):
    tell(question, found)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100): pass
named._tell = interrupted"""
    status, out, error = program(code)
    assert status == 130
    assert "not proven optimal, but the optimum is at most" in out
    assert "cut short by an interrupt" in " ".join(out.split())
    assert error == f"wrote {folder}/p.json\ninterrupted\n"
    assert [file.name for file in folder.iterdir()] == ["p.json"]
