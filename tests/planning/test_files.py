"""A plan records the files that it was planned with, so that it is checked and scored from any folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar.cli.main import main
from hypar.registry import data_file

NET = """
source: made up
batch: 8
layers:
  - {op: input, channels: 40}
  - {name: fc1, op: linear, out_features: 24}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network and a machine, each in a folder of its own."""
    for name in ("nets", "machines", "plans", "away"):
        (tmp_path / name).mkdir()
    (tmp_path / "nets" / "net.yaml").write_text(NET)
    shutil.copy(data_file("hardware", "hmc"), tmp_path / "machines" / "mine.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def planned(*arguments: str) -> dict[str, Any]:
    """The plan file of a command, read as JSON."""
    run("plan", *arguments, "--levels", "1", "-o", "plans/p.json")
    data: dict[str, Any] = json.loads(Path("plans/p.json").read_text())
    return data


def test_files_are_recorded_relative_to_the_plan() -> None:
    data = planned("nets/net.yaml", "--hardware", "machines/mine.yaml")
    assert data["files"] == {"model": "../nets/net.yaml", "hardware": "../machines/mine.yaml"}
    absolute = planned(str(Path("nets/net.yaml").absolute()), "--hardware", "hmc")
    assert absolute["files"] == {"model": "../nets/net.yaml"}


def test_such_a_plan_is_checked_and_scored_from_any_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned("nets/net.yaml", "--hardware", "machines/mine.yaml")
    for place, file in (("away", "../plans/p.json"), ("plans", "p.json"), (".", "plans/p.json")):
        monkeypatch.chdir(folder / place)
        assert run("check", file) == f"ok       {file}\n"
        assert "on mine: " in run("score", file)
    monkeypatch.chdir(folder)
    folder.joinpath("nets").rename(folder / "gone")
    result = CliRunner().invoke(main, ["check", "plans/p.json"])
    assert result.exit_code == 3
    assert (
        "no model 'net'; there is no '../nets/net.yaml' as it records; looked beside the plan, "
        in result.stderr
    )
    shutil.copy("gone/net.yaml", "plans/net.yaml")
    assert run("check", "plans/p.json") == "ok       plans/p.json\n"


@pytest.mark.parametrize(("kind", "name"), [("model", "lenet-c"), ("hardware", "hmc")])
def test_a_file_that_is_gone_is_not_one_of_the_same_name_that_hypar_brings(kind: str, name: str) -> None:
    folder = "models" if kind == "model" else kind
    file = Path("nets", f"{name}.yaml")
    shutil.copy(data_file(folder, name), file)
    planned(*([str(file)] if kind == "model" else ["nets/net.yaml", "--hardware", str(file)]))
    assert run("check", "plans/p.json") == "ok       plans/p.json\n"
    file.unlink()
    result = CliRunner().invoke(main, ["check", "plans/p.json"])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert f"there is no '../nets/{name}.yaml' as it records; looked beside the plan, " in result.stderr
    assert result.stderr.endswith(f"name its file with --{kind}\n")
    shutil.copy(data_file(folder, name), f"plans/{name}.yaml")
    assert run("check", "plans/p.json", f"--{kind}", f"plans/{name}.yaml") == "ok       plans/p.json\n"


def test_names_and_files_beside_the_plan_are_not_recorded() -> None:
    assert "files" not in planned("sfc", "--hardware", "hmc")
    shutil.copy("nets/net.yaml", "plans/net.yaml")
    assert "files" not in planned("plans/net.yaml")
    Path("plans/net.yaml").rename("plans/net.yml")
    assert "files" not in planned("plans/net.yml")
    assert planned("nets/net.yaml")["files"] == {"model": "../nets/net.yaml"}


def test_a_record_survives_an_update_and_is_no_drift() -> None:
    data = planned("nets/net.yaml")
    fresh = Path("plans/p.json").read_text()
    Path("plans/p.json").write_text(json.dumps({**data, "claim": "the best"}))
    run("check", "plans/p.json", "--update")
    assert Path("plans/p.json").read_text() == fresh
    run("plan", "nets/net.yaml", "--levels", "1", "-o", "other.json")
    assert json.loads(Path("other.json").read_text())["files"] == {"model": "nets/net.yaml"}
    assert run("diff", "plans/p.json", "other.json") == "the plans are equal\n"


def test_another_file_under_a_recorded_name_is_not_taken() -> None:
    """The name that was planned counts."""
    planned("nets/net.yaml")
    data = json.loads(Path("plans/p.json").read_text())
    shutil.copy("nets/net.yaml", "nets/other.yaml")
    for place in ("../nets/other.yaml", "a\0b", "x" * 300, "..", 3):
        Path("plans/p.json").write_text(json.dumps({**data, "files": {"model": place}}))
        result = CliRunner().invoke(main, ["check", "plans/p.json"])
        assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
