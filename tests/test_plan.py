from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hypar import check_plan, diff_plans, plan_model, read_plan
from hypar.errors import DocumentError, PlanError
from hypar.files import write_text
from hypar.registry import plugin_names

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("strategy", plugin_names("strategies"))
def test_a_plan_reads_back_as_itself(tmp_path: Path, strategy: str) -> None:
    plan = plan_model("lenet-c", levels=2, strategy=strategy, hardware="hmc")
    plan.write(tmp_path / "plan.json")
    again = read_plan(tmp_path / "plan.json")
    assert again == plan
    assert again.to_json() == plan.to_json()


def test_a_plan_is_a_table_in_a_terminal_and_a_grid_in_a_notebook() -> None:
    plan = plan_model("lenet-c", levels=2, inter_weight=0.5)
    assert repr(plan) == str(plan) == plan.render("table")
    assert "amounts between layers weigh 0.5" in str(plan)
    html = plan._repr_html_()
    assert html == plan.render("html")
    assert html.count("background:") == len(plan.layers) * len(plan.array)
    assert "| fc1 | mp | mp |" in plan.render("markdown")


def test_names_in_a_grid_are_escaped() -> None:
    plan = plan_model("sfc", levels=1)
    odd = plan.model_copy(update={"model": plan.model.model_copy(update={"name": "<b>"})})
    assert "&lt;b&gt;" in odd.render("html")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    file.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", fail)
    with pytest.raises(DocumentError, match="No space left"):
        write_text(file, "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("plan.json", "old")]


def test_a_difference_names_layers_that_only_one_plan_has(tmp_path: Path) -> None:
    changes = [str(change) for change in diff_plans(plan_model("lenet-c"), plan_model("sfc"))]
    assert "conv1 layer: planned -> not in the model" in changes
    assert "fc3 layer: not in the plan -> in the model" in changes


def test_plans_of_different_costs_are_not_compared() -> None:
    plan = plan_model("sfc", levels=1)
    other = plan.model_copy(update={"cost": plan.cost.model_copy(update={"name": "time"})})
    with pytest.raises(PlanError, match="cost: the plans differ"):
        diff_plans(plan, other)


NET = """
source: made up
batch: 8
layers:
  - {op: input, channels: 4, height: 4, width: 4}
  - {name: a, op: conv, out_channels: 4, kernel: 1}
  - {name: b, op: conv, out_channels: 4, kernel: 1}
"""


def test_a_chain_that_becomes_a_graph_is_still_checked(tmp_path: Path) -> None:
    """The recorded solver no longer suits it; the difference is shown all the same."""
    model = tmp_path / "net.yml"
    model.write_text(NET + "  - {name: c, op: conv, out_channels: 4, kernel: 1}\n")
    plan = plan_model(model, levels=1)
    plan.write(tmp_path / "plan.json")
    assert plan.solver == "chain"
    assert check_plan(tmp_path / "plan.json").ok
    model.write_text(NET + "  - {name: c, op: add, inputs: [a, b]}\n")
    verdict = check_plan(tmp_path / "plan.json")
    assert verdict.model_changed
    assert verdict.fresh.solver in {"exhaustive", "elimination"}
    assert any(change.layer == "c" for change in verdict.changes)


def test_a_claim_edited_by_hand_is_found_out(tmp_path: Path) -> None:
    plan = plan_model("sfc", levels=1)
    plan.model_copy(update={"claim": "optimal"}).write(tmp_path / "plan.json")
    (change,) = check_plan(tmp_path / "plan.json").changes
    assert str(change).startswith("plan claim: optimal -> greedy")
