"""Stages over the split outside all levels, each cut by itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hypar import check_plan, load_machine, load_model, plan_model, read_plan
from hypar.errors import OptionError
from hypar.recipe import Recipe
from hypar.staging.blocks import Blocks

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import LayerGraph, Machine, Plan

HMC = load_machine("hmc")
OVERLAPPING = load_machine("hmc", {"overlap": "full"})
LENET = load_model("lenet-c")


def blocks_of(
    plan: Plan, graph: LayerGraph, machine: Machine, stages: int = 1, microbatches: int = 1
) -> Blocks:
    """All blocks of a network, cut as a plan without stages is."""
    return Blocks.of(Recipe.of(plan, machine), graph, (stages, microbatches))


# Blocks


@pytest.mark.parametrize(
    "asked",
    [
        {"strategy": "hypar", "levels": 3},
        {"strategy": "accpar", "levels": 2, "cost": "time", "search": "joint"},
        {"strategy": "deepa", "array": [8]},
        {"strategy": "deepa", "array": [8], "mode": "paper"},
    ],
    ids=str,
)
@pytest.mark.parametrize("model", ["lenet-c", "resnet18"])
@pytest.mark.parametrize("machine", [HMC, OVERLAPPING], ids=["one after another", "overlapping"])
def test_a_block_of_all_layers_is_a_plan_without_stages(
    machine: Machine, model: str, asked: dict[str, Any]
) -> None:
    graph = load_model(model).with_batch(32)
    plan = plan_model(graph, hardware=machine, optimizer="adam", **asked)
    assert plan.score is not None
    whole = blocks_of(plan, graph, machine).block(0, len(plan.layers))
    assert [tuple(chosen) for chosen in whole.cuts.lane.choices] == [*map(plan.choices, plan.layers)]
    assert whole.seconds(1) == pytest.approx(plan.score.time_s, rel=1e-12)
    assert whole.held(1) == plan.score.memory
    assert math.fsum(move.total_bytes for move in whole.cuts.step.moves if move) == pytest.approx(
        plan.score.communication_bytes, rel=1e-12
    )


def test_what_comes_from_another_stage_is_kept_once_by_layers_and_not_by_joins() -> None:
    """A shortcut's convolution reads what the block's first one does; an addition keeps nothing."""
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    blocks = Blocks.of(replace(Recipe.of(plan_model(graph), HMC), array=()), graph, (2, 4))
    samples, size = 2, 4
    forked = blocks.block(names.index("layer2.0.conv1"), names.index("layer2.0.add"))
    read, halved = 64 * 56 * 56, 128 * 28 * 28
    # Read twice, between the two convolutions, and the two outputs that are sent.
    assert forked.held(1)["activations"] == samples * size * (read + 3 * halved)
    assert forked.held(3)["activations"] == 3 * forked.held(1)["activations"]
    joined = blocks.block(names.index("layer2.0.add"), names.index("layer2.1.conv2"))
    assert joined.held(1)["activations"] == samples * size * 2 * halved


def test_a_stage_has_a_buffer_for_what_it_receives() -> None:
    """Lenet-c: 12 x 12 x 20 to the second convolution, 4 x 4 x 50 to the first linear layer, 500 to the second."""
    graph = LENET.with_batch(64)
    blocks = Blocks.of(replace(Recipe.of(plan_model(graph), HMC), array=()), graph, (4, 4))
    sent = [16 * 4 * elements for elements in (12 * 12 * 20, 4 * 4 * 50, 500)]
    assert [blocks.block(*ends).held(1)["buffers"] for ends in ((0, 1), (1, 2), (2, 4), (3, 4))] == [
        sent[0], sent[0], sent[1], sent[2],
    ]  # fmt: skip


# Microbatches


def test_a_timeline_has_only_so_many_tasks() -> None:
    with pytest.raises(
        OptionError, match=r"microbatches: found 1,048,576; allowed: at most 52,428 in 2 stages$"
    ):
        plan_model(LENET, batch=2**20, stages=2, levels=1, microbatches=2**20, hardware=HMC)


# Score


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "layer-block"])
@pytest.mark.parametrize("machine", [HMC, OVERLAPPING], ids=["one after another", "overlapping"])
@pytest.mark.parametrize(("model", "levels"), [("lenet-c", 0), ("lenet-c", 1), ("resnet18", 2)])
def test_items_of_a_score_sum_to_its_totals(model: str, levels: int, machine: Machine, schedule: str) -> None:
    plan = plan_model(model, batch=64, stages=4, levels=levels, hardware=machine, schedule=schedule)
    score = plan.score
    assert score is not None
    assert score.groups is not None
    assert math.fsum(score.critical.values()) == pytest.approx(score.time_s, rel=1e-12)
    assert (score.time, score.overlapped_s) == (score.critical, 0)
    assert math.fsum((score.energy or {}).values()) == score.energy_j
    assert math.fsum(score.memory.values()) == pytest.approx(score.memory_bytes, rel=1e-12)
    assert score.memory_bytes == max(group.memory_bytes for group in score.groups)
    assert math.fsum(score.communication.values()) == score.communication_bytes
    assert [*score.communication] == ["stages", *(f"H{level + 1}" for level in range(levels))]
    names = [f"stage {stage}" for stage in range(1, 5)]
    assert [group.group for group in score.groups] == [*score.busy][:4] == names
    for group in score.groups:
        assert score.busy[group.group] + group.idle_s == pytest.approx(score.time_s, rel=1e-9)
        if machine is HMC:
            worked = group.computing_s + group.communicating_s
            assert worked == pytest.approx(score.busy[group.group], rel=1e-9)


# Plan files


@pytest.mark.parametrize("solver", [None, "elimination"])
def test_a_plan_of_stages_is_read_and_planned_again(tmp_path: Path, solver: str | None) -> None:
    """Stages without branches are solved by another solver than those with them."""
    asked: dict[str, Any] = {"stages": 4, "levels": 1, "hardware": HMC, "pins": "fc=mp", "solver": solver}
    plan = plan_model("resnet18", batch=16, **asked)
    assert plan.solver == ("elimination, chain" if solver is None else solver)
    file = tmp_path / "plan.json"
    plan.write(file)
    assert read_plan(file) == plan
    assert read_plan(file).to_json() == plan.to_json() == file.read_text()
    assert "null" not in plan.to_json()
    assert plan.pins == ["fc=in_channels"]
    verdict = check_plan(file)
    assert verdict.changes == ()
    assert verdict.fresh.to_json() == plan.to_json()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stages": 2, "levels": 0, "pins": "fc1=mp"}, "pins: given where no layer is cut; allowed: levels inside"),
        ({"stages": 2, "levels": 1, "pins": "fc1@H2=mp"}, "pin 'fc1@H2=mp': found level 'H2'; allowed: H1 to H1"),
        ({"stages": "best", "pins": "fc1@H2=mp"},
         "pin 'fc1@H2=mp': a level where the best stages are sought; allowed: one for all levels, as fc1=in_channels"),
    ],
    ids=str,
)  # fmt: skip
def test_pins_that_cannot_hold_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        plan_model(LENET, hardware=HMC, **asked)


def test_pins_hold_inside_every_stage() -> None:
    plan = plan_model(LENET, hardware=HMC, stages=2, levels=2, pins=["conv*@H2=mp", "fc2=dp"])
    assert [plan.dims(layer)[1] for layer in ("conv1", "conv2")] == ["in_channels"] * 2
    assert plan.dims("fc2") == ("batch", "batch")
