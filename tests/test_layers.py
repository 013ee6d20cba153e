"""Data flows one way: a module imports only from lower floors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hypar

SOURCE = Path(hypar.__file__).parent
FLOORS = {
    **dict.fromkeys(["balance", "edge", "errors", "interrupts", "quoting", "targets"], 0),
    **dict.fromkeys(
        ["chunks", "files", "partition", "problem", "registry", "timeline", "units", "validation", "words"], 1
    ),
    **dict.fromkeys(["csv_files", "documents", "json_files", "quantities", "reduction"], 2),
    **dict.fromkeys(["ops", "overlap_table", "plots", "profiles", "solvers", "terminal", "topologies"], 3),
    **dict.fromkeys(["compute_models", "spec"], 4),
    **dict.fromkeys(["graph", "hardware"], 5),
    **dict.fromkeys(["gradients", "pipelines", "placement", "routes", "starts"], 6),
    **dict.fromkeys(["pieces", "pins", "space", "tiles", "traffic"], 7),
    **dict.fromkeys(["bench", "levels", "regrids", "strategies", "transfers"], 8),
    "forks": 9,
    **dict.fromkeys(["exchange", "schedule"], 10),
    **dict.fromkeys(["durations", "stages", "step_times", "tally"], 11),
    **dict.fromkeys(["costs", "refinement", "score", "stage_costs"], 12),
    **dict.fromkeys(["chunking", "forking", "pipeline_runs", "searches", "splits"], 13),
    "plan": 14,
    **dict.fromkeys(["canonical", "origin", "recipe", "reports"], 15),
    **dict.fromkeys(["baselines", "branches", "diff", "staging"], 16),
    **dict.fromkeys(["overlaps", "pipelining", "planner", "profiling"], 17),
    **dict.fromkeys(
        ["check", "comparison", "evaluation", "explanations", "exploration", "remarks", "scoring", "sweeps"],
        18,
    ),
    **dict.fromkeys(["listings", "reproductions"], 19),
    "cli": 20,
}
PLUGIN_FOLDERS = {
    "cli",
    "compute_models",
    "costs",
    "ops",
    "reports",
    "reproductions",
    "searches",
    "solvers",
    "strategies",
    "topologies",
}
FILES = [
    file for file in sorted(SOURCE.rglob("*.py")) if file.parent != SOURCE or not file.stem.startswith("__")
]


def imported(file: Path) -> set[tuple[str, ...]]:
    """The hypar modules that a file names in its imports, those for type checkers included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found.add(node.module or "")
    return {tuple(name.split(".")[1:]) for name in found if name.startswith("hypar.")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_down(file: Path) -> None:
    unit = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    for target in imported(file):
        if target[0] != unit:
            assert FLOORS[target[0]] < FLOORS[unit], f"{unit} imports {'.'.join(target)}"
        elif unit in PLUGIN_FOLDERS:
            in_folder = len(target) > 2 and (SOURCE / unit / target[1]).is_dir()
            assert in_folder or target[1:] == ("base",), f"{file.name} imports its sibling {'.'.join(target)}"


def test_every_unit_has_a_floor() -> None:
    assert {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in FILES} == set(FLOORS)
