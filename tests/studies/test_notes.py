"""The notes on what a score leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.machine.load_heterogeneous import load_hardware
from hypar.planning.replay import run_plan
from hypar.registry import data_names, plugin_names
from hypar.studies.notes import machine_lines, notes

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

MACHINES = [name for name in data_names("hardware") if name != "tpu-v2-v3"]


def image(*between: str) -> LayerGraph:
    """Build two convolutions and a linear layer with other layers between."""
    layers: list[dict[str, object]] = [
        {"op": "input", "channels": 4, "height": 8, "width": 8},
        {"name": "c1", "op": "conv", "out_channels": 8, "kernel": 3, "padding": 1},
        *[dict[str, object](op=op) for op in between],
        {"name": "c2", "op": "conv", "out_channels": 8, "kernel": 3, "padding": 1},
        {"op": "flatten"},
        {"name": "fc", "op": "linear", "out_features": 10},
    ]
    return load_model({"source": "made up", "batch": 16, "layers": layers})


def test_the_machines_have_every_compute_model() -> None:
    used = {load_machine(name).content.device.compute["name"] for name in MACHINES}
    assert used == {*plugin_names("compute_models")}


def test_no_task_of_a_step_computes_a_layer_without_a_weight() -> None:
    graph = load_model("resnet18").with_batch(32)
    for graph_of, strategy in (("contracted", "hypar"), ("operators", "deepa")):
        plan = plan_model(graph, levels=2, strategy=strategy, graph=graph_of, hardware="p100-4x4")
        ran = run_plan(plan, model=graph)
        pairs = zip(ran.step.tasks, ran.step.layers, ran.step.moves, strict=True)
        computing = {layer for task, layer, move in pairs if move is None and task.seconds}
        layers = ran.lanes[0].graph.layers
        assert computing == {at for at, layer in enumerate(layers) if layer.weighted}
        assert len(computing) < len(layers)


def test_the_layers_without_time_are_named() -> None:
    graph, machine = load_model("resnet18"), load_machine("hmc")
    plan = plan_model(graph, levels=4, hardware=machine)
    (line,) = machine_lines(plan, graph, machine)
    computes = {layer.op_name for layer in graph.layers if layer.op.unweighted_flop(layer.input_shapes)}
    said, _, names = line.partition(": ")
    assert said == "no weights, so not timed"
    assert {*names.split(", ")} == computes
    assert "batch_norm" in computes
    assert not computes & {"conv", "linear", "flatten", "input"}
    assert [*machine_lines(plan, image(), machine)] == []
    assert [*machine_lines(plan, graph, None)] == []


@pytest.mark.parametrize(
    ("hardware", "asked", "line"),
    [
        ("hmc", {"array": [4]}, "4 of the 16 devices of hmc are used"),
        ("hmc", {"levels": 4}, ""),
        ("hmc", {"levels": 1, "stages": 2}, "4 of the 16 devices of hmc are used"),
        ("tpu-v2-v3", {"levels": 2}, "4 of the 256 devices of tpu-v2-v3 are used"),
        ("tpu-v2-v3", {}, ""),
    ],
)
def test_devices_that_are_not_used_are_remarked(hardware: str, asked: dict[str, int], line: str) -> None:
    graph, machine = image(), load_hardware(hardware)
    plan = plan_model(graph.with_batch(256), hardware=machine, **asked)  # type: ignore[arg-type]
    assert [*machine_lines(plan, graph, machine)] == [line] * bool(line)
    assert [text for text in notes(plan, graph, machine) if "are used" in text] == [line] * bool(line)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, True),
        ({"space": "batch"}, False),
        ({"strategy": "dp"}, False),
    ],
)
def test_a_plan_of_deepa_names_what_its_space_lacks(asked: dict[str, str], said: bool) -> None:
    graph, machine = load_model("alexnet"), load_machine("p100-4x4")
    given = {"strategy": "deepa", **asked}
    plan = plan_model(graph, array=[16], hardware=machine, **given)  # type: ignore[arg-type]
    lines = [line for line in notes(plan, graph, machine) if "as published" in line]
    if not said:
        assert not lines
        return
    wider = plan_model(graph, array=[16], hardware=machine, strategy="deepa", space="all divisors")
    gain = 1 - wider.cost.value / plan.cost.value
    assert len(lines) == 1
    assert (
        f"has no in_channels and no divisors but powers of two: with --space 'all divisors' the cost is {gain:.2%} lower"
        in lines[0]
    )


def test_a_large_space_beside_deepas_is_named_alone() -> None:
    graph, machine = load_model("alexnet"), load_machine("h100-8x")
    plan = plan_model(graph, array=[64], hardware=machine, strategy="deepa")
    assert any(line.endswith("--space 'all divisors' has both") for line in notes(plan, graph, machine))
