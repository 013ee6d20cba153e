from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from hypar import (
    check_plan,
    load_machine,
    load_model,
    plan_model,
)
from hypar.planning.resolved import BASELINES, FIXED
from hypar.registry import data_file
from hypar.studies.remarks import remarks
from tests.effort import crossed
from tests.planning.parts import scored

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

H100 = load_machine("h100-8x", {"compute.fp32_peak": "989.4 TFLOP/s", "unweighted": "free"})
"""Fast enough for its links to matter to small networks in fp32."""
RESNET: dict[str, Any] = {"levels": 6, "cost": "time", "space": "all", "hardware": H100}


@cache
def graph(name: str) -> LayerGraph:
    return load_model(name)


@cache
def resnet() -> Plan:
    """A plan of which the search alone loses to dp."""
    return plan_model(graph("resnet50"), **RESNET)


def seconds(plan: Plan) -> float:
    return scored(plan).time_s


@cache
def seconds_of(model: str, strategy: str, levels: int, hardware: str) -> float:
    """A baseline's own plan, whatever the space of the plan beside it."""
    return seconds(
        plan_model(graph(model), strategy=strategy, levels=levels, hardware=load_machine(hardware))
    )


@crossed(
    {
        "model,hardware,levels": [
            pytest.param("resnet50", "h100-8x", 6, marks=pytest.mark.slow),
            ("alexnet", "h100-8x", 5),
            ("lenet-c", "h100-8x", 3),
            ("sfc", "hmc", 4),
            ("alexnet-2012", "p100-4x4", 3),
            ("resnet18", "tpu-v2", 5),
        ],
        "space": [None, "all"],
    }
)
def test_no_plan_for_least_time_is_slower_than_a_baseline(
    model: str, hardware: str, levels: int, space: str | None
) -> None:

    plan = plan_model(graph(model), cost="time", space=space, levels=levels, hardware=load_machine(hardware))
    assert plan.baselines is not None
    assert plan.baselines.names == BASELINES
    for name in BASELINES:
        alone_s = seconds_of(model, name, levels, hardware)
        assert plan.baselines.step_s[name] == pytest.approx(alone_s, rel=1e-12)
    assert seconds(plan) == plan.baselines.step_s[plan.baselines.taken]
    assert seconds(plan) <= min(plan.baselines.step_s.values())


def test_the_fixed_strategy_is_the_plan_where_the_search_loses_to_it() -> None:
    plan, dp = resnet(), plan_model(graph("resnet50"), strategy="dp", levels=6, hardware=H100)
    assert plan.baselines is not None
    assert plan.baselines.taken == "dp"
    assert [split.choices for split in plan.splits] == [split.choices for split in dp.splits]
    assert seconds(plan) == seconds(dp) < plan.baselines.step_s["search"]
    assert plan.claim == (
        "the plan of dp, by the engine no slower than the search's plan, owt, hypar and accpar; the search's plan is "
        "greedy: each level is optimal given the levels above it, over (all), one dim a level, devices may be idle, for "
        "least time, nothing overlapped, counted by moved"
    )
    assert "2.64 ms, dp 2.57 ms" in plan.render()


def test_the_claim_of_the_search_goes_on_where_nothing_is_faster() -> None:
    plan = plan_model("sfc", levels=1, strategy="hypar", cost="time", search="joint", hardware="hmc")
    assert plan.claim == (
        "optimal, all levels jointly, over (batch,in_channels), one dim a level, for least time; by the engine no slower "
        "than dp, owt and hypar"
    )


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"space": "out_channels,in_channels"}, ()),
        ({"strategy": "owt"}, ()),
        ({"strategy": "hypar"}, ("dp", "owt", "hypar")),
        ({"space": "batch,in_channels"}, ("dp", "owt", "hypar")),
        ({"strategy": "accpar"}, BASELINES),
        ({"pins": "*=out_channels"}, ()),
    ],
)
def test_a_baseline_competes_within_the_space_that_is_asked_for(asked: Any, names: tuple[str, ...]) -> None:
    plan = plan_model("alexnet", levels=3, cost="time", hardware="hmc", **asked)
    assert (() if plan.baselines is None else plan.baselines.names) == names
    dims = {dim for layer in plan.layers for dim in plan.dims(layer)}
    assert "batch" not in dims or "batch" in plan.space


@pytest.mark.parametrize(
    ("capacity", "taken", "fits"),
    [
        ("80 GB", "dp", True),
        ("9199391 B", "search", True),
        ("6779391 B", "accpar", True),
        ("3 MB", "dp", False),
    ],
)
def test_what_devices_hold_goes_before_what_is_faster(
    tmp_path: Path, capacity: str, taken: str, fits: bool
) -> None:
    """dp is the fastest and holds 9.20 MB, then the search's plan with 6.78 MB, then accpar with 5.57 MB."""
    file = tmp_path / "small.yaml"
    text = (
        data_file("hardware", "h100-8x").read_text().replace("80 GB", capacity).replace("494.7 T", "989.4 T")
    )
    file.write_text(
        text.replace("assumptions:", "assumptions:\n  unweighted: {value: free, source: the test}")
    )
    machine = load_machine(file)
    plan = plan_model("lenet-c", levels=3, cost="time", hardware=machine)
    assert plan.baselines is not None
    assert plan.baselines.taken == taken
    assert scored(plan).fits is fits
    assert (", of those that fit" in plan.claim) == (taken != "dp")
    assert not [own for own in remarks(plan) if own.label == "faster"]


class TestFiles:
    def test_a_plan_without_a_record_of_baselines_is_planned_again_without_them(self, tmp_path: Path) -> None:
        file = tmp_path / "old.json"
        new = plan_model("lenet-c", levels=3, cost="time", hardware=H100)
        assert new.baselines is not None
        assert new.baselines.taken == "dp"
        data = new.to_data()
        del data["baselines"]
        file.write_text(json.dumps(data))
        fresh = check_plan(file).fresh
        assert fresh.baselines is None
        assert seconds(fresh) == new.baselines.step_s["search"]


class TestRemarks:
    """By how much a baseline would be faster, on every kind of machine."""

    @pytest.mark.parametrize(
        ("hardware", "asked"),
        [
            ("h100-8x", {"model": "resnet18", "levels": 4}),
            ("h100-8x", {"model": "resnet18", "levels": 4, "chunks": "best"}),
            ("h100-8x", {"model": "resnet18", "levels": 3, "strategy": "deepa"}),
            ("h100-8x", {"model": "lenet-c", "levels": 3, "strategy": "optimal"}),
            ("tpu-v2-v3", {"model": "alexnet", "strategy": "mp"}),
        ],
    )
    def test_the_faster_of_dp_and_owt_is_named(self, hardware: str, asked: dict[str, Any]) -> None:
        machine = H100 if hardware == H100.name else load_machine(hardware)
        plan = plan_model(**asked, hardware=machine)
        kept = {name: value for name, value in asked.items() if name != "strategy"}
        times = {name: seconds(plan_model(**kept, strategy=name, hardware=machine)) for name in FIXED}
        name = min(times, key=lambda one: times[one])
        (line,) = [own.text for own in remarks(plan) if own.label == "faster"]
        assert line.startswith(f"{name}: ")
        assert line.endswith(f" a step, {1 - times[name] / seconds(plan):.2%} less")

    @pytest.mark.parametrize("pins", [(), ("fc@H2=mp",)])
    def test_stages_are_held_against_all_their_devices(self, pins: tuple[str, ...]) -> None:
        plan = plan_model("resnet18", levels=2, stages=2, pins=pins, hardware=H100)
        dp = seconds(plan_model("resnet18", levels=3, strategy="dp", hardware=H100))
        (line,) = [own.text for own in remarks(plan) if own.label == "faster"]
        assert line.startswith(f"dp over the same devices without stages{' and pins' * bool(pins)}: ")
        assert line.endswith(f" a step, {1 - dp / seconds(plan):.2%} less")
