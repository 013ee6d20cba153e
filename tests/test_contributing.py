"""The toys of docs/contributing.md work, each as a plug-in that another package brings."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hypar
from hypar import registry
from hypar.solve.solvers.base import cheapest, load_solver
from tests.kit import known
from tests.problems import random_problem
from tests.solvers import EXHAUSTIVE

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(
    r"^```python\n# src/hypar/(?:\w+/)*?(\w+)/(\w+)\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
FILES = dict(re.findall(r"^```yaml title=\"(\S+)\"\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
MACHINES = {name: text for name, text in FILES.items() if "\ndevice:" in text}
MODELS = {name: text for name, text in FILES.items() if name not in MACHINES}


KINDS = {"families": "ops"}
"""The groups of plug-ins whose folders have another name."""


def forget() -> None:
    for cached in (registry.plugin_names, registry.load_plugin, cheapest):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each block as a module that an entry point names."""
    points = []
    for group, name, text in BLOCKS:
        module = ModuleType(f"toy_{group}_{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, module.__name__, "exec", dont_inherit=True), module.__dict__)
        if hasattr(module, "plugins"):
            monkeypatch.setattr(module, "plugin", module.plugins[name], raising=False)
        points.append(EntryPoint(name, f"{module.__name__}:plugin", f"hypar.{KINDS.get(group, group)}"))

    def entry_points(group: str) -> EntryPoints:
        return EntryPoints(points).select(group=f"hypar.{group}")

    monkeypatch.setattr(registry, "entry_points", entry_points)
    forget()
    yield
    monkeypatch.undo()
    forget()


def test_the_page_has_a_toy_of_each_kind() -> None:
    groups = ["families", "solvers", "costs", "strategies", "topologies", "compute_models"]
    assert [group for group, _, _ in BLOCKS] == groups
    for group, name, text in BLOCKS:
        assert name in registry.plugin_names(KINDS.get(group, group))
        assert re.search(r"^plugins?: ", text, re.MULTILINE)
    assert len(MODELS) == len(MACHINES) == 1


MIXED = """
source: a test
batch: 8
layers:
  - {op: input, channels: 6, height: 4, width: 4}
  - {name: mix, op: mix, out_channels: 10}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 2}
"""


def test_the_toy_op_plans(tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED, encoding="utf-8")
    graph = hypar.load_model(file)
    assert graph.num_parameters == 6 * 10 + (160 + 1) * 2
    assert graph.macs() == 6 * 10 * 4 * 4 + 160 * 2
    plan = hypar.plan_model(graph, levels=1, pins=["mix=batch", "fc=batch"])
    assert plan.cost.value == 2 * 4 * (6 * 10 + 160 * 2)
    assert hypar.plan_model(graph, levels=2, space="all").cost.value <= 3 * plan.cost.value


@pytest.mark.parametrize("dim", ["batch", "in_channels", "out_channels"])
def test_the_toy_op_computes_the_right_numbers(dim: str, tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    file.write_text(MIXED, encoding="utf-8")
    found = hypar.verify_plan(hypar.plan_model(file, levels=2, space="all", pins=[f"mix={dim}"]))
    assert found.ok
    assert "mix.weight" in known(found.numbers).errors


def test_the_toy_solver_equals_exhaustive() -> None:
    generator = np.random.default_rng(0)
    for pairs in ([(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (1, 3), (2, 3)], []):
        problem = random_problem(generator, [2, 3, 1, 4], pairs, 9)
        assert load_solver("product").solve(problem) == EXHAUSTIVE.solve(problem)
    assert hypar.plan_model("lenet-c", levels=2, solver="product").claim.startswith("greedy: each level")


def test_the_toy_solver_refuses_what_is_too_large() -> None:
    problem = random_problem(np.random.default_rng(0), [2] * 36, [], 9)
    with pytest.raises(hypar.HyparError, match=f"{36 * 2**36:,} entries"):
        load_solver("product").solve(problem)


def test_the_table_of_changes_names_files_that_there_are() -> None:
    rows = re.findall(r"^\| (an? .*?) \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 11
    for change, files in rows:
        paths = re.findall(r"`([^`]+)`", files)
        assert len(paths) > 1
        for path in paths:
            assert any(ROOT.glob(re.sub(r"<\w+>", "[a-z]*", path))), f"{change}: {path}"


def test_the_toy_cost_plans_lenet() -> None:
    baseline = hypar.plan_model("lenet-c", strategy="dp", cost="messages")
    assert (baseline.cost.value, baseline.cost.unit) == (4 * (1 + 2 + 4 + 8), "messages")
    assert hypar.plan_model("lenet-c", strategy="mp", cost="messages").cost.value == (4 + 3) * (1 + 2 + 4 + 8)
    assert hypar.plan_model("lenet-c", strategy="accpar", cost="messages").cost.value == baseline.cost.value


def test_the_toy_strategy_plans_lenet() -> None:
    plan = hypar.plan_model("lenet-c", strategy="columns")
    assert {dim for layer in plan.layers for dim in plan.dims(layer)} <= {"batch", "out_channels"}
    assert plan.claim.startswith("optimal, all levels jointly, over (batch,out_channels)")
    assert "columns" in [row.name for row in hypar.compare_strategies("lenet-c", levels=1)]


@pytest.mark.parametrize("name", MODELS)
def test_the_toy_model_plans(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(MODELS[name], encoding="utf-8")
    graph = hypar.load_model(tmp_path / name)
    assert graph.num_parameters == 784 * 128 + 128 + 128 * 10 + 10
    assert hypar.plan_model(graph, levels=2).model.name == "perceptron"


@pytest.mark.parametrize("name", MACHINES)
def test_the_toy_machine_scores_a_plan(name: str, tmp_path: Path) -> None:
    """On the toy topology with the toy compute model: a line of four devices of 64 lanes."""
    (tmp_path / name).write_text(MACHINES[name], encoding="utf-8")
    machine = hypar.load_machine(tmp_path / name, {"unweighted": "free"})
    outer, inner = machine.links((2, 2))
    # Two devices of a part send over the one link in the middle.
    assert outer.lines["all_reduce"][-1].seconds_per_byte == pytest.approx(1e-9)
    assert inner.lines["all_reduce"][-1].seconds_per_byte == pytest.approx(1e-9)
    assert (outer.hops, inner.hops) == (2, 1)
    graph = hypar.load_model("lenet-c", batch=64)
    plan = hypar.plan_model(graph, levels=2, strategy="dp", hardware=machine)
    assert plan.score is not None
    assert plan.score.hardware == "vectors"
    assert plan.score.time["forward"] == pytest.approx(16 * graph.macs() / 64 / 1e9)
