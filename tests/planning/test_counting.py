"""The convention by which a plan and its score are counted."""

from __future__ import annotations

import pytest

from hypar import Plan, load_model, plan_model, score_plan
from hypar.planning.resolved import cost_convention, score_convention
from hypar.registry import plugin_names
from hypar.sharding.conventions import BY_LEVELS
from hypar.studies.grid import costs_of

OF_PAPERS = {"hypar", "accpar", "deepa"}
from tests.planning.parts import scored


def recorded(plan: Plan) -> tuple[str | None, str | None]:
    return plan.convention, None if plan.score is None else scored(plan).convention


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
    assert scored(plan).communication_bytes == pytest.approx(plan.cost.value)
    assert (f"counted by {convention}" in plan.claim) == (convention != "paper")


def test_the_costs_of_a_plan_can_be_counted_by_any_convention() -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, levels=3, strategy="mp", convention="paper")
    for convention in BY_LEVELS:
        other = plan_model(graph, levels=3, strategy="mp", convention=convention)
        assert costs_of(plan, graph, convention, None) == tuple(split.cost for split in other.splits)
