"""The narrower count of memory by which reproductions of papers compare."""

from __future__ import annotations

import pytest

from hypar import load_model, plan_model
from hypar.studies.read_memory import read_memory


def test_what_weighted_layers_read_and_outputs_that_a_pool_reduces() -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, levels=1, strategy="dp", hardware="hmc", convention="paper")
    assert plan.score is not None
    nodes = graph.contracted
    choices = [plan.choices(layer.name) for layer in nodes.layers]
    rest = sum(held for item, held in plan.score.memory.items() if item not in {"activations", "errors"})
    elements = 28 * 28 + 20 * 24 * 24 + 20 * 12 * 12 + 50 * 8 * 8 + 50 * 4 * 4 + 500 + 10
    assert read_memory(plan.score.memory_bytes, nodes, choices, 4) == rest + 4 * 128 * elements


@pytest.mark.parametrize("model", ["resnet18", "googlenet"])
def test_training_keeps_more(model: str) -> None:
    graph = load_model(model).with_batch(64)
    plan = plan_model(graph, levels=2, hardware="hmc", convention="paper")
    assert plan.score is not None
    nodes = graph.contracted
    choices = [plan.choices(layer.name) for layer in nodes.layers]
    assert read_memory(plan.score.memory_bytes, nodes, choices, 4) < 0.6 * plan.score.memory_bytes
