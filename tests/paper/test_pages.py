"""Pages of papers: each is what its script and its rows give, and each row holds, or misses for the reason it states."""

import ast
from pathlib import Path

import kit
import pytest

import hypar

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reproductions"
SCRIPTS = ROOT / "examples" / "papers"
SLOW = {"accpar", "deepa", "hypar"}
"""Pages that take the most seconds."""

PAPERS = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in kit.papers()]


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_and_its_figures_are_current(name: str, update_golden: bool) -> None:
    if update_golden:
        kit.page(name).write(DOCS)
    written = {file: (DOCS / file).read_text(encoding="utf-8") for file in kit.page(name).files()}
    assert written == kit.page(name).files(), "pytest --update-golden rewrites them"
    drawn = {f"{name}/{file.name}" for file in (DOCS / name).iterdir()}
    assert drawn == {*written} - {f"{name}.md"}


@pytest.mark.parametrize("name", PAPERS)
def test_rows_hold_and_missed_rows_do_not(name: str) -> None:
    rows = [row for section in kit.page(name).sections for row in section.rows()]
    assert [row for row in rows if row.holds == bool(row.missed)] == []


@pytest.mark.parametrize("file", sorted(SCRIPTS.glob("*.py")), ids=lambda file: file.stem)
def test_scripts_use_the_public_names_alone(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in imports if (node.module or "").startswith("hypar")]
    named = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hypar"
    ]
    assert {*named} <= {*hypar.__all__}
