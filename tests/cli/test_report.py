"""``hypar report`` writes one page, and says in one line what prevents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hypar.cli.main import main
from hypar.planning.planner import plan_model
from tests.cli.test_start_up import imported
from tests.reports.documents import parse_page, words_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.plan.json"
    plan_model("lenet-c", levels=2).write(file)
    return file


def test_a_page_goes_to_a_file_or_to_stdout(plan: Path) -> None:
    written = CliRunner().invoke(main, ["report", plan.name, "-o", "plan.html"])
    assert (written.exit_code, written.stdout, written.stderr) == (0, "", "wrote plan.html\n")
    text = (plan.parent / "plan.html").read_text(encoding="utf-8")
    assert "hypar plan lenet-c --levels 2 -o small.plan.json" in words_of(parse_page(text))
    for asked in (["-o", "-"], []):
        printed = CliRunner().invoke(main, ["report", plan.name, *asked])
        assert (printed.exit_code, printed.stdout) == (0, text)
    assert sorted(file.name for file in plan.parent.iterdir()) == ["plan.html", "small.plan.json"]


def test_a_plan_is_reported_on_a_machine_that_is_named(plan: Path) -> None:
    result = CliRunner().invoke(main, ["report", plan.name, "--hardware", "hmc", "--set", "duplex=half"])
    assert result.exit_code == 0
    text = words_of(parse_page(result.stdout))
    assert "lenet-c on hmc duplex=half, 4 devices" in text
    assert "With changes: on hmc duplex=half. The plan itself names no machine." in " ".join(text.split())
    assert "hypar report small.plan.json --hardware hmc --set duplex=half -o plan.html" in text


def test_a_machine_other_than_the_plans_is_said(plan: Path) -> None:
    plan_model("lenet-c", levels=2, hardware="hmc").write(plan)
    result = CliRunner().invoke(main, ["report", plan.name, "--hardware", "tpu-v3"])
    assert "The plan itself was scored on hmc." in words_of(parse_page(result.stdout))


def test_no_other_command_imports_the_page() -> None:
    assert not [
        name
        for name in imported("plan", "lenet-c", "--levels", "2")
        if name.startswith("hypar.reports.sections")
    ]
