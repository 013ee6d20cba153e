"""The examples of a workflow and a hook do what they say, in a repository as they expect it."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypar import plan_model
from hypar.registry import data_file
from tests.kit import folder, run

ROOT = Path(__file__).parents[1]
CI = ROOT / "examples" / "ci"

__all__ = ["folder"]


def read(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((CI / name).read_text(encoding="utf-8"))
    return found


def commands() -> dict[str, str]:
    """The command of the workflow's last step, and that of the hook."""
    (job,) = read("hypar-check.yml")["jobs"].values()
    ((hook,),) = (each["hooks"] for each in read(".pre-commit-config.yaml")["repos"])
    return {"workflow": job["steps"][-1]["run"], "hook": hook["entry"]}


@pytest.mark.parametrize("name", ["workflow", "hook"])
def test_the_command_holds_a_repository_to_its_plans(name: str, folder: Path) -> None:
    program, *arguments = shlex.split(commands()[name])
    assert program == "hypar"
    for kind, own in (("models", "lenet-c"), ("hardware", "hmc")):
        (folder / kind).mkdir()
        shutil.copy(data_file(kind, own), folder / kind / "own.yaml")
    (folder / "plans").mkdir()
    file = folder / "plans" / "own.json"
    assert run("plan", "models/own.yaml", "--hardware", "hardware/own.yaml", "-o", str(file)).exit_code == 0
    assert run(*arguments).exit_code == 0
    stored = json.loads(file.read_text())
    file.write_text(
        json.dumps(stored | {"cost": stored["cost"] | {"value": stored["cost"]["value"] * (1 + 1e-8)}})
    )
    assert run(*arguments).exit_code == 0
    model = folder / "models" / "own.yaml"
    model.write_text(model.read_text().replace("out_features: 500", "out_features: 600"))
    drifted = run(*arguments)
    assert drifted.exit_code == 1
    assert "model 'own' is not what was planned" in drifted.stdout
    model.unlink()
    assert run(*arguments).exit_code == 3


def test_a_shipped_model_never_stands_in_for_a_recorded_file_that_is_gone(folder: Path) -> None:
    (folder / "nets").mkdir()
    model = folder / "nets" / "lenet-c.yaml"
    shutil.copy(data_file("models", "lenet-c"), model)
    (folder / "plans").mkdir()
    plan = plan_model(model, levels=1)
    assert run("plan", "nets/lenet-c.yaml", "--levels", "1", "-o", "plans/p.json").exit_code == 0
    assert json.loads((folder / "plans" / "p.json").read_text())["cost"]["value"] == plan.cost.value
    model.unlink()
    result = run("check", "plans")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "there is no '../nets/lenet-c.yaml' as it records" in result.stderr


def test_both_files_say_when_they_run_and_install_what_is_built_here() -> None:
    workflow, hook = read("hypar-check.yml"), read(".pre-commit-config.yaml")
    paths = workflow[True]["pull_request"]["paths"]  # YAML 1.1 reads "on" as true
    assert paths == ["models/**", "hardware/**", "plans/**"]
    (job,) = workflow["jobs"].values()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert job["steps"][-2]["run"].startswith(f'pip install "{project["name"]} @ git+')
    own = hook["repos"][0]["hooks"][0]
    assert (own["language"], own["pass_filenames"], own["files"]) == (
        "system",
        False,
        "^(models|hardware|plans)/",
    )
