"""Data flows one way: a package imports only from lower floors, and inside a package a folder from folders below it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import hypar
from hypar.registry import GROUPS

SOURCE = Path(hypar.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "contributing.md"
ROWS = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
FLOOR = {room: int(number) for number, room, _ in ROWS}
"""The floor of each package and module; ``__init__`` and ``__main__`` stand above all."""

MAY_IMPORT = {room: {*others.split(", ")} - {"-"} for _, room, others in ROWS}
"""The packages that each package may import."""

INSIDE = {
    "files": "validation text yaml_file",
    "solve": "limits edge cost_graph partition balance order minsum solvers counts",
    "ops": "windows dims nest tape run base families",
    "network": "layer training modelfile expand nodes graph",
    "importers": "trace atoms layers sequences rules experts fusion writing imported formats torch_module onnx_file jax_function config_file",
    "sharding": "dims conventions placement space amounts tree layout",
    "machine": "spatial collectives schema compute_models topologies links work machine setting load profiles",
    "plan": "records request plan diff",
    "schedule": "timeline pieces record pipeline_orders lanes tasks lifetimes memory stages scoring",
    "planning": "strategies pins sources resolved refusals question searches records uneven chunks folding fastest engine stages planner replay",
    "program": "holding steps layouts fragments lowering",
    "execution": "exchange simulator verify",
    "studies": "step shrink pieces verify remarks grid alternatives",
    "reports": "words text plots exports terminal steps renderers of report",
}
"""Folders and modules of the large packages, the lowest first; those not named import none of the package's others."""

PLUGIN_FOLDERS = {*GROUPS.values(), "cli/commands"}
FILES = sorted(SOURCE.rglob("*.py"))


def place(file: Path) -> tuple[str, ...]:
    return (*file.relative_to(SOURCE).parent.parts, file.stem)


MODULES = {place(file) for file in FILES}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements inside a node; expressions, which are most of a tree, are not looked into."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


@cache
def imports(file: Path) -> list[tuple[str, ...]]:
    """The hypar modules that a file names in its imports, those for type checkers and inside functions included."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: list[tuple[str, ...]] = []
    for node in statements(tree):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            module = tuple((node.module or "").split("."))
            both = [(*module, alias.name) for alias in node.names]
            names = [name if name[1:] in MODULES else module for name in both]
        found += [name[1:] for name in names if name[0] == "hypar" and name[1:]]
    return found


def roomed(files: list[Path]) -> list[Path]:
    return [file for file in files if place(file)[0] in FLOOR]


@pytest.mark.parametrize("room", sorted(FLOOR))
def test_imports_go_down(room: str) -> None:
    files = [file for file in roomed(FILES) if place(file)[0] == room]
    assert files
    for file in files:
        require_downward(file)


def require_downward(file: Path) -> None:
    """Check that a file imports from lower floors, lower folders and no plug-in beside it."""
    room, *inside = place(file)
    for target in imports(file):
        if target[0] not in FLOOR:
            continue
        if target[0] != room:
            assert target[0] in MAY_IMPORT[room], f"{file} imports {'.'.join(target)}"
        elif inside[0] != target[1] and room in INSIDE:
            order = INSIDE[room].split()
            if target[1] in order:
                low, high = target[1], inside[0]
                assert high not in order or order.index(low) < order.index(high), f"{file} imports {low}"
    folder = "/".join(place(file)[:-1])
    if folder in PLUGIN_FOLDERS:
        siblings = [target for target in imports(file) if "/".join(target[:-1]) == folder]
        assert all(target[-1] == "base" for target in siblings), f"{file} imports its sibling {siblings}"


def test_every_floor_imports_lower_floors_alone() -> None:
    assert {*FLOOR} == {place(file)[0] for file in FILES} - {"__init__", "__main__"}
    for room, others in MAY_IMPORT.items():
        assert all(FLOOR[other] < FLOOR[room] for other in others), room


def test_packages_hand_nothing_on() -> None:
    for file in roomed(FILES):
        if file.name == "__init__.py":
            assert not imports(file), f"{file} imports"


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_there_is_no_circle(depth: int) -> None:
    graph: nx.DiGraph[tuple[str, ...]] = nx.DiGraph()
    for file in roomed(FILES):
        here = place(file)[:depth]
        graph.add_edges_from((here, target[:depth]) for target in imports(file) if target[:depth] != here)
    assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)
