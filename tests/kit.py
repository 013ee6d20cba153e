"""What tests of all kinds share: a command run in this process, a refusal of one line, an empty folder to be in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hypar.cli.main import main
from hypar.studies.step import task_names

if TYPE_CHECKING:
    from click.testing import Result

    from hypar.planning.replay import ScoredStep

FREE = (
    "arrays.*", "chunks", "chunks.asked", "convention", "cost.name", "cost.parameters.*", "files", "files.*", "graph", "limits",
    "limits.*", "model.batch", "model.name", "pins", "pins.*", "profile.name", "score", "score.convention", "score.hardware",
    "score.hardware_changes.*", "search", "solver", "space", "stages.array", "stages.asked_microbatches", "stages.balance",
    "stages.parts", "stages.schedule", "stages.solver", "strategy",
)  # fmt: skip
"""Fields of a plan file, ``*`` for any key, that ``hypar check`` follows, so that they may change without drift: the request."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    """Run a command in this process; an exception that is no exit is raised."""
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def output(*arguments: str) -> str:
    """Return what a command prints that succeeds."""
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def held() -> dict[str, bytes]:
    """Return every file below the folder to be in."""
    return {str(file): file.read_bytes() for file in sorted(Path().rglob("*")) if file.is_file()}


def refused(*arguments: str, status: int = 3) -> str:
    """Run a command that exits with a status, prints nothing and changes no file; return what it says in one line."""
    before = held()
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert held() == before
    return one_line(result.stderr)


def one_line(stderr: str) -> str:
    """Return the one line of an error, without its beginning."""
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert len(stderr) < 1000
    return stderr.removeprefix("error: ").rstrip("\n")


def names_of(ran: ScoredStep) -> tuple[str, ...]:
    """Return the name of each task of a step that was run."""
    lanes = [lane.name for lane in ran.lanes]
    return task_names(ran.step, lanes, ran.plan.layers, staged=ran.stages is not None)
