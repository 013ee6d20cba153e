"""The cost by which the rows of a comparison and of a sweep are planned."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from hypar import (
    compare_strategies,
    explore_model,
    load_machine,
    load_model,
    plan_model,
    sweep_model,
)
from hypar.cli.main import main
from hypar.errors import HyparError
from hypar.planning.strategies.base import load_strategy
from hypar.studies.grid import costs_of, totals_of
from tests.benches import lenet_profile
from tests.prose import unbroken

STRATEGIES = ("dp", "hypar", "accpar", "deepa")


def test_without_a_cost_each_strategy_keeps_its_own() -> None:
    asked: dict[str, Any] = {"levels": 2, "hardware": "hmc"}
    for row in compare_strategies("lenet-c", strategies=STRATEGIES, **asked):
        assert row.plan is not None
        assert row.plan.cost.name == load_strategy(row.name).cost
    runs = sweep_model("lenet-c", strategy=STRATEGIES, **asked)
    assert not runs.asked
    assert "cost" not in runs.document().records()[0]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    return unbroken(result.stdout)


def test_the_output_names_the_cost() -> None:
    asked = ("compare", "lenet-c", "--levels", "2", "--hardware", "hmc", "--strategy", "hypar")
    assert "hypar, dp planned by time" in printed(*asked, "--cost", "time")
    assert "deepa planned by deepa; hypar, dp planned by volume" in printed(*asked, "--strategy", "deepa")
    assert "planned by" not in printed(*asked)
    swept = ("sweep", "lenet-c", "--levels", "2", "--hardware", "hmc")
    assert "levels 2, cost time" in printed(*swept, "--cost", "time")
    assert "cost" not in printed(*swept)


def test_measured_times_are_for_the_rows_whose_cost_has_them() -> None:
    profile = lenet_profile()
    asked: dict[str, Any] = {"array": (4,), "batch": 32, "hardware": "h100-8x"}
    dp, deepa = compare_strategies("lenet-c", strategies="deepa", profile=profile, **asked)
    assert dp.plan is not None
    assert deepa.plan is not None
    assert dp.plan.splits == plan_model("lenet-c", strategy="dp", **asked).splits
    assert deepa.plan.splits == plan_model("lenet-c", strategy="deepa", profile=profile, **asked).splits
    rows = compare_strategies("lenet-c", strategies="deepa", profile=profile, cost="deepa", **asked)
    assert all(row.plan is not None and row.plan.profile is not None for row in rows)
    found = explore_model("lenet-c", vary="fc1", strategy="deepa", profile=profile, mode="serial", **asked)
    assert found.baseline.totals == totals_of(dp.plan.score)


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
