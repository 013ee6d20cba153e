"""Every cost gives arrays of the shapes that it promises, and its optimum is that of exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest

from hypar import LayerGraph, load_machine, load_model, plan_model
from hypar.costs.base import Cost, convention_of, load_cost, parameters_of
from hypar.registry import plugin_names
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.space import parse_space

HMC = load_machine("hmc")
COSTS = plugin_names("costs")


@pytest.fixture(params=COSTS)
def cost(request: pytest.FixtureRequest) -> Cost:
    return load_cost(request.param, {}, {"machine": HMC, "optimizer": "adam"})


@pytest.fixture(params=["lenet-c", "resnet18", "alexnet-2012"])
def graph(request: pytest.FixtureRequest) -> LayerGraph:
    return load_model(request.param)


def test_arrays_have_the_shapes_that_are_promised(cost: Cost, graph: LayerGraph) -> None:
    space, cut = parse_space("all"), graph.contracted
    options = [space.choices(layer, 2) for layer in cut.layers]
    for level in levels_of((2, 2), graph.element_bytes):
        above = [
            WHOLE_LAYER if level.index == 0 else WHOLE_LAYER.divided(layer.nest, own, 2)
            for layer, own in zip(cut.layers, options, strict=True)
        ]
        for layer, own, sizes in zip(cut.layers, options, above, strict=True):
            items = cost.layer_costs(level, layer, own, sizes)
            assert items
            for found in items.values():
                assert found.shape == (sizes.fractions.shape[1], len(own))
                assert np.isfinite(found).all()
                assert (found >= 0).all()
        for tensor in cut.tensors:
            ends = (cut.layers[tensor.producer], cut.layers[tensor.consumer])
            pair = (options[tensor.producer], options[tensor.consumer])
            sizes = above[tensor.consumer]
            found = cost.tensor_costs(level, tensor, ends, pair, sizes)
            assert found.shape == (len(pair[0]), sizes.fractions.shape[1], len(pair[1]))
            assert np.isfinite(found).all()
            assert (found >= 0).all()


@pytest.mark.usefixtures("more_solvers")
@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("model", ["sfc", "lenet-c"])
def test_the_joint_optimum_is_that_of_exhaustive_search(name: str, model: str) -> None:
    asked = {"levels": 2, "cost": name, "search": "joint", "hardware": HMC}
    best = plan_model(model, solver="exhaustive", **asked)
    assert plan_model(model, **asked).cost.value == pytest.approx(best.cost.value, rel=1e-12)
    greedy = plan_model(model, **{**asked, "search": "greedy"})
    assert greedy.cost.value >= best.cost.value * (1 - 1e-12)


def test_a_convention_is_no_parameter() -> None:
    for name in ("volume", "time", "accpar"):
        moved = load_cost(name, {}, {"convention": "moved"})
        assert "convention" not in parameters_of(moved)
        assert convention_of(moved) == "moved"
        assert convention_of(load_cost(name, {})) == "paper"
    assert convention_of(load_cost("deepa", {}, {"convention": "moved"})) == "direct"
