"""The notes on what a score leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.planning.replay import run_plan
from hypar.registry import data_names, plugin_names
from hypar.studies.remarks import remarks

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
        pairs = zip(ran.step.places, ran.step.pieces, strict=True)
        computing = {place.layer for place, piece in pairs if not piece.collective and piece.seconds}
        layers = ran.lanes[0].graph.layers
        assert computing == {at for at, layer in enumerate(layers) if layer.weighted}
        assert len(computing) < len(layers)


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
    graph, machine = image(), load_machine(hardware)
    plan = plan_model(graph.with_batch(256), hardware=machine, **asked)  # type: ignore[arg-type]
    said = remarks(plan, graph, machine)
    assert [own.text for own in said if own.label == "machine"] == [line] * bool(line)
