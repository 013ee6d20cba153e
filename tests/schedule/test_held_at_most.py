"""The bound of a device's memory against what is held."""

from __future__ import annotations

import math

from hypar import load_model, plan_model
from hypar.machine.load import load_machine
from hypar.machine.setting import Setting
from hypar.schedule.lanes import Lane
from hypar.schedule.memory import held_at_most, held_besides, memory_of
from hypar.schedule.step import transfers_of
from hypar.sharding.levels import TENSORS
from tests.effort import crossed


@crossed(
    {
        "levels": [1, 4],
        "space": ["batch", "in_channels", "batch,in_channels,out_channels", "height"],
        "model": ["lenet-c", "alexnet", "resnet18", "inception-v3"],
    }
)
def test_no_device_holds_more(model: str, space: str, levels: int) -> None:
    graph = load_model(model)
    plan = plan_model(graph, levels=levels, strategy="accpar", space=_of(model, space), search="greedy")
    nodes = graph.nodes(plan.graph)
    machine = load_machine("tpu-v3", {"devices": 2**levels})
    setting = Setting(
        machine=machine, array=(2,) * levels, element_bytes=4, optimizer="adam", convention="paper"
    )
    lane = Lane(nodes, [plan.choices(layer) for layer in plan.layers], setting)
    largest = max(
        *(layer.elements(tensor) for layer in nodes.layers for tensor in TENSORS),
        *(layer.einsum.elements("output") for layer in nodes.layers),
        *(tensor.elements for tensor in nodes.tensors),
    )
    held = math.fsum(memory_of(lane, transfers_of([lane]), 0).values())
    assert held <= held_besides(lane, largest) <= held_at_most(lane, nodes, largest)


def _of(model: str, space: str) -> str:
    return (
        "conv:height linear:batch"
        if space == "height" and model != "lenet-c"
        else space.replace("height", "batch")
    )
