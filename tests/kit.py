"""What tests of all kinds share: a command run in this process, a refusal of one line, an empty folder to be in."""

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from hypar.cli.main import main
from hypar.execution.verify import Checked, Verification
from hypar.planning.replay import ScoredStep
from hypar.studies.step import task_names

T = TypeVar("T")

FREE = (
    "arrays.*", "chunks", "chunks.asked", "convention", "cost.name", "cost.parameters.*", "files", "files.*", "graph", "limits",
    "limits.*", "model.batch", "model.name", "pins", "pins.*", "profile.name", "score", "score.convention", "score.hardware",
    "score.hardware_changes.*", "search", "solver", "space", "stages.array", "stages.asked_microbatches", "stages.balance",
    "stages.parts", "stages.schedule", "stages.solver", "strategy",
)  # fmt: skip
"""Fields of a plan file, ``*`` for any key, that ``hypar check`` follows, so that they may change without drift: the request."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, columns: int = 80) -> Result:
    """Run a command in this process; an exception that is no exit is raised."""
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": str(columns)}, prog_name="hypar")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def unlike(found: Verification) -> list[Checked]:
    """Return the transfers of which some level moved something else than was counted."""
    return [one for one in found.transfers if (one.counted != one.moved).any()]


def agrees(found: Verification) -> bool:
    """Return whether all numbers are those of one device, and every level moved what was counted."""
    return found.error_below is not None and not unlike(found)


def output(*arguments: str, columns: int = 80) -> str:
    result = run(*arguments, columns=columns)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def data(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


def known(value: T | None) -> T:
    assert value is not None
    return value


def names() -> list[str]:
    return sorted(str(file) for file in Path().rglob("*"))


def held() -> dict[str, bytes]:
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
    lanes = [lane.name for lane in ran.lanes]
    return task_names(ran.step, lanes, ran.plan.layers, staged=ran.stages is not None)
