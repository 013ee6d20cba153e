from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hypar.execution.reference import LEARNING_RATE, start, step, step_from
from hypar.network.graph import load_model

if TYPE_CHECKING:
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


@pytest.mark.parametrize("softmax", [True, False])
def test_every_gradient_is_that_of_finite_differences(*, softmax: bool) -> None:
    graph = network(softmax=softmax)
    begin = start(graph, 1)
    run = step_from(graph, begin)
    for layer, held in begin.parameters.items():
        for name, value in held.items():
            gradient = run.gradients[f"{layer}.{name}"]
            direction = np.random.default_rng(2).normal(size=value.shape)
            losses = []
            for sign in (1, -1):
                moved = {**held, name: value + sign * 1e-5 * direction}
                losses.append(
                    step_from(graph, replace(begin, parameters={**begin.parameters, layer: moved})).loss
                )
            slope = (losses[0] - losses[1]) / 2e-5
            assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-6, abs=1e-9)
            np.testing.assert_array_equal(run.updated[f"{layer}.{name}"], value - LEARNING_RATE * gradient)


def test_the_error_of_the_data_is_that_of_finite_differences() -> None:
    """It passes through every op, and through the layer that three others read."""
    graph = network(softmax=True)
    begin = start(graph)
    data = begin.data["input"]
    direction = np.random.default_rng(3).normal(size=data.shape)
    losses = [
        step_from(graph, replace(begin, data={"input": data + sign * 1e-5 * direction})).loss
        for sign in (1, -1)
    ]
    expected = float((step_from(graph, begin).errors["input"] * direction).sum())
    assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(expected, rel=1e-6)


def test_a_step_lowers_the_loss_and_is_the_same_every_time() -> None:
    graph = network(softmax=True)
    begin = start(graph, 4)
    first = step_from(graph, begin)
    after = {
        layer: {name: first.updated[f"{layer}.{name}"] for name in held}
        for layer, held in begin.parameters.items()
    }
    assert step_from(graph, replace(begin, parameters=after)).loss < first.loss
    again = step(graph, 4)
    assert again.loss == first.loss
    assert step(graph, 5).loss != first.loss
    assert all((again.gradients[name] == first.gradients[name]).all() for name in first.gradients)


def test_planning_does_not_import_execution() -> None:
    code = "import sys, hypar, hypar.planning.planner, hypar.cli.main; print([m for m in sys.modules if 'execution' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
