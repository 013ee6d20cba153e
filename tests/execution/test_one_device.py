"""The program of one device, which verification holds others against, computes what finite differences of its loss say."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.execution.devices import start
from hypar.execution.simulator import run
from hypar.execution.verify import LEARNING_RATE, alone
from hypar.network.graph import load_model
from tests.effort import examples
from tests.program.networks import networks
from tests.transformers import gpt, llama, mixtral, unet

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.execution.devices import Devices, Parameters, Start
    from hypar.network.graph import LayerGraph

LAYERS: list[dict[str, Any]] = [
    {"op": "input", "channels": 2, "height": 8, "width": 8},
    {"name": "stem", "op": "conv", "out_channels": 4, "kernel": 3, "padding": 1, "bias": False},
    {"op": "batch_norm"},
    {"name": "left", "op": "relu"},
    {"op": "pool", "mode": "max", "kernel": 3, "stride": 2, "padding": 1},
    {"name": "grouped", "op": "conv", "out_channels": 4, "kernel": 3, "padding": 1, "groups": 2},
    {"op": "pointwise", "function": "gelu"},
    {"name": "wide", "op": "upsample", "mode": "bilinear", "scale": 2},
    {"name": "narrow", "op": "conv", "out_channels": 4, "kernel": 1, "stride": 2, "inputs": "left"},
    {"name": "up", "op": "conv_transpose", "out_channels": 4, "kernel": 2, "stride": 2},
    {"name": "sum", "op": "add", "inputs": ["wide", "up", "left"]},
    {"name": "both", "op": "concat", "inputs": ["sum", "left"]},
    {"op": "crop", "margin": 1},
    {"op": "pointwise", "function": "lrn"},
    {"op": "dropout", "probability": 0.2},
    {"op": "pool", "mode": "average", "kernel": 2},
    {"op": "flatten"},
    {"name": "fc", "op": "linear", "out_features": 5},
]


def network(*, softmax: bool, batch: int = 3) -> LayerGraph:
    layers = [*LAYERS, *([{"op": "softmax"}] if softmax else [])]
    return load_model({"source": "an example", "batch": batch, "layers": layers})


def step(graph: LayerGraph, begin: Start) -> Devices:
    return run(alone(graph), [begin])


def moved(held: Parameters, along: Parameters, by: float) -> Parameters:
    return {
        layer: {name: own + by * along[layer].get(name, 0.0) for name, own in values.items()}
        for layer, values in held.items()
    }


def slope(graph: LayerGraph, begin: Start, along: Parameters, by: float = 1e-5) -> float:
    """Return the derivative of the loss along a direction of the parameters, by finite differences."""
    there, back = (
        step(graph, begin._replace(parameters=moved(begin.parameters, along, sign * by))).loss
        for sign in (1, -1)
    )
    return (there - back) / (2 * by)


def direction(begin: Start, seed: int) -> Parameters:
    random = np.random.default_rng(seed)
    return {
        layer: {name: random.normal(size=own.shape) for name, own in values.items()}
        for layer, values in begin.parameters.items()
    }


def product(found: Devices, along: Parameters) -> float:
    names = {f"{layer}.{name}": own for layer, values in along.items() for name, own in values.items()}
    return sum(float((own[0] * names[name]).sum()) for name, own in found.gradients.items())


@pytest.mark.parametrize("softmax", [True, False])
def test_every_gradient_is_that_of_finite_differences(*, softmax: bool) -> None:
    graph = network(softmax=softmax)
    begin = start(graph, 1)
    found = step(graph, begin)
    for layer, values in direction(begin, 2).items():
        for name, own in values.items():
            along = {other: {name: own} if other == layer else {} for other in begin.parameters}
            expected = float((found.gradients[f"{layer}.{name}"][0] * own).sum())
            assert slope(graph, begin, along) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=examples(200), deadline=None)
@given(networks(), st.integers(0, 2**16))
def test_the_gradient_of_any_network_is_that_of_finite_differences(graph: LayerGraph, seed: int) -> None:
    begin = start(graph, seed)
    along = direction(begin, seed)
    slopes = [slope(graph, begin, along, by) for by in (1e-5, 1e-6)]
    # Where these differ a rectifier or the largest element of a pool changes in between.
    assume(slopes[0] == pytest.approx(slopes[1], rel=1e-5, abs=1e-7))
    assert product(step(graph, begin), along) == pytest.approx(slopes[0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("make", [gpt, llama, mixtral, unet], ids=lambda make: make.__name__)
def test_a_gradient_of_named_dims_is_that_of_finite_differences(make: Callable[[], LayerGraph]) -> None:
    """The first has a weight that two layers use, whose gradient is that of both."""
    graph = make()
    begin = start(graph)
    along = direction(begin, 1)
    for tie in graph.ties:
        del along[tie.user]["weight"]
    assert product(step(graph, begin), along) == pytest.approx(slope(graph, begin, along), rel=1e-6)


def test_a_step_lowers_the_loss_and_is_the_same_every_time() -> None:
    graph = network(softmax=True)
    begin = start(graph, 4)
    first = step(graph, begin)
    found: Parameters = {layer: {} for layer in begin.parameters}
    for update, gradient in zip(first.program.updates, first.gradients.values(), strict=True):
        found[update.layer][update.parameter] = gradient[0]
    after = moved(begin.parameters, found, -LEARNING_RATE)
    assert step(graph, begin._replace(parameters=after)).loss < first.loss
    again = step(graph, start(graph, 4))
    assert again.loss == first.loss
    assert step(graph, start(graph, 5)).loss != first.loss
    assert all((again.gradients[name] == first.gradients[name]).all() for name in first.gradients)


def test_planning_does_not_import_execution() -> None:
    code = "import sys, hypar, hypar.planning.planner, hypar.cli.main; print([m for m in sys.modules if 'execution' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
