"""Tensors at rest in plans: where they are, and that they make no least plan dearer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_model, plan_model, score_plan
from hypar.plan.request import Request
from hypar.planning.planner import resolve
from hypar.planning.question import load_search, question_of
from tests.transformers import gpt, llama, mixtral

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph

MADE: dict[str, Callable[..., LayerGraph]] = {"gpt": gpt, "llama": llama, "mixtral": mixtral}


def rests(graph: LayerGraph) -> list[str]:
    return [layer.name for layer in graph.layers if layer.op_name == "rest"]


def test_a_tensor_rests_behind_its_maker_where_several_layers_multiply_it() -> None:
    graph = llama()
    assert rests(graph.at_rest) == ["h.0.norm1.rest", "h.0.norm2.rest"]
    reading = {layer.name: layer.inputs for layer in graph.at_rest.layers}
    assert [reading[f"h.0.{name}"] for name in ("q", "k", "v", "gate", "up")] == [
        *[("h.0.norm1.rest",)] * 3,
        *[("h.0.norm2.rest",)] * 2,
    ]
    assert graph.at_rest.at_rest is graph.at_rest
    assert graph.at_rest.without_rests == graph
    assert graph.at_rest.digest == graph.digest


def test_samples_do_not_rest() -> None:
    """Every device reads its own from outside."""
    linear = {"op": "linear", "out_features": 8, "inputs": "input"}
    both = [{**linear, "name": name} for name in ("one", "two")]
    layers = [{"op": "input", "channels": 8}, *both, {"op": "add", "inputs": ["one", "two"]}]
    graph = load_model({"source": "an example", "batch": 8, "layers": layers})
    assert graph.at_rest is graph


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("name", MADE)
def test_no_least_plan_is_dearer(name: str, convention: str) -> None:
    graph = MADE[name]()
    asked: dict[str, Any] = {"strategy": "optimal", "search": "joint", "levels": 2, "convention": convention}
    plan = plan_model(graph, **asked)
    request = resolve(Request(**asked), graph)
    alone = question_of(request, graph.contracted, (), graph.element_bytes)
    without = sum(map(sum, load_search("joint").run(alone).costs))
    assert {*rests(graph.at_rest)} < {*plan.layers}
    assert plan.cost.value <= without * (1 + 1e-12)


def test_plans_counted_by_papers_have_no_tensors_at_rest() -> None:
    graph = gpt()
    for strategy, convention in (("hypar", None), ("optimal", "paper")):
        plan = plan_model(graph, levels=2, hardware="hmc", strategy=strategy, convention=convention)
        assert not {*rests(graph.at_rest)} & {*plan.layers}
    plan = plan_model(graph, levels=2, hardware="hmc", strategy="optimal")
    by_paper = score_plan(plan, model=graph, convention="paper")
    assert by_paper.communication_bytes > 0
    assert by_paper.convention == "paper"
