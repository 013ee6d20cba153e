"""Layer blocks as the pipeline's paper counts them, beside a count of every tensor one by one."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from hypar import LayerGraph, load_model
from hypar.studies.sections.pipeline.blocks import balanced, crossing, divided

if TYPE_CHECKING:
    from hypar.network.layer import Layer

MODELS = ("vgg-f", "resnet18", "googlenet", "lenet-c")


def stored(graph: LayerGraph) -> dict[str, Layer]:
    """For each layer the one whose output its own output is, in another shape."""
    found: dict[str, Layer] = {}
    for layer in graph.layers:
        found[layer.name] = found[layer.inputs[0]] if layer.op_name == "flatten" else layer
    return found


def upstream(graph: LayerGraph, layer: Layer) -> set[str]:
    """A layer and all that it follows from."""
    named = {other.name: other for other in graph.layers}
    return {layer.name}.union(*(upstream(graph, named[name]) for name in layer.inputs))


@pytest.mark.parametrize("model", MODELS[:2])
def test_every_tensor_that_crosses_a_place_crosses_it_once(model: str) -> None:
    graph = load_model(model)
    own, trained = stored(graph), {layer.name for layer in graph.layers if layer.num_parameters}
    forward, backward = crossing(graph.layers)
    for place in range(len(graph.layers) + 1):
        made = {layer.name for layer in graph.layers[:place]}
        read = {own[name].name for layer in graph.layers[place:] for name in layer.inputs}
        tensors = [layer for layer in graph.layers if layer.name in made & read]
        assert forward[place] == sum(math.prod(layer.shape.values()) for layer in tensors)
        errors = [layer for layer in tensors if upstream(graph, layer) & trained]
        assert backward[place] == sum(math.prod(layer.shape.values()) for layer in errors)


def test_a_shortcut_crosses_a_residual_block_beside_the_block_s_own_tensors() -> None:
    graph = load_model("resnet18")
    names = [layer.name for layer in graph.layers]
    forward, _ = crossing(graph.layers)
    inside, behind = names.index("layer1.0.conv2"), names.index("layer1.0.relu2")
    assert forward[inside] == 2 * 64 * 56 * 56
    assert forward[behind] == 64 * 56 * 56


def test_the_network_s_input_has_no_error() -> None:
    forward, backward = crossing(load_model("lenet-c").layers)
    assert (forward[1], backward[1]) == (28 * 28, 0)


@pytest.mark.parametrize("model", MODELS)
def test_all_layers_together_are_the_network(model: str) -> None:
    graph = load_model(model).with_batch(8)
    (whole,) = divided(graph, graph.layers[0].name).stages
    assert whole.memory["gradients"] == 4 * graph.num_parameters
    statistics = sum(2 * layer.shape["channels"] for layer in graph.layers if layer.op_name == "batch_norm")
    assert whole.memory["weights"] == 4 * (graph.num_parameters + statistics)
    assert whole.macs == graph.macs(8)
    outputs = [math.prod(layer.shape.values()) for layer in graph.layers if layer.op_name != "flatten"]
    assert whole.memory["activations"] == whole.in_flight * 4 * 8 * sum(outputs)
    assert whole.memory["errors"] == 4 * 8 * sum(outputs)
    assert (whole.memory["received"], whole.returned_bytes, whole.sent_bytes) == (0, 0, 0)


def test_blocks_add_up_and_meet() -> None:
    graph = load_model("resnet18").with_batch(2)
    names = [graph.layers[place].name for place in (0, 11, 30)]
    parts = divided(graph, ",".join(names)).stages
    (whole,) = divided(graph, names[0]).stages
    for name in ("weights", "gradients", "errors"):
        assert sum(part.memory[name] for part in parts) == whole.memory[name]
    assert sum(part.macs for part in parts) == whole.macs
    for part, behind in pairwise(parts):
        assert behind.memory["received"] == behind.in_flight * part.sent_bytes
        assert behind.returned_bytes == part.sent_bytes


@pytest.mark.parametrize("quantity", ["macs", "memory_bytes"])
@pytest.mark.parametrize("stages", [2, 3])
def test_no_blocks_are_better(quantity: str, stages: int) -> None:
    graph = load_model("lenet-c").with_batch(16)
    names = [layer.name for layer in graph.layers]
    every = [
        divided(graph, ",".join((names[0], *inner)))
        for inner in itertools.combinations(names[2:], stages - 1)
    ]
    costs = [max(getattr(stage, quantity) for stage in one.stages) for one in every]
    best = balanced(graph, stages, quantity)
    assert max(getattr(stage, quantity) for stage in best.stages) == min(costs)
