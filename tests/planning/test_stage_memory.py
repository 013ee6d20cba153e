"""The memory of a pipeline's stages: four stages of VGG-16 counted by hand, and a network of each stage in PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from hypar import load_machine, load_model
from tests.planning.parts import scored, staged
from tests.schedule.test_lifetimes_in_torch import InTorch, in_torch
from tests.staged import pipeline, staging_of

if TYPE_CHECKING:
    from hypar import LayerGraph, Plan

__all__ = ["in_torch"]

VGG16 = load_model("vgg16")
H100 = load_machine("h100-8x", {"compute.fp32_peak": "989.4 TFLOP/s", "unweighted": "free"})
FLOAT, INDEX = 4, 8
SAMPLES, MICROBATCHES = 64, 4
"""The mini-batch of 256 in four microbatches."""


class Hand(NamedTuple):
    """One of four stages, counted by hand from PyTorch's backward functions.

    Attributes:
        layers: the first and the last layer.
        weights: elements of the weights without biases.
        saved: elements that a microbatch's sample keeps: each convolution's input and each relu's output, once.
        indices: indices that the maximum pools keep.
        errors: elements of errors at the fullest moment, less what was let go before it.
        buffer: elements of the largest tensor that arrives.
    """

    layers: tuple[str, str]
    weights: int
    saved: int
    indices: int
    errors: int
    buffer: int


SIDES = {1: 224 * 224, 2: 112 * 112, 3: 56 * 56, 4: 28 * 28, 5: 14 * 14}
"""Elements of a channel in each block of VGG-16."""

HANDS = (
    # The image, two outputs of 64 channels, the pool's output as the next input, one output of 128 channels. The backward
    # phase begins fullest: the error of that output, behind and before its relu.
    Hand(
        ("conv1_1", "conv2_1"),
        9 * (3 * 64 + 64 * 64 + 64 * 128),
        3 * SIDES[1] + 2 * 64 * SIDES[1] + 64 * SIDES[2] + 128 * SIDES[2],
        64 * SIDES[2],
        2 * 128 * SIDES[2],
        128 * SIDES[2],
    ),
    # What arrives, 128 channels, then the pool's output, and two outputs of 256 channels.
    Hand(
        ("conv2_2", "conv3_2"),
        9 * (128 * 128 + 128 * 256 + 256 * 256),
        128 * SIDES[2] + 128 * SIDES[2] + 128 * SIDES[3] + 2 * 256 * SIDES[3],
        128 * SIDES[3],
        2 * 256 * SIDES[3],
        128 * SIDES[2],
    ),
    # What arrives, one output of 256 channels, the pool's output, two outputs of 512 channels.
    Hand(
        ("conv3_3", "conv4_2"),
        9 * (256 * 256 + 256 * 512 + 512 * 512),
        2 * 256 * SIDES[3] + 256 * SIDES[4] + 2 * 512 * SIDES[4],
        256 * SIDES[4],
        2 * 512 * SIDES[4],
        256 * SIDES[3],
    ),
)


def held(plan: Plan, graph: LayerGraph) -> list[dict[str, float]]:
    """What each stage holds, item by item."""
    staging = staging_of(plan, graph, H100)
    return [
        span.held(stage.in_flight) for span, stage in zip(staging.stages, staged(plan).stages, strict=True)
    ]


@pytest.fixture(scope="module")
def four() -> Plan:
    return pipeline(VGG16, stages=4, schedule="1f1b", microbatches=MICROBATCHES, hardware=H100)


def test_four_stages_of_vgg16_by_hand(four: Plan) -> None:
    """12.1 GB in the first stage: what the backward phase reads, not the outputs of all layers, which are 19.7 GB."""
    assert [stage.in_flight for stage in staged(four).stages] == [4, 3, 2, 1]
    for number, (stage, hand, own) in enumerate(
        zip(staged(four).stages, HANDS, held(four, VGG16), strict=False)
    ):
        assert (stage.layers[0], stage.layers[-1]) == hand.layers
        assert own["weights"] == own["gradients"] == FLOAT * hand.weights
        assert own["optimizer"] == 0
        in_flight = MICROBATCHES - number
        assert own["activations"] == in_flight * SAMPLES * (FLOAT * hand.saved + INDEX * hand.indices)
        assert own["errors"] == SAMPLES * FLOAT * hand.errors
        assert own["buffers"] == SAMPLES * FLOAT * hand.buffer
    first = (scored(four).groups or [])[0]
    assert first.memory_bytes == pytest.approx(12.08e9, rel=0.001)


def as_network(graph: LayerGraph, names: list[str], batch: int) -> LayerGraph:
    """Some cut layers with what follows them as a network, whose input is what they read."""
    places = {layer.name: place for place, layer in enumerate(graph.layers)}
    cut = [layer.name for layer in graph.contracted.layers]
    behind = cut.index(names[-1]) + 1
    first = places[names[0]]
    last = places[cut[behind]] if behind < len(cut) else len(graph.layers)
    (shape,) = graph.layers[first].input_shapes
    head = replace(graph.layers[first], inputs=(graph.layers[0].name,))
    layers = (replace(graph.layers[0], shape=shape), head, *graph.layers[first + 1 : last])
    return replace(graph, layers=layers, batch=batch)


@pytest.mark.slow
def test_each_stage_keeps_what_autograd_saves(four: Plan, in_torch: InTorch) -> None:
    """A microbatch of a stage in PyTorch; biases and the sum of the last stage's loss keep nothing."""
    for stage, own in zip(staged(four).stages, held(four, VGG16), strict=True):
        network = as_network(VGG16, stage.layers, SAMPLES)
        in_torch.parameters.clear()
        saved = in_torch.saved_bytes(network)
        assert own["activations"] == stage.in_flight * saved
