"""Stages of several parts, stages inside levels and inside uneven splits, and stages over groups that consist of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hypar import Plan, load_machine, load_model, plan_model, verify_plan
from hypar.errors import InputError
from hypar.planning.replay import run_plan
from hypar.planning.resolved import Resolved
from hypar.planning.stages.partition import held_in
from hypar.planning.stages.planner import stored_stages
from hypar.sharding.amounts.counted import SEAM
from hypar.sharding.conventions import PAPER
from tests.estimates import estimated_s
from tests.heterogeneous import group, groups_of, kind, write_machine
from tests.kit import names_of
from tests.planning.parts import scored, staged

if TYPE_CHECKING:
    from pathlib import Path


SMALL = load_model("lenet-c")
WEIGHTS = sum(layer.nest.elements("weight") for layer in SMALL.contracted.layers)


# Parts

INTERLEAVED: dict[str, Any] = {"schedule": "interleaved", "hardware": "hmc"}


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "lenet-c", "stages": 2, "levels": 1, "batch": 32},
        {"model": "unet", "stages": 2, "parts": 3, "levels": 1, "batch": 2},
    ],
    ids=str,
)
def test_a_step_in_parts_takes_and_holds_what_is_estimated(asked: dict[str, Any]) -> None:
    """Tensors that skip the other stages, as in unet, stay on the devices that made them."""
    plan, machine = plan_model(**INTERLEAVED, **asked), load_machine("hmc")
    own, graph = staged(plan), load_model(plan.model.name).with_batch(plan.model.batch)
    assert own.layers == tuple(layer.name for layer in graph.contracted.layers)
    assert verify_plan(plan, count=True).ok
    request = replace(Resolved.of(plan, machine), counted=scored(plan).convention or PAPER)
    found = stored_stages(plan, request, graph)
    estimate = estimated_s(found.stages)
    assert estimate == pytest.approx(scored(plan).time_s, rel=1e-9)
    for each, (_, _, num_bytes) in zip(scored(plan).groups or (), held_in(found.stages), strict=True):
        assert each.memory_bytes == pytest.approx(num_bytes)


def test_a_join_gets_the_error_of_what_another_part_of_its_stage_reads() -> None:
    """The second addition of layer3 reads the first one's output past the other stage; a run moves its error as well."""
    plan = plan_model("resnet18", stages=2, parts=4, levels=1, batch=8, **INTERLEAVED)
    found = run_plan(plan)
    each = zip(names_of(found), found.step.pieces, strict=True)
    planned = [piece.num_bytes for name, piece in each if "layer3.0.add backward all_to_all" in name]
    item = ("layer3.1.add", "layer3.0.relu2", "backward")
    moved = verify_plan(plan, count=True).transfers
    assert sum(planned) == sum(
        one.counted for one in moved if (one.item.layer, one.item.maker, one.item.phase) == item
    )
    assert planned


def test_parts_that_are_given() -> None:
    starts = "conv1,conv2,fc1,fc2"
    own = staged(plan_model("lenet-c", starts=starts, levels=1, **INTERLEAVED))
    assert [(stage.layers, stage.parts) for stage in own.stages] == [
        (["conv1", "fc1"], [1, 1]),
        (["conv2", "fc2"], [1, 1]),
    ]
    assert own.starts
    assert [layers[0] for _, layers in own.spans] == starts.split(",")


# Stages inside levels


def test_stages_inside_a_level_are_replicas_that_exchange_gradients_over_the_level_outside() -> None:
    """Each replica of the pipeline has half of the samples, and the whole of the weights of its stage."""
    asked: dict[str, Any] = {"strategy": "dp", "hardware": "h100-8x", "microbatches": 2}
    plan = plan_model(SMALL, array=(2, "s2"), **asked)
    assert plan.array == [2]
    assert (staged(plan).outside, len(staged(plan).stages), plan.num_devices) == (1, 2, 4)
    # Each of two replicas receives the other's gradients of all weights once.
    assert scored(plan).communication["H1"] == 2 * 4 * WEIGHTS
    # What crosses between the stages is that of one pipeline, whatever the number of replicas.
    alone = plan_model(SMALL, stages=2, levels=0, **asked)
    assert scored(plan).communication["stages"] == scored(alone).communication["stages"]


def test_an_array_with_stages_is_the_same_as_a_number_of_stages() -> None:
    asked: dict[str, Any] = {"hardware": "h100-8x", "strategy": "owt"}
    first, second = plan_model(SMALL, array=("s4", 2, 2), **asked), plan_model(SMALL, array=("s4",), **asked)
    assert first.to_json() == plan_model(SMALL, array=(2, 2), stages=4, **asked).to_json()
    assert second.to_json() == plan_model(SMALL, levels=0, stages=4, **asked).to_json()


# Stages and device groups


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight devices beside two groups of four, which are one group."""
    kinds = {
        "a": kind(devices=8),
        "b": kind(devices=4, peak="3 TFLOP/s", overlap="full"),
        "c": kind(devices=4, peak="0.5 TFLOP/s"),
    }
    pair = groups_of("pair", group("b.yaml"), group("c.yaml"))
    return write_machine(tmp_path_factory.mktemp("nested"), kinds, [group("a.yaml"), pair])


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight slow devices and four fast ones."""
    kinds = {"a": kind(devices=8), "b": kind(devices=4, peak="3 TFLOP/s")}
    return write_machine(tmp_path_factory.mktemp("flat"), kinds, [group("a.yaml"), group("b.yaml")])


def on_groups(file: Path, **asked: Any) -> Plan:
    return plan_model(SMALL.with_batch(8), hardware=load_machine(file), microbatches=2, **asked)


def test_a_group_of_groups_holds_stages_with_shares_of_their_own(nested: Path) -> None:
    plan = on_groups(nested, strategy="accpar", stages=4)
    assert {stage.group for stage in staged(plan).stages} == {"a", "pair"}
    assert plan.num_devices == 16
    assert plan.arrays == {"a": [2, 2], "b": [2], "c": [2]}
    (uneven,) = [split for split in plan.splits if split.sides is not None]
    assert (uneven.group, uneven.level) == ("pair", 0)
    on_pair = {layer for stage in staged(plan).stages if stage.group == "pair" for layer in stage.layers}
    assert {*uneven.choices} == on_pair
    names = [own.group for own in scored(plan).groups or ()]
    assert len(names) == 6
    assert sum(name.endswith((" b", " c")) for name in names) == 4


def test_stages_are_balanced_by_the_fullest_of_their_groups(nested: Path) -> None:
    plan = on_groups(nested, strategy="accpar", stages=2, balance="memory")
    assert staged(plan).bottleneck == scored(plan).memory_bytes


def test_groups_run_their_shares_as_pipelines_of_their_own(flat: Path) -> None:
    """By samples the groups exchange all weights' gradients, and nothing else crosses between them."""
    plan = on_groups(flat, strategy="dp", array=(2, "s2"))
    assert (staged(plan).outside, plan.num_devices) == (1, 4)
    assert [stage.group for stage in staged(plan).stages] == [None, None]
    assert scored(plan).communication["H1"] == 2 * 4 * WEIGHTS


def test_stages_inside_levels_of_equal_groups_receive_as_on_identical_devices(tmp_path: Path) -> None:
    """Half of what a stage receives comes to each of the replicas that a level of each group makes."""
    kinds = {"whole": kind(devices=8), **{name: kind(devices=4) for name in "ab"}}
    halves = write_machine(tmp_path, kinds, [group(f"{name}.yaml") for name in "ab"])
    plans = (on_groups(file, strategy="dp", array=(2, 2, "s2")) for file in (halves, tmp_path / "whole.yaml"))
    steps = [[own for own in run_plan(plan).step.pieces if own.level == SEAM] for plan in plans]
    received = [[(own.seconds, own.num_bytes) for own in pieces] for pieces in steps]
    assert received[0] == received[1] != []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ((2, "s8"), "array: found 1 levels and splits of a stage of 'b'; allowed: at least 2"),
        (
            (2, 2, "s3", 2),
            "array: found 4 devices in each of 3 stages of 'a'; allowed: at most its 8 devices",
        ),
    ],
)
def test_a_stage_needs_a_part_of_each_group(nested: Path, array: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        on_groups(nested, array=array)
    assert str(caught.value) == message
