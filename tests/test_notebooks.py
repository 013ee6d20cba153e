"""Every notebook runs: its cells in this process, and when there is time in a kernel, twice with equal outputs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
WORDS = {
    "importer.ipynb": ("blocks.0.attention: attention", "out_ff", "True"),
    "researcher.ipynb": ("small-unet", "bottom2", "faster than dp", "plan.pdf"),
    "maintainer.ipynb": (
        "True",
        "(False, True, ",
        "fc2 H1: batch -> in_channels",
        "time a step",
        "ranker on hmc",
        "ranker.html",
    ),
}
IMPORTED = pytest.mark.slow
"""The notebook that imports PyTorch, which takes seconds."""

each = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
run = pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=IMPORTED if file.stem == "importer" else ()) for file in NOTEBOOKS],
    ids=lambda file: file.name,
)


def require(file: Path) -> None:
    """Skip a notebook whose packages are not installed."""
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


@run
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
    assert [words for words in WORDS[file.name] if words not in text] == []


@each
def test_a_notebook_is_stored_without_outputs(file: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert len({cell["id"] for cell in notebook.cells}) == len(notebook.cells)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


@each
@pytest.mark.slow
def test_a_notebook_runs_in_a_kernel_twice_alike(file: Path, tmp_path: Path) -> None:
    require(file)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    runs = []
    for _ in range(2):
        notebook = nbformat.read(file, as_version=4)
        nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
        runs.append([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    assert runs[0] == runs[1]
    assert not [outputs for outputs in runs[0] if len(outputs) > 1], "a result is shown once"
    kinds = {kind for outputs in runs[0] for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/svg+xml", "text/plain"} <= kinds
    assert not [output for outputs in runs[0] for output in outputs if output.get("name") == "stderr"]
