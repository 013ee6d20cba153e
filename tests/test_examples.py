"""Every example runs."""

import ast
import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypar.registry import data_file
from tests.kit import folder, run

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


# Notebooks: their cells in this process, and when there is time in a kernel, twice with equal outputs


FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
WORDS_OF_NOTEBOOKS = {
    "importer.ipynb": ("blocks.0.attention: attention", "out_ff", "True"),
    "researcher.ipynb": ("small-unet", "bottom2", "faster than dp", "plan.pdf"),
    "maintainer.ipynb": ("True", "(False, True, ", "fc2 H1: batch -> in_channels", "time a step",
        "ranker on hmc", "ranker.html"),
    "trainer.ipynb": ("gpt2 on a100-dgx", "megatron-sp", "4 GB:", "fits: True", "('out_ff',) ('in_ff',)"),
}  # fmt: skip
LONG = "importer", "trainer"
"""The notebooks that take many seconds: to import PyTorch, and to search for steps that fit."""

each = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
tried = pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.slow if file.stem in LONG else ()) for file in NOTEBOOKS],
    ids=lambda file: file.name,
)


def require(file: Path) -> None:
    pytest.importorskip("pandas")
    if file.stem == "importer":
        pytest.importorskip("torch", reason="PyTorch is an extra")


def cells(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return found


def run_cell(source: str, names: dict[str, Any]) -> list[str]:
    """Run a cell, and return its last expression's value in the forms that a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return []
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if hasattr(value, "_repr_svg_"):
        return [value.title]
    return [value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)]


@tried
def test_the_cells_of_a_notebook_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    shown = [
        text
        for cell in cells(file)
        if cell["cell_type"] == "code"
        for text in run_cell("".join(cell["source"]), names)
    ]
    text = re.sub(r"<[^>]+>", "", "\n".join([*shown, capsys.readouterr().out]))
    assert [words for words in WORDS_OF_NOTEBOOKS[file.name] if words not in text] == []


@each
def test_a_notebook_is_stored_without_outputs(file: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert len({cell["id"] for cell in notebook.cells}) == len(notebook.cells)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


# The examples of a workflow and a hook, in a repository as they expect it


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
