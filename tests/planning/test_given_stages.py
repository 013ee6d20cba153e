"""Stages with given starts, other balances and a given number of microbatches: planned, stored and checked again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hypar import Plan, check_plan, load_machine, load_model, plan_model, read_plan, verify_plan
from hypar.cli.main import main
from hypar.errors import OptionError
from hypar.planning.request import Request
from hypar.studies.pipeline import pipeline_model
from hypar.studies.report.again import plan_command
from tests.effort import late

if TYPE_CHECKING:
    from pathlib import Path

HMC = load_machine("hmc")
ALEXNET = load_model("alexnet").with_batch(64)
LENET = load_model("lenet-c").with_batch(16)

ASKED: list[dict[str, Any]] = [
    {"starts": "conv1,conv3,fc1", "levels": 1},
    {"starts": ["conv1", "fc1"], "array": [4], "schedule": "gpipe", "microbatches": 8},
    {"starts": "conv1,conv2,conv3,fc2", "levels": 0, "schedule": "layer-block"},
    {"stages": 4, "levels": 1, "balance": "memory"},
    {"stages": 3, "levels": 2, "balance": "traffic", "schedule": "gpipe"},
    {"stages": 5, "levels": 0, "balance": "macs"},
    {"stages": 1, "levels": 0, "schedule": "layer-block"},
    {"stages": "best", "levels": 3, "microbatches": 16},
    {"stages": "best", "levels": 3, "balance": "macs"},
    {"stages": "best", "levels": 1, "microbatches": 64, "schedule": "gpipe"},
]


@pytest.mark.parametrize("asked", late(ASKED, {"stages": "best", "levels": 3, "balance": "macs"}), ids=str)
def test_a_plan_is_stored_checked_and_planned_again_by_its_command(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_model(ALEXNET, hardware=HMC, **asked)
    plan.write("plan.json")
    assert read_plan("plan.json") == plan
    assert check_plan("plan.json").ok
    request = Request.of(plan, HMC)
    assert (request.balance, request.stages) == (
        asked.get("balance", "time"),
        plan.stages and plan.stages.asked,
    )
    assert request.microbatches == (
        asked.get("microbatches")
        if asked.get("stages") == "best"
        else plan.stages and plan.stages.microbatches
    )
    if "starts" in asked:
        names = asked["starts"] if isinstance(asked["starts"], list) else asked["starts"].split(",")
        assert list(request.starts) == names
    _, *words = shlex.split(plan_command(plan, "again.json", load_model("alexnet"), HMC))
    assert CliRunner().invoke(main, words).exit_code == 0
    assert read_plan("again.json") == plan


FLUSHED = [one for one in ASKED if one.get("schedule") != "layer-block"]


@pytest.mark.parametrize(
    "asked", [FLUSHED[0], *(pytest.param(one, marks=pytest.mark.slow) for one in FLUSHED[1:])], ids=str
)
def test_what_is_executed_is_what_one_device_computes(asked: dict[str, Any]) -> None:
    plan = plan_model(LENET, hardware=HMC, **_of_lenet(asked))
    assert verify_plan(plan).ok


def _of_lenet(asked: dict[str, Any]) -> dict[str, Any]:
    """A request for AlexNet as one for a network of four layers."""
    starts = {"starts": "conv1,conv2,fc1"} if "starts" in asked else {}
    stages = {"stages": min(4, asked["stages"])} if isinstance(asked.get("stages"), int) else {}
    fewer = {"microbatches": min(4, asked["microbatches"])} if "microbatches" in asked else {}
    return {**asked, **starts, **stages, **fewer}


def stages_of(plan: Plan) -> list[list[str]]:
    assert plan.stages is not None
    return [stage.layers for stage in plan.stages.stages]


def test_the_stages_of_a_plan_named_one_by_one_are_its_stages() -> None:
    plan = plan_model(ALEXNET, stages=4, levels=2, hardware=HMC)
    given = plan_model(ALEXNET, starts=[layers[0] for layers in stages_of(plan)], levels=2, hardware=HMC)
    assert stages_of(given) == stages_of(plan)
    assert given.score == plan.score
    assert given.splits == plan.splits
    assert given.claim.startswith("stages as given, each cut by greedy search")


def test_layers_before_the_first_one_that_is_cut_start_the_first_stage() -> None:
    plans = [pipeline_model(ALEXNET, starts=f"{first},fc1", hardware=HMC) for first in ("input", "conv1")]
    assert plans[0] == plans[1]


def test_pools_start_stages_where_they_are_planned() -> None:
    asked: dict[str, Any] = {"starts": "conv1,pool2,fc1", "levels": 0, "hardware": HMC}
    with pytest.raises(OptionError, match="found 'pool2', which stays with the layer before it"):
        plan_model(ALEXNET, **asked)
    plan = plan_model(ALEXNET, graph="operators", **asked)
    assert [layers[0] for layers in stages_of(plan)] == ["conv1", "pool2", "fc1"]


def test_the_last_layers_that_are_not_cut_start_no_stage() -> None:
    with pytest.raises(
        OptionError, match=r"which stays with the layer before it; allowed: layers that are cut$"
    ):
        plan_model(ALEXNET, starts=["conv1", ALEXNET.layers[-1].name], levels=0, hardware=HMC)


@pytest.mark.parametrize("starts", [5, [5], {"conv1": 1}])
def test_starts_that_are_no_names_are_refused(starts: Any) -> None:
    with pytest.raises(OptionError, match=r"^starts: found .*; allowed: names of layers"):
        plan_model(ALEXNET, starts=starts, levels=0, hardware=HMC)


@pytest.mark.parametrize("microbatches", [1, 4, 32])
def test_the_best_stages_of_given_microbatches_are_the_fastest_of_all(microbatches: int) -> None:
    best = plan_model(ALEXNET, stages="best", levels=2, microbatches=microbatches, hardware=HMC)
    assert best.score is not None
    assert best.stages is not None
    if best.staged:
        assert best.stages.microbatches == microbatches
    others = [plan_model(ALEXNET, levels=2, hardware=HMC)]
    for stages, levels in ((2, 0), (2, 1), (4, 0)):
        asked: dict[str, Any] = {"stages": stages, "levels": levels, "microbatches": microbatches}
        others.append(plan_model(ALEXNET, hardware=HMC, **asked))
    assert best.score.time_s == min(plan.score.time_s for plan in others if plan.score)


def test_a_difference_of_balances_is_said(tmp_path: Path) -> None:
    files = []
    for balance in ("time", "memory"):
        files.append(tmp_path / f"{balance}.json")
        plan_model(ALEXNET, stages=4, levels=0, balance=balance, hardware=HMC).write(files[-1])
    result = CliRunner().invoke(main, ["diff", *map(str, files)])
    assert "time -> memory" in result.output
