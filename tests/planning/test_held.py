"""The memory of a score against the bytes that simulated devices hold at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model
from tests.effort import crossed, examples, late
from tests.held import held_by
from tests.heterogeneous import (
    CONV,
    INPUT,
    LINEAR,
    branches,
    chains,
    group,
    groups_of,
    kind,
    machines,
    networks,
    skips,
    write_machine,
)
from tests.heterogeneous import written as network
from tests.planning.test_random_trees import identical, planned, trees, written

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from hypar import LayerGraph
    from tests.heterogeneous import Drawn


@crossed(
    {
        "strategy": late(["dp", "mp", "hypar", "accpar"], "mp", "hypar"),
        "levels": late([1, 2, 3], 3),
        "batch": late([8, 16], 16),
    }
)
def test_a_device_holds_what_the_score_says(strategy: str, levels: int, batch: int) -> None:
    """Equal to the byte: every array of the run is one that the score counts."""
    graph = load_model("lenet-c").with_batch(batch)
    plan = plan_model(graph, levels=levels, strategy=strategy, hardware="hmc", convention="moved")
    (memory,) = held_by(plan, graph)
    assert memory.found == memory.said


@pytest.mark.parametrize("schedule", late(["gpipe", "1f1b"], "gpipe"))
def test_a_stage_holds_the_microbatches_in_flight(schedule: str) -> None:
    graph = load_model("lenet-c").with_batch(16)
    asked: dict[str, Any] = {"stages": 2, "levels": 1, "microbatches": 4, "schedule": schedule}
    plan = plan_model(graph, hardware="hmc", convention="moved", **asked)
    found = held_by(plan, graph)
    assert len(found) == 2
    assert all(memory.within for memory in found)


@settings(max_examples=examples(300, 5))
@given(networks, identical(), trees())
def test_a_device_of_a_random_array_holds_what_the_score_says(
    tmp_path_factory: pytest.TempPathFactory, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]
) -> None:
    """Whatever the pieces, which need not be even, and whatever the convention of the bytes; on up to 24 devices."""
    plan = planned(graph, written(tmp_path_factory.mktemp("tree"), drawn), asked)
    if plan is not None:
        assert all(memory.within for memory in held_by(plan, graph))


@settings(max_examples=examples(200, 3))
@given(st.one_of(chains(), skips()), machines(most=8), trees())
def test_a_device_of_a_random_group_holds_what_the_score_says(
    tmp_path_factory: pytest.TempPathFactory, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]
) -> None:
    """Whatever the shares, of which devices hold whole elements; on up to 24 devices."""
    plan = planned(graph, written(tmp_path_factory.mktemp("tree"), drawn), asked)
    if plan is not None:
        assert all(memory.within for memory in held_by(plan, graph))


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.one_of(chains(), skips()), st.sampled_from([2, 3, 4, 6, 8, 12]), st.sampled_from(["sgd", "adam"]))
def test_a_device_of_a_grid_holds_what_the_score_says(
    tmp_path_factory: pytest.TempPathFactory, graph: LayerGraph, devices: int, optimizer: str
) -> None:
    """Each device has its own shards; of what arrives the score counts the most that any device receives, by a seventh at most."""
    file = written(tmp_path_factory.mktemp("grid"), ({"a": kind(devices=devices)}, []))
    plan = planned(graph, file, {"array": (devices,), "strategy": "deepa", "optimizer": optimizer})
    if plan is not None:
        (memory,) = held_by(plan, graph)
        assert memory.found <= memory.said * (1 + 1e-9) <= 1.15 * memory.found


def test_rows_that_windows_read_across_borders(tmp_path: Path) -> None:
    """Equal to the byte: a device holds the rows of its neighbours that its windows read."""
    layers = INPUT.format(7, 8, 7) + CONV.format("conv", 2, "input") + "  - {name: flat, op: flatten}\n"
    graph = network(layers + LINEAR.format("fc", 24, "flat"), 2)
    file = written(tmp_path, ({"a": kind(devices=4)}, []))
    plan = planned(graph, file, {"array": (4,), "strategy": "deepa", "pins": "conv=height4"})
    assert plan is not None
    (memory,) = held_by(plan, graph)
    assert memory.found == memory.said


def test_devices_that_are_idle_for_a_reader(tmp_path: Path) -> None:
    """They have the error of what they have made, which the reader's device sends them."""
    layers = INPUT.format(1, 8, 1) + "  - {name: flat, op: flatten}\n" + LINEAR.format("fc0", 4, "flat")
    graph = network(layers + LINEAR.format("fc1", 4, "fc0") + LINEAR.format("fc2", 1, "fc1"), 2)
    file = written(tmp_path, ({"a": kind(devices=3)}, []))
    plan = planned(graph, file, {"array": (3,), "strategy": "deepa"})
    assert plan is not None
    assert plan.splits[0].choices["fc2"] == {"batch": 1}
    assert all(memory.within for memory in held_by(plan, graph))


def test_idle_devices_of_groups(tmp_path: Path) -> None:
    """Devices that have no sample of their own receive nothing of a gradient."""
    kinds = {name: kind(devices=devices) for name, devices in zip("abc", (2, 4, 2), strict=True)}
    file = write_machine(tmp_path, kinds, [group(f"{name}.yaml") for name in kinds])
    layers = INPUT.format(24, 8, 4) + CONV.format("stem", 48, "input") + CONV.format("beside", 48, "stem")
    layers += "  - {name: join, op: concat, inputs: [beside, stem]}\n  - {name: flat, op: flatten}\n"
    graph = network(layers + LINEAR.format("fc", 24, "flat") + LINEAR.format("last", 16, "fc"), 16)
    plan = planned(graph, file, {"strategy": "optimal", "cost": "accpar", "integral": True})
    assert plan is not None
    assert any({"batch": 1} in split.choices.values() for split in plan.splits)
    assert all(memory.within for memory in held_by(plan, graph))


def test_parts_of_a_stage_that_share_a_tensor(tmp_path: Path) -> None:
    """A tensor that a later part of its stage reads is held by the microbatches that wait for that part."""
    layers = INPUT.format(4, 8, 3) + CONV.format("stem", 14, "input") + CONV.format("beside", 14, "stem")
    layers += "  - {name: sum, op: add, inputs: [beside, stem]}\n  - {name: flat, op: flatten}\n"
    graph = network(layers + LINEAR.format("fc", 13, "flat"), 16)
    asked: dict[str, Any] = {"stages": 2, "levels": 2, "schedule": "interleaved", "parts": 2}
    file = written(tmp_path, ({"a": kind(devices=8)}, []))
    plan = planned(graph, file, {"strategy": "mp", **asked})
    assert plan is not None
    assert plan.stages is not None
    assert [list(span) for span in plan.stages.stages[0].spans] == [["stem"], ["sum"]]
    assert all(memory.found == memory.said for memory in held_by(plan, graph))


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(branches(), st.sampled_from([2, 2, 3, 4]), st.sampled_from([2, 3]), st.integers(0, 2), st.data())
def test_a_device_of_parts_of_a_stage_holds_what_the_score_says(
    tmp_path_factory: pytest.TempPathFactory,
    graph: LayerGraph,
    stages: int,
    parts: int,
    levels: int,
    data: st.DataObject,
) -> None:
    """Whatever the parts share, in the order of their work."""
    asked: dict[str, Any] = {"stages": stages, "parts": parts, "levels": levels, "schedule": "interleaved"}
    asked["microbatches"] = data.draw(st.sampled_from([stages, 2 * stages]))
    asked["strategy"] = data.draw(st.sampled_from(["dp", "mp", "hypar", "accpar", "optimal"]))
    asked["convention"] = data.draw(st.sampled_from(["paper", "moved", "fused"]))
    file = written(tmp_path_factory.mktemp("parts"), ({"a": kind(devices=16)}, []))
    plan = planned(graph, file, asked)
    if plan is not None:
        assert all(memory.within for memory in held_by(plan, graph))


def test_errors_of_several_parts_and_stages(tmp_path: Path) -> None:
    """A stage hands on what its later parts send back, then takes what other stages send; what waits stays until then."""
    layers = INPUT.format(8, 8, 4) + CONV.format("conv0", 8, "input") + CONV.format("conv1", 8, "conv0")
    layers += (
        "  - {name: relu, op: relu, inputs: conv1}\n  - {name: join, op: concat, inputs: [relu, conv1]}\n"
    )
    layers += (
        "  - {name: all, op: concat, inputs: [join, conv1]}\n  - {name: flat, op: flatten, inputs: all}\n"
    )
    graph = network(layers + LINEAR.format("fc", 8, "flat") + LINEAR.format("last", 8, "fc"), 16)
    asked: dict[str, Any] = {"stages": 2, "levels": 0, "microbatches": 4, "balance": "memory"}
    file = written(tmp_path, ({"a": kind(devices=16)}, []))
    plan = planned(graph, file, {"strategy": "mp", "schedule": "interleaved", "parts": 2, **asked})
    assert plan is not None
    assert all(memory.found == memory.said for memory in held_by(plan, graph))


def test_a_shard_that_several_layers_keep_is_held_once(tmp_path: Path) -> None:
    """Also where a layer reads it first that keeps nothing of it."""
    layers = INPUT.format(8, 8, 4) + CONV.format("stem", 16, "input") + CONV.format("beside", 16, "input")
    layers += "  - {name: sum, op: add, inputs: [beside, stem]}\n"
    layers += "".join(CONV.format(f"conv{number}", 8, "stem") for number in range(4))
    layers += "  - {name: all, op: concat, inputs: [sum, conv0, conv1, conv2, conv3]}\n"
    graph = network(layers + "  - {name: flat, op: flatten}\n" + LINEAR.format("fc", 8, "flat"), 16)
    asked: dict[str, Any] = {"starts": ("stem", "fc"), "levels": 1, "microbatches": 8, "schedule": "gpipe"}
    file = written(tmp_path, ({"a": kind(devices=4)}, []))
    plan = planned(graph, file, {"strategy": "mp", "pins": ("sum=channels",), **asked})
    assert plan is not None
    assert all(memory.found == memory.said for memory in held_by(plan, graph))


def test_uneven_splits_along_different_dims(tmp_path: Path) -> None:
    kinds = {name: kind(devices=devices) for name, devices in zip("abc", (1, 2, 3), strict=True)}
    pair = groups_of("pair", group("b.yaml"), group("c.yaml"), bandwidth="8 GB/s")
    file = write_machine(tmp_path, kinds, [group("a.yaml"), pair])
    layers = INPUT.format(8, 8, 4) + CONV.format("conv", 16, "input") + "  - {name: flat, op: flatten}\n"
    graph = network(layers + LINEAR.format("fc", 8, "flat") + LINEAR.format("last", 24, "fc"), 64)
    plan = planned(graph, file, {"strategy": "optimal", "convention": "moved"})
    assert plan is not None
    assert all(memory.within for memory in held_by(plan, graph))


@pytest.mark.slow
def test_uneven_splits_counted_by_fused(tmp_path: Path) -> None:
    file = write_machine(
        tmp_path, {name: kind(devices=1) for name in "abc"}, [group(f"{name}.yaml") for name in "abc"]
    )
    plan = planned(load_model("lenet-c").with_batch(8), file, {"strategy": "mp", "convention": "fused"})
    assert plan is not None
    assert all(memory.within for memory in held_by(plan, load_model("lenet-c").with_batch(8)))


def test_a_residual_branch_over_stages() -> None:
    layers = "  - {op: input, channels: 7, height: 8, width: 5}\n" + CONV.format("stem", 31, "input")
    layers += CONV.format("beside", 31, "stem") + "  - {name: sum, op: add, inputs: [beside, stem]}\n"
    graph = network(layers + "  - {name: flat, op: flatten}\n" + LINEAR.format("fc", 29, "flat"), 16)
    asked: dict[str, Any] = {
        "stages": 3,
        "levels": 1,
        "microbatches": 1,
        "schedule": "gpipe",
        "strategy": "mp",
    }
    plan = plan_model(graph, hardware="hmc", convention="moved", **asked)
    assert all(memory.within for memory in held_by(plan, graph))


@pytest.mark.parametrize("convention", late(["paper", "moved", "fused"], "paper", "moved"))
def test_memory_is_that_of_the_run(convention: str) -> None:
    """By ``paper`` that of a run by ``moved``; by ``fused`` sums are held divided as their reader reads them."""
    graph = load_model("lenet-c").with_batch(8)
    plan = plan_model(graph, levels=2, strategy="mp", hardware="hmc", convention=convention)
    (memory,) = held_by(plan, graph)
    assert memory.found == memory.said


@pytest.mark.slow
def test_shares_that_are_not_whole(tmp_path: Path) -> None:
    kinds = {name: kind(devices=1) for name in "abc"}
    file = write_machine(tmp_path, kinds, [group(f"{name}.yaml") for name in kinds])
    graph = load_model("lenet-c").with_batch(2)
    plan = planned(graph, file, {"strategy": "dp", "convention": "moved"})
    assert plan is not None
    assert all(memory.within for memory in held_by(plan, graph))
