"""A strategy that chooses how a step trains: what it chooses fits and is what was run, what is asked for is held, and named ways are their options."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hypar import check_plan, load_model, plan_model, score_plan
from hypar.errors import OptionError
from hypar.plan.records import TrainingRecord
from hypar.plan.request import Request
from hypar.planning.fit import ways_of
from hypar.planning.planner import resolve
from hypar.planning.strategies.base import load_strategy
from tests.effort import late
from tests.kit import known, output

ASKED: dict[str, Any] = {
    "array": (4,),
    "batch": 16,
    "hardware": "h100-8x",
    "optimizer": "adam",
    "precision": "bf16",
}


@pytest.mark.parametrize("memory", late(["80 GB", "5 GB", "3 GB", "1.5 GB"], "5 GB", "3 GB"))
def test_it_is_no_slower_than_any_way_of_training_by_hand(memory: str) -> None:
    """Of data parallelism and of the search without it, each way of training that fits."""
    found = plan_model("gpt2", strategy="fit", device_memory=memory, **ASKED)
    least = []
    for zero, recompute, parts in product((0, 1, 3), ("none", "full"), (1, 4)):
        own: dict[str, Any] = {"zero": zero, "recompute": recompute, "microbatches": parts}
        score = known(plan_model("gpt2", strategy="dp", device_memory=memory, **own, **ASKED).score)
        least += [score.time_s] if score.fits else []
    assert known(found.score).fits
    assert known(found.score).time_s <= min(least, default=float("inf")) * (1 + 1e-9)
    again = plan_model(
        "gpt2",
        strategy="fit",
        device_memory=memory,
        zero=found.zero,
        recompute=found.training.recompute,
        microbatches=found.microbatches,
        **ASKED,
    )
    assert known(again.score).time_s == known(found.score).time_s


def test_less_memory_is_never_faster() -> None:
    times = []
    for memory in ("80 GB", "2 GB"):
        found = plan_model("gpt2", strategy="fit", device_memory=memory, **ASKED)
        assert known(found.score).fits
        times.append(known(found.score).time_s)
    assert times == sorted(times)


@pytest.mark.parametrize("own", [{"zero": 1}, {"microbatches": 4}, {"recompute": "full"}])
def test_what_is_asked_for_is_held(own: dict[str, Any]) -> None:
    found = plan_model("gpt2", strategy="fit", **own, **ASKED)
    for name, value in own.items():
        holder = found if name == "microbatches" else found.training
        assert getattr(holder, name) == value


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "fsdp"])
def test_a_named_way_is_data_parallelism_by_its_stage(name: str) -> None:
    zero = load_strategy(name).zero
    named = plan_model("gpt2", strategy=name, **ASKED)
    plain = plan_model("gpt2", strategy="dp", zero=zero, **ASKED)
    assert named.zero == zero
    assert known(named.score).time_s == known(plain.score).time_s
    assert known(named.score).memory == known(plain.score).memory
    assert score_plan(named).time_s == known(named.score).time_s


def test_a_plan_that_fits_is_found_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan_model("gpt2", strategy="fit", device_memory="2 GB", **ASKED).write("plan.json")
    assert check_plan("plan.json").ok
    output("report", "plan.json", "-o", "page.html")
    assert "next best" in Path("page.html").read_text(encoding="utf-8")


def test_a_single_stage_that_is_asked_for_is_held() -> None:
    network = load_model("gpt2")
    for stages, tried in ((None, {1, 2}), (1, {1})):
        request = resolve(Request(strategy="fit", stages=stages, **ASKED), network)
        assert {way.stages for way in ways_of(request, network.with_batch(16))} == tried


@pytest.mark.parametrize("strategy", [None, "fit"])
def test_the_best_number_of_stages_is_what_it_finds(strategy: str | None) -> None:
    asked: dict[str, Any] = {"hardware": "h100-8x", "array": (4,), "batch": 16, "optimizer": "adam"}
    best, free = (plan_model("gpt2", strategy=strategy, stages=own, **asked) for own in ("best", None))
    assert best.strategy == "fit"
    assert best == free
    scheduled = plan_model("gpt2", stages="best", schedule="gpipe", **asked)
    assert scheduled.strategy == "hypar"


def test_stages_are_tried_where_fewer_devices_wait_less_for_each_other() -> None:
    free = plan_model("bert-large", hardware="hmc", levels=3)
    given = plan_model("bert-large", hardware="hmc", levels=1, stages=4)
    assert known(free.score).time_s <= known(given.score).time_s


def test_stages_that_are_asked_for_are_held_and_how_they_train_is_chosen() -> None:
    asked = ASKED | {"array": ("s2", 2), "device_memory": "4 GB"}
    found = plan_model("gpt2", **asked)
    assert found.stages
    assert (len(found.stages.stages), found.array) == (2, [2])
    assert known(found.score).fits
    pinned = plan_model("gpt2", pins=["h.3.up@H1=batch", "h.4.up=out_ff"], **asked)
    assert [pinned.dims(f"h.{block}.up") for block in (3, 4)] == [("batch",), ("out_ff",)]
    for zero, microbatches in product((0, 1), (8, 16)):
        alone = plan_model("gpt2", zero=zero, microbatches=microbatches, schedule="1f1b", **asked)
        assert known(alone.score).time_s >= known(found.score).time_s


@pytest.mark.parametrize(
    "own", [{"cost": "volume"}, {"pins": ["h.0.q@H1=batch"]}, {"batch": 1}, {"device_memory": "1 KB"}]
)
def test_what_suits_few_ways_has_a_plan(own: dict[str, Any]) -> None:
    assert plan_model("gpt2", **{"strategy": "fit", **ASKED, **own}).score


def test_a_claim_says_that_the_search_was_cut_short() -> None:
    plan = plan_model("gpt2", strategy="fit", time_limit=0.01, **ASKED)
    assert "how it trains: searched until its time was over" in plan.claim


@pytest.mark.parametrize("held", [{"zero": 0}, {"recompute": "none"}])
def test_what_would_fit_is_said_of_what_does_not_alone(held: dict[str, Any]) -> None:
    plan = plan_model("gpt2", strategy="fit", device_memory="1.3 GB", **held, **ASKED)
    said = "with nothing held the same devices would fit" in plan.claim
    assert said is not known(plan.score).fits


def test_without_a_machine_nothing_is_chosen_of_how_a_step_trains() -> None:
    found = plan_model("lenet-c", strategy="fit", levels=2)
    assert (found.training, found.cost.name) == (TrainingRecord(), "volume")
    with pytest.raises(OptionError, match="no machine is named"):
        plan_model("lenet-c", strategy="fit", levels=2, cost="time")
