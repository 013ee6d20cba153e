"""Comparisons, sweeps, explorations, reports: every row counted by one convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import (
    compare_strategies,
    load_model,
    plan_model,
    score_plan,
)
from hypar.planning.planner import plan_command
from hypar.planning.sources import machine_of
from hypar.reports.report import compared, read_reported
from hypar.sharding.conventions import BY_LEVELS, MOVED, PAPER
from tests.staged import pipeline

if TYPE_CHECKING:
    from pathlib import Path

STRATEGIES = ("dp", "mp", "hypar", "accpar", "optimal")


@pytest.mark.parametrize("convention", [None, *BY_LEVELS])
def test_a_comparison_counts_every_row_by_one_convention(convention: str | None) -> None:
    graph = load_model("lenet-c")
    rows = compare_strategies(graph, strategies=STRATEGIES, levels=3, hardware="hmc", convention=convention)
    counted = convention or MOVED
    assert rows.convention == counted
    for row in rows:
        assert row.plan is not None
        assert row.plan.score is not None
        own = PAPER if row.name in {"hypar", "accpar"} else counted
        assert (row.plan.convention or PAPER) == own
        assert (row.plan.score.convention or PAPER) == counted
        assert row.plan.score.communication_bytes == pytest.approx(row.cost)
        assert row.plan.score == score_plan(row.plan, convention=counted)


def test_pipelines_are_counted_as_plans_in_stages_are() -> None:
    """By ``paper`` a tensor that two layers of a stage read arrives once; otherwise each of them gets it."""
    asked: dict[str, Any] = {"batch": 8, "stages": 8, "hardware": "hmc", "schedule": "1f1b"}
    sent = {}
    for convention in (None, "paper", "moved", "fused"):
        plan = pipeline("resnet18", convention=convention, **asked)
        assert plan == plan_model("resnet18", levels=0, convention=convention, **asked)
        assert plan.score is not None
        sent[convention] = plan.score.communication["stages"]
    assert sent["paper"] < sent["moved"] == sent["fused"] == sent[None]


def test_a_report_counts_all_by_the_convention_of_its_step(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan_model("lenet-c", levels=2, hardware="hmc").write(file)
    for asked in (None, *BY_LEVELS):
        found = read_reported(file, convention=asked)
        assert found.plan.score is not None
        counted = asked or MOVED
        assert (found.plan.score.convention or PAPER) == counted
        scores = [row.plan.score for row in compared(found) if row.plan]
        assert {score.convention or PAPER for score in scores if score} == {counted}
        assert (f"--convention {counted}" in found.commands[1]) == (asked is not None)
    plan_model("lenet-c", levels=2).write(file)
    costs = [row.cost for row in compared(read_reported(file))]
    assert costs == [row.cost for row in compare_strategies("lenet-c", levels=2)]


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({}, ""),
        ({"strategy": "optimal"}, ""),
        ({"convention": "moved"}, " --convention moved"),
        ({"convention": "fused"}, " --convention fused"),
        ({"convention": "paper", "strategy": "optimal"}, " --convention paper"),
        ({"convention": "paper", "hardware": "hmc"}, " --convention paper"),
        ({"strategy": "deepa", "hardware": "p100-4x4"}, ""),
        ({"cost": "time", "hardware": "hmc"}, ""),
        ({"cost": "time", "hardware": "hmc", "convention": "paper"}, " --convention paper"),
        (
            {"cost": "time", "hardware": "hmc", "strategy": "hypar", "convention": "fused"},
            " --convention fused",
        ),
    ],
)
def test_the_command_of_a_report_names_the_convention_where_it_is_another(asked: Any, option: str) -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, array=[4], **asked)
    command = plan_command(plan, "p.json", graph, machine_of(plan))
    assert ("--convention" in command) == bool(option)
    assert option in command


def test_the_command_names_the_strategy_whose_paper_counts_the_cost() -> None:
    graph = load_model("lenet-c")
    asked: dict[str, Any] = {"levels": 2, "cost": "time", "hardware": "hmc"}
    named, unnamed = plan_model(graph, strategy="hypar", **asked), plan_model(graph, **asked)
    assert (named.convention, unnamed.convention) == ("paper", "moved")
    assert "--strategy hypar" in plan_command(named, "p.json", graph, machine_of(named))
    for plan in (named, unnamed):
        command = plan_command(plan, "p.json", graph, machine_of(plan))
        assert "--convention" not in command
        assert ("--strategy" in command) == (plan is named)
