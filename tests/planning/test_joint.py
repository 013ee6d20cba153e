"""Joint search where no exact solver fits: a plan, a lower bound and what the plan says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import hypar
from hypar import plan_model
from hypar.costs.graphs import tables as cost_tables
from hypar.errors import TableLimitError
from hypar.planning.question import Question, ask, load_search
from hypar.planning.resolved import Resolved
from hypar.planning.searches import joint
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.cost_graph import CostGraph, Solution, Structure
from hypar.solve.solvers.base import Tables
from tests.benchmarks.fresh import fresh


def question(model: str, levels: int) -> Question:
    """Ask for the joint optimum over three types."""
    request = Resolved(
        strategy="optimal",
        space="batch,in_channels,out_channels",
        cost="volume",
        parameters={},
        search="joint",
        solver=None,
        arrays={WHOLE_ARRAY: (2,) * levels},
        pins=(),
    )
    return ask(request, hypar.load_model(model))


def test_a_plan_without_proof_is_never_dearer_than_the_greedy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor:
        """Bounded, with the dearest choice of every layer."""

        exact = False

        def tables(self, _: Structure) -> Tables:
            return Tables(stored=0, work=0)

        def solve(self, problem: CostGraph) -> Solution:
            poor = tuple(int(costs.argmax()) for costs in problem.nodes)
            return Solution(assignment=poor, cost=problem.cost(poor), bound=0.0)

    asked = question("lenet-c", 2)
    greedy = load_search("greedy").run(asked)
    monkeypatch.setattr(Question, "pick_solver", lambda self, *_: (self.solver or "bounded", Poor()))
    monkeypatch.setattr(joint, "greedy", lambda _: replace(greedy, solver="bounded", exact=False, bounds=()))
    assert joint.run(replace(asked, solver="bounded")).choices == greedy.choices


def test_where_too_many_pairs_are_left_the_levels_are_planned_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Rows beside a border depend on the order of levels, so that counts are no help.
    asked: dict[str, Any] = {
        "levels": 4,
        "strategy": "optimal",
        "convention": "moved",
        "pins": "conv1@H1=height",
    }
    proven = plan_model("alexnet", **asked)
    monkeypatch.setattr(cost_tables, "MOST_PAIRS", 1000)
    plan = plan_model("alexnet", **asked)
    assert plan.claim.startswith("not proven optimal, but the optimum is at most")
    assert plan.bounds is not None
    assert plan.bounds[0] <= proven.cost.value <= plan.cost.value
    said = r"^search 'joint': found [\d,]+ pairs of choices over all levels; allowed: 1,000$"
    with pytest.raises(TableLimitError, match=said):
        plan_model("alexnet", solver="elimination", **asked)


@pytest.mark.slow
def test_device_groups_are_searched_within_the_memory() -> None:
    assert fresh("lenet-c", hardware="tpu-v2-v3", strategy="optimal").MB < 1000
