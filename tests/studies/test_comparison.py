"""The cost by which the rows of a comparison and of a sweep are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hypar import (
    compare_strategies,
    explore_model,
    load_machine,
    load_model,
    plan_model,
    score_plan,
    sweep_model,
)
from hypar.cli.main import main
from hypar.errors import HyparError
from hypar.plan.score import totals_of
from hypar.planning.strategies.base import load_strategy
from hypar.results import view_of
from hypar.studies.counted import costs_of
from hypar.units import amount, format_seconds
from tests.benches import lenet_profile
from tests.prose import unbroken

if TYPE_CHECKING:
    from collections.abc import Callable

STRATEGIES = ("dp", "hypar", "accpar", "deepa")


@pytest.mark.parametrize("cost", ["time", "accpar", "deepa", "volume"])
def test_a_named_cost_plans_every_row_as_the_same_request_of_plan_does(cost: str) -> None:
    graph = load_model("lenet-c")
    rows = compare_strategies(graph, strategies=STRATEGIES, levels=2, hardware="hmc", cost=cost)
    runs = sweep_model(graph, strategy=STRATEGIES, levels=2, hardware="hmc", cost=cost)
    for row, run in zip(rows, runs, strict=True):
        plan = plan_model(graph, strategy=row.name, cost=cost, levels=2, hardware="hmc")
        assert row.plan is not None
        assert row.plan.score is not None
        assert (row.plan.cost.name, row.plan.splits) == (cost, plan.splits)
        assert row.plan.score == score_plan(plan, convention=rows.convention)
        assert run.totals is not None
        assert run.totals.time_s == row.plan.score.time_s
    assert all(row["planned_by"] == cost for row in view_of(rows).rows(rows))
    assert all(row["cost"] == cost for row in view_of(runs).rows(runs))


def test_without_a_cost_each_strategy_keeps_its_own() -> None:
    asked: dict[str, Any] = {"levels": 2, "hardware": "hmc"}
    for row in compare_strategies("lenet-c", strategies=STRATEGIES, **asked):
        assert row.plan is not None
        assert row.plan.cost.name == load_strategy(row.name).cost
    runs = sweep_model("lenet-c", strategy=STRATEGIES, **asked)
    assert runs.cost is None
    assert "cost" not in view_of(runs).rows(runs)[0]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    return unbroken(result.stdout)


def test_the_output_names_the_cost() -> None:
    asked = ("compare", "lenet-c", "--levels", "2", "--hardware", "hmc", "--strategy", "hypar")
    assert "every row is planned by time" in printed(*asked, "--cost", "time")
    assert "dp, hypar planned by volume; deepa planned by deepa" in printed(*asked, "--strategy", "deepa")
    assert "planned by" not in printed(*asked)
    swept = ("sweep", "lenet-c", "--levels", "2", "--hardware", "hmc")
    assert "planned by time, counted by moved" in printed(*swept, "--cost", "time")
    assert "planned by" not in printed(*swept)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: compare_strategies("lenet-c", cost="time"),
            "cost 'time': no machine is named; allowed: one, as --hardware hmc",
        ),
        (
            lambda: compare_strategies("lenet-c", cost="tim"),
            "no cost 'tim'; allowed: accpar, deepa, time, volume; did you mean 'time'?",
        ),
        (
            lambda: compare_strategies("lenet-c", hardware="hmc", cost="time", inter_weight=0.5),
            "cost 'time': has no parameter 'inter_weight'; allowed: none",
        ),
        (
            lambda: sweep_model("lenet-c", hardware="hmc", cost="tim"),
            "no cost 'tim'; allowed: accpar, deepa, time, volume; did you mean 'time'?",
        ),
        (
            lambda: sweep_model("lenet-c", hardware="hmc", cost="time", inter_weight=0.5),
            "cost 'time': has no parameter 'inter_weight'; allowed: none",
        ),
    ],
    ids=["no machine", "unknown", "parameter", "unknown in a sweep", "parameter in a sweep"],
)
def test_a_cost_that_cannot_be_minimised_is_refused_in_one_line(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(HyparError) as refused:
        call()
    assert str(refused.value) == message


def test_a_comparison_shows_times_on_a_machine_and_costs_without_one() -> None:
    rows = compare_strategies("lenet-c", strategies="hypar", levels=2, hardware="hmc")
    times = ", ".join(
        f"{row.name} {format_seconds(row.plan.score.time_s)}" for row in rows if row.plan and row.plan.score
    )
    assert repr(rows) == f"<Comparison of lenet-c on hmc: {times}>"
    rows = compare_strategies("lenet-c", strategies="hypar", levels=2)
    costs = ", ".join(f"{row.name} {amount(row.cost, 'bytes')}" for row in rows)
    assert repr(rows) == f"<Comparison of lenet-c: {costs}>"


@pytest.mark.parametrize(
    "asked",
    [
        {"space": "all", "pins": ("fc1=mp",)},
        {"stages": 2, "schedule": "gpipe", "microbatches": 4},
        {"refine": True, "cost": "time"},
        {"chunks": "best", "optimizer": "adam", "graph": "operators"},
        {"hardware": "tpu-v2-v3", "cost": "accpar", "shares": "exact", "integral": True},
    ],
    ids=str,
)
def test_a_row_is_the_plan_of_the_same_arguments(asked: dict[str, Any]) -> None:
    """The baseline keeps its own space and equal shares."""
    given = {"hardware": "hmc", "levels": 2, **asked}
    rows = compare_strategies("lenet-c", strategies=["hypar", "accpar"], **given)
    for row in rows:
        kept = {name: value for name, value in given.items() if name not in {"space", "shares"}}
        plan = plan_model("lenet-c", strategy=row.name, **(kept if row.name == "dp" else given))
        assert row.plan is not None
        assert row.plan.splits == plan.splits
        assert row.plan.score == score_plan(plan, convention=rows.convention)


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
    assert found.baseline == totals_of(dp.plan.score)


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
        compare_strategies("lenet-c", spaces="all")  # type: ignore[call-arg]
