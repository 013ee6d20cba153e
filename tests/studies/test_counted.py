"""By which convention plans, scores and the rows of comparisons, sweeps, explorations and reports are counted."""

from pathlib import Path
from typing import Any

import pytest

from hypar import (
    Plan,
    compare_strategies,
    explore_model,
    load_machine,
    load_model,
    plan_model,
    score_plan,
    sweep_model,
)
from hypar.errors import HyparError
from hypar.planning.resolved import cost_convention, score_convention
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.reports.report import compared, read_reported
from hypar.sharding.conventions import BY_LEVELS, MOVED, PAPER
from hypar.studies.grid import costs_of
from tests.benches import lenet_profile
from tests.kit import known, output
from tests.prose import unbroken

OF_PAPERS = {"hypar", "accpar", "deepa"}
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


def test_a_report_counts_all_by_the_convention_of_its_step(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan_model("lenet-c", levels=2, hardware="hmc").write(file)
    for asked in (None, *BY_LEVELS):
        found = read_reported(file, convention=asked)
        counted = asked or MOVED
        assert (known(found.plan.score).convention or PAPER) == counted
        scores = [row.plan.score for row in compared(found) if row.plan]
        assert {score.convention or PAPER for score in scores if score} == {counted}
        assert (f"--convention {counted}" in found.commands[1]) == (asked is not None)
    plan_model("lenet-c", levels=2).write(file)
    costs = [row.cost for row in compared(read_reported(file))]
    assert costs == [row.cost for row in compare_strategies("lenet-c", levels=2)]


# The cost by which rows are planned


STRATEGIES_OF_COMPARISON = ("dp", "hypar", "accpar", "deepa")


def test_without_a_cost_each_strategy_keeps_its_own() -> None:
    asked: dict[str, Any] = {"levels": 2, "hardware": "hmc"}
    for row in compare_strategies("lenet-c", strategies=STRATEGIES_OF_COMPARISON, **asked):
        assert known(row.plan).cost.name == load_strategy(row.name).cost
    runs = sweep_model("lenet-c", strategy=STRATEGIES_OF_COMPARISON, **asked)
    assert not runs.asked
    assert "cost" not in runs.document().records()[0]


def test_the_output_names_the_cost() -> None:
    asked = ("compare", "lenet-c", "--levels", "2", "--hardware", "hmc", "--strategy", "hypar")
    assert "hypar, dp planned by time" in unbroken(output(*asked, "--cost", "time"))
    assert "deepa planned by deepa; hypar, dp planned by volume" in unbroken(
        output(*asked, "--strategy", "deepa")
    )
    assert "planned by" not in unbroken(output(*asked))
    swept = ("sweep", "lenet-c", "--levels", "2", "--hardware", "hmc")
    assert "levels 2, cost time" in unbroken(output(*swept, "--cost", "time"))
    assert "cost" not in unbroken(output(*swept))


def test_measured_times_are_for_the_rows_whose_cost_has_them() -> None:
    profile = lenet_profile()
    asked: dict[str, Any] = {"array": (4,), "batch": 32, "hardware": "h100-8x"}
    dp, deepa = compare_strategies("lenet-c", strategies="deepa", profile=profile, **asked)
    assert dp.plan is not None
    assert dp.plan.splits == plan_model("lenet-c", strategy="dp", **asked).splits
    assert (
        known(deepa.plan).splits == plan_model("lenet-c", strategy="deepa", profile=profile, **asked).splits
    )
    rows = compare_strategies("lenet-c", strategies="deepa", profile=profile, cost="deepa", **asked)
    assert all(row.plan is not None and row.plan.profile is not None for row in rows)
    found = explore_model("lenet-c", vary="fc1", strategy="deepa", profile=profile, mode="serial", **asked)
    assert found.baseline.totals == dp.plan.score


@pytest.mark.parametrize("convention", ["moved", "fused"])
def test_the_costs_of_stages_are_counted_by_the_convention_of_all_rows(convention: str) -> None:
    graph = load_model("alexnet", batch=32)
    own = plan_model(graph, levels=2, stages=4, hardware="hmc", space="all", convention=convention)
    stored = own.model_copy(update={"convention": None})
    found = costs_of(stored, graph, convention, load_machine("hmc"))
    assert found == tuple(split.cost for split in own.splits)
    assert costs_of(own, graph, "paper", load_machine("hmc")) != found


def test_an_unknown_argument_is_one_line() -> None:
    with pytest.raises(
        HyparError, match=r"^compare_strategies: no argument 'spaces'; .*; did you mean 'space'\?$"
    ):
        compare_strategies("lenet-c", spaces="all")


# The convention of a plan and of its score


def recorded(plan: Plan) -> tuple[str | None, str | None]:
    return plan.convention, None if plan.score is None else known(plan.score).convention


@pytest.mark.parametrize("strategy", sorted({*plugin_names("strategies")} - {"deepa"}))
def test_strategies_of_papers_count_as_the_paper_and_all_scores_what_moves(strategy: str) -> None:
    plan = plan_model("lenet-c", levels=2, strategy=strategy, hardware="hmc")
    assert recorded(plan) == ("paper" if strategy in OF_PAPERS else "moved", "moved")
    assert recorded(plan_model("lenet-c", levels=2, strategy=strategy)) == (plan.convention, None)


def test_a_cost_with_a_count_of_its_own_keeps_it() -> None:
    plan = plan_model("lenet-c", array=[4], strategy="deepa", hardware="p100-4x4")
    assert recorded(plan) == ("paper", "paper")
    assert (cost_convention(plan), score_convention(plan)) == ("direct", "direct")
    assert score_convention(plan, score_plan(plan, convention="moved")) == "moved"
    assert score_plan(plan, convention="paper") == score_plan(plan) == plan.score


@pytest.mark.parametrize("convention", BY_LEVELS)
def test_a_convention_that_is_asked_for_counts_cost_and_score(convention: str) -> None:
    plan = plan_model("lenet-c", levels=2, convention=convention, hardware="hmc")
    assert recorded(plan) == (convention, convention)
    assert (cost_convention(plan), score_convention(plan)) == (convention, convention)
    assert known(plan.score).communication_bytes == pytest.approx(plan.cost.value)
    assert (f"counted by {convention}" in plan.claim) == (convention != "paper")


def test_the_costs_of_a_plan_can_be_counted_by_any_convention() -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, levels=3, strategy="mp", convention="paper")
    for convention in BY_LEVELS:
        other = plan_model(graph, levels=3, strategy="mp", convention=convention)
        assert costs_of(plan, graph, convention, None) == tuple(split.cost for split in other.splits)
