"""Equal layers and tensors are counted once; all transfers are those of each layer by itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.machine.machine import unevenness
from hypar.machine.setting import Setting, degrees
from hypar.schedule.alike import alike
from hypar.schedule.moves import moves_between, moves_inside, moves_of, timed
from hypar.sharding.amounts.above import between_of
from hypar.sharding.amounts.counted import received_between, received_inside
from hypar.sharding.amounts.flows import flows_of
from hypar.sharding.amounts.parts import parts_of
from hypar.sharding.conventions import FUSED, MOVED, PAPER
from hypar.sharding.placement import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.moves import Move
    from hypar.sharding.placement import Options

ARRAY = (2, 2, 2)
Moved = list[tuple["Move", ...]]


def chosen(graph: ContractedGraph, seed: int) -> list[Options]:
    """A choice of each layer at each level, at random."""
    draw = random.Random(seed)
    dims = [("batch", "in_channels" if layer.weighted else "channels") for layer in graph.layers]
    return [tuple(cut(draw.choice(own), 2) for _ in ARRAY) for own in dims]


def one_by_one(setting: Setting, graph: ContractedGraph, choices: Sequence[Options]) -> tuple[Moved, Moved]:
    """The transfers of each layer and of each tensor by itself."""
    layers, inner, outer = graph.layers, list[tuple["Move", ...]](), list[tuple["Move", ...]]()
    if setting.convention == PAPER:
        for at, layer in enumerate(layers):
            inner.append(moves_inside(setting, layer.einsum, layer.output_elements, choices[at]))
        for tensor in graph.tensors:
            ends = tensor.producer, tensor.consumer
            pair = choices[ends[0]], choices[ends[1]]
            einsums = layers[ends[0]].einsum, layers[ends[1]].einsum
            outer.append(moves_between(setting, einsums, tensor.content, pair))
        return inner, outer
    flows = flows_of(graph, setting.convention)
    for at, layer in enumerate(layers):
        counts = degrees(choices[at], layer.einsum.counted)
        fuller = {tensor: unevenness(layer.einsum, counts, tensor) for tensor in layer.einsum.tensors}
        found = received_inside(layer.einsum, flows.sums[at], ARRAY, choices[at])
        inner.append(timed(setting, found, fuller))
    for tensor, flow in zip(graph.tensors, flows.tensors, strict=True):
        between = between_of(graph, tensor, flow)
        pair = choices[tensor.producer], choices[tensor.consumer]
        reader = layers[tensor.consumer].einsum
        found = received_between(reader, between, parts_of(flow, between), ARRAY, pair)
        inner[tensor.producer] += timed(setting, tuple(one for one in reversed(found) if one.inside))
        outer.append(timed(setting, tuple(one for one in found if not one.inside)))
    return inner, outer


@pytest.mark.parametrize("convention", [PAPER, MOVED, FUSED])
@pytest.mark.parametrize("model", ["vgg16", "resnet50"])
def test_transfers_are_those_of_each_layer_by_itself(model: str, convention: str) -> None:
    graph, machine = load_model(model).contracted, load_machine("hmc")
    setting = Setting(machine=machine, array=ARRAY, element_bytes=4, convention=convention)
    for seed in range(3):
        choices = chosen(graph, seed)
        assert moves_of(setting, graph, choices) == one_by_one(setting, graph, choices)


def test_equal_layers_and_tensors_are_one_object() -> None:
    graph = load_model("resnet152").contracted
    found = alike(graph, MOVED)
    assert len(found.layers) == len(graph.layers)
    assert len({*found.layers}) == len({layer.einsum for layer in graph.layers})
    assert len({*found.tensors}) < len(graph.tensors) / 4
    assert alike(graph, MOVED) is found


def test_the_transfers_of_equal_layers_are_one_object() -> None:
    graph = load_model("resnet50")
    plan = plan_model(graph, levels=3)
    setting = Setting(machine=load_machine("hmc"), array=ARRAY, element_bytes=4, convention=MOVED)
    inner, outer = moves_of(setting, graph.contracted, [plan.choices(layer) for layer in plan.layers])
    assert len({id(moves) for moves in inner}) < len(inner) / 2
    assert len({id(moves) for moves in outer}) < len(outer) / 2


def test_phases_part_the_transfers() -> None:
    graph = load_model("vgg16")
    plan = plan_model(graph, levels=3)
    setting = Setting(machine=load_machine("hmc"), array=ARRAY, element_bytes=4, convention=MOVED)
    inner, outer = moves_of(setting, graph.contracted, [plan.choices(layer) for layer in plan.layers])
    for moves in (*inner, *outer):
        assert sorted(move for own in moves.phases.values() for move in own) == sorted(moves)
        assert all(move.phase == phase for phase, own in moves.phases.items() for move in own)
