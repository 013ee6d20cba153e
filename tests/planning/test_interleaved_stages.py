"""Plans in stages of several parts: what is searched, run, verified and recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hypar import Plan, check_plan, load_machine, load_model, plan_model, score_plan, verify_plan
from hypar.errors import MemoryLimitError, OptionError, PlanError
from hypar.plan.plan import read_plan
from hypar.planning.request import Request
from hypar.planning.stages.division import held_in
from hypar.planning.stages.replay import stored_stages
from hypar.planning.stages.running import estimated_s, fullest_moments
from hypar.sharding.conventions import PAPER
from tests.effort import late

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.planning.stages.running import Staging

HMC = load_machine("hmc")

CASES = {
    "lenet-c": {"model": "lenet-c", "stages": 2, "levels": 1, "batch": 32},
    "unet": {"model": "unet", "stages": 2, "parts": 3, "levels": 1, "batch": 2},
    "unet by fused": {"model": "unet", "stages": 2, "levels": 1, "batch": 2, "convention": "fused"},
    "resnet18": {"model": "resnet18", "stages": 4, "levels": 1, "microbatches": 8, "batch": 32},
    "resnet18 by paper": {"model": "resnet18", "stages": 2, "parts": 4, "levels": 0, "convention": "paper"},
    "device groups": {"model": "lenet-c", "stages": 2, "levels": 1, "hardware": "tpu-v2-v3", "batch": 32},
}


def staging(plan: Plan) -> Staging:
    """The stages of a plan as they run on its machine."""
    assert plan.stages is not None
    assert plan.score is not None
    graph = load_model(plan.model.name).with_batch(plan.model.batch)
    request = replace(Request.of(plan, HMC), counted=plan.score.convention or PAPER)
    return stored_stages(plan, plan.stages, graph, [plan.choices(name) for name in plan.layers], request)


def planned(name: str) -> Plan:
    return plan_model(**{"hardware": "hmc", "schedule": "interleaved", **CASES[name]})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", late(CASES, "resnet18", "resnet18 by paper", "unet", "unet by fused"))
def test_a_plan_in_parts_runs_as_planned(name: str, tmp_path: Path) -> None:
    """Tensors that skip the other stages, as in unet, stay on the devices that made them."""
    plan = planned(name)
    assert plan.stages is not None
    assert score_plan(plan) == plan.score
    assert verify_plan(plan, count=True).ok
    file = tmp_path / "plan.json"
    plan.write(file)
    assert read_plan(file) == plan
    assert plan.stages.layers == tuple(layer.name for layer in load_model(plan.model.name).contracted.layers)
    assert not check_plan(file).changes
    assert len(plan.score.groups or ()) == len(plan.stages.stages) == CASES[name]["stages"]


def test_a_step_in_parts_computes_as_one_device() -> None:
    found = verify_plan(planned("lenet-c"), shrink=True)
    assert found.ok
    assert not found.mismatches


@pytest.mark.parametrize("name", ["lenet-c", "unet"])
def test_the_estimate_is_exact_where_nothing_overlaps(name: str) -> None:
    plan = planned(name)
    found = staging(plan)
    estimate = estimated_s(found.request, found.microbatches, found.stages)
    assert plan.score is not None
    assert estimate == pytest.approx(plan.score.time_s, rel=1e-9)


def test_the_memory_of_a_stage_is_that_of_its_parts_together() -> None:
    plan = planned("lenet-c")
    assert plan.stages is not None
    assert plan.score is not None
    found = staging(plan)
    held = fullest_moments("interleaved", 2, plan.stages.microbatches, 2)
    for group, (_, _, num_bytes) in zip(plan.score.groups or (), held_in(found.stages, held), strict=True):
        assert group.memory_bytes == pytest.approx(num_bytes)


def test_parts_that_are_given() -> None:
    starts = "conv1,conv2,fc1,fc2"
    plan = plan_model("lenet-c", starts=starts, levels=1, schedule="interleaved", hardware="hmc")
    assert plan.stages is not None
    assert [(stage.layers, stage.parts) for stage in plan.stages.stages] == [
        (["conv1", "fc1"], [1, 1]),
        (["conv2", "fc2"], [1, 1]),
    ]
    assert plan.stages.given_starts == tuple(starts.split(","))


def test_parts_shorten_the_step_where_links_are_fast() -> None:
    asked = {"stages": 4, "levels": 0, "microbatches": 4, "batch": 64, "hardware": "h100-8x"}
    whole, parts = (
        plan_model("vgg16", schedule=name, **asked)  # type: ignore[arg-type]
        for name in ("1f1b", "interleaved")
    )
    assert parts.score is not None
    assert whole.score is not None
    assert parts.score.time_s < whole.score.time_s


def test_the_best_stages_in_parts(tmp_path: Path) -> None:
    asked = {"levels": 2, "batch": 64, "hardware": "h100-8x", "schedule": "interleaved"}
    best = plan_model("alexnet", stages="best", **asked)  # type: ignore[arg-type]
    given = plan_model("alexnet", stages=2, **{**asked, "levels": 1})  # type: ignore[arg-type]
    assert best.score is not None
    assert given.score is not None
    assert best.score.time_s <= given.score.time_s
    best.write(tmp_path / "plan.json")
    assert not check_plan(tmp_path / "plan.json").changes


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stages": 3}, "parts: found 2 of each of 3 stages; allowed: at most 4 in all"),
        ({"stages": 2, "parts": 1}, "parts: found 1; allowed: a whole number from 2 to"),
        ({"stages": 1, "levels": 0}, "parts: found 2 of a single stage; allowed: 2 stages or more"),
        ({"starts": "conv1,conv2,fc1"}, "starts: found 3; allowed: a multiple of the 2 parts of each stage"),
        ({"stages": 2, "microbatches": 3}, "microbatches: found 3 of a batch of 256; allowed: a multiple of"),
        (
            {"stages": 2, "schedule": "1f1b", "parts": 2},
            "parts: given with schedule '1f1b'; allowed: schedule",
        ),
    ],
)
def test_parts_that_are_not_possible(asked: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        plan_model("lenet-c", **{"hardware": "hmc", "levels": 1, "schedule": "interleaved", **asked})  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_parts_that_fit_no_memory() -> None:
    small = load_machine("hmc", changes={"memory.capacity": "1 MB"})
    with pytest.raises(MemoryLimitError, match="no 2 stages"):
        plan_model("lenet-c", stages=2, levels=0, schedule="interleaved", hardware=small)


@pytest.mark.parametrize(
    ("parts", "own", "message"),
    [
        (None, [1, 1], "stages.parts: found nothing; allowed: 2 or more by 'interleaved'"),
        (3, [1, 1], "stages.stages[0].parts: found [1, 1]; allowed: 3 of 2 layers"),
        (2, [2, 1], "stages.stages[0].parts: found [2, 1]; allowed: 2 of 2 layers"),
        (2, None, "stages.stages[0].parts: found nothing; allowed: 2 of 2 layers"),
    ],
)
def test_a_plan_whose_parts_disagree(
    tmp_path: Path, parts: int | None, own: list[int] | None, message: str
) -> None:
    data = planned("lenet-c").to_data()
    data["stages"]["parts"], data["stages"]["stages"][0]["parts"] = parts, own
    (tmp_path / "bad.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read_plan(tmp_path / "bad.json")
    assert message in str(caught.value)
