"""Layers added up, beside a count of every tensor one by one."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import LayerGraph, load_machine, load_model
from hypar.machine.setting import Setting, degrees
from hypar.studies.pipeline.spans import Span, Spans, crossing, held, layer_sums

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
    whole = layer_sums(graph, None).span(0, len(graph.layers))
    assert whole.gradients == 4 * graph.num_parameters
    statistics = sum(2 * layer.shape["channels"] for layer in graph.layers if layer.op_name == "batch_norm")
    assert whole.weights == 4 * (graph.num_parameters + statistics)
    assert whole.macs == graph.macs(8)
    outputs = [math.prod(layer.shape.values()) for layer in graph.layers if layer.op_name != "flatten"]
    assert whole.activations == 4 * 8 * sum(outputs)
    assert (whole.received, whole.returned, whole.sent, whole.fed_back) == (0, 0, 0, 0)


def test_spans_add_up_and_meet() -> None:
    graph = load_model("resnet18").with_batch(2)
    layers = layer_sums(graph, None)
    bounds = (0, 11, 30, len(graph.layers))
    parts = [layers.span(*ends) for ends in pairwise(bounds)]
    whole = layers.span(0, len(graph.layers))
    for name in ("weights", "gradients", "activations", "macs"):
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)
    for part, behind in pairwise(parts):
        assert (part.sent, part.fed_back) == (behind.received, behind.returned)


def test_all_spans_at_once_are_each_span() -> None:
    graph = load_model("lenet-c")
    places = [0, 2, 5, len(graph.layers)]
    machine = load_machine("hmc")
    layers = layer_sums(graph, Setting(machine=machine, array=(), element_bytes=4))
    every = Spans(layers, places)
    for row, start in enumerate(places[:-1]):
        for column in range(row + 1, len(places)):
            single = layers.span(start, places[column])
            for name, one in zip(Span._fields, single, strict=True):
                all_of_it = np.broadcast_to(getattr(every, name), (len(places) - 1, len(places)))
                assert all_of_it[row, column] == pytest.approx(one, rel=1e-12)
    with pytest.raises(AttributeError, match="nonsense"):
        every.nonsense  # noqa: B018


def test_seconds_are_those_of_whole_layers_on_one_device() -> None:
    graph = load_model("lenet-c").with_batch(16)
    machine = load_machine("hmc")
    setting = Setting(machine=machine, array=(), element_bytes=4, optimizer="adam")
    whole = layer_sums(graph, setting).span(0, len(graph.layers))
    times = [
        machine.layer_time(layer.einsum, degrees(()), 4)
        for layer in graph.contracted.layers
        if layer.weighted
    ]
    assert whole.forward_s == pytest.approx(sum(time.seconds["forward"] for time in times))
    both = (time.seconds["backward"] + time.seconds["gradient"] for time in times)
    assert whole.backward_s == pytest.approx(sum(both))
    assert whole.update_s == pytest.approx(sum(setting.update_seconds(time) for time in times))


def test_what_a_stage_holds() -> None:
    layers = layer_sums(load_model("vgg-f").with_batch(2), None).span(8, 13)
    found = held(layers, 3, "adam")
    assert found["optimizer"] == 2 * found["gradients"] == 2 * layers.gradients
    assert (found["activations"], found["received"]) == (3 * layers.activations, 3 * layers.received)
    assert found["errors"] == layers.activations
