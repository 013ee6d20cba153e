"""Every cost gives arrays of the shapes that it promises, and its optimum is that of exhaustive search."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from hypar import LayerGraph, load_machine, load_model, plan_model
from hypar.costs.base import Cost, load_cost, parameters_of
from hypar.costs.graphs.tables import Tables
from hypar.registry import plugin_names
from hypar.sharding.amounts.counted import outermost
from hypar.sharding.placement import levels_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from tests.effort import crossed, late
from tests.planning.parts import scored

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
    above = outermost(cut, cost.convention)
    for level in levels_of((2, 2), graph.element_bytes):
        made = Tables(cost, cut, [level], [(own,) for own in options], above)
        for at, own in enumerate(options):
            for found in made.items(0, [at]).values():
                assert found.shape == (1, 1, len(own))
                assert np.isfinite(found).all()
                assert (found >= 0).all()
        for edge in made.built().edges:
            assert edge.costs.shape == (len(options[edge.source]), len(options[edge.target]))
            assert np.isfinite(edge.costs).all()
            assert (edge.costs >= 0).all()
        above = above.below(cut, [own[:1] for own in options], level.ways)


@pytest.mark.usefixtures("more_solvers")
@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("model", ["sfc", "lenet-c"])
def test_the_joint_optimum_is_that_of_exhaustive_search(name: str, model: str) -> None:
    asked: dict[str, Any] = {"levels": 2, "cost": name, "search": "joint", "hardware": HMC}
    best = plan_model(model, solver="exhaustive", **asked)
    assert plan_model(model, **asked).cost.value == pytest.approx(best.cost.value, rel=1e-12)
    greedy = plan_model(model, **{**asked, "search": "greedy"})
    assert greedy.cost.value >= best.cost.value * (1 - 1e-12)


def test_a_convention_is_no_parameter() -> None:
    for name in ("volume", "time", "accpar"):
        moved = load_cost(name, {}, {"convention": "moved"})
        assert "convention" not in parameters_of(moved)
        assert moved.convention == "moved"
        assert load_cost(name, {}).convention == "paper"
    assert load_cost("deepa", {}, {"convention": "moved"}).convention == "direct"


def tables(cost: Cost, graph: LayerGraph, ways: int) -> CostGraph:
    options = [
        parse_space("batch,in_channels,out_channels").choices(layer, ways)
        for layer in graph.contracted.layers
    ]
    (level,) = levels_of((ways,), graph.element_bytes)
    above = outermost(graph.contracted, cost.convention)
    return Tables(cost, graph.contracted, [level], [(own,) for own in options], above).built()


def test_the_weight_between_layers_is_not_that_of_sums(graph: LayerGraph) -> None:
    half, whole = (tables(load_cost("volume", {"inter_weight": weight}), graph, 2) for weight in (0.5, 1.0))
    for own, other in zip(half.nodes, whole.nodes, strict=True):
        assert (own == other).all()
    for one, two in zip(half.edges, whole.edges, strict=True):
        assert (one.costs == two.costs / 2).all()
        assert two.costs.any()


def test_deepa_receives_at_all_devices_at_once_or_at_one_after_another() -> None:
    """Four devices each receive three quarters of what is gathered."""
    graph, context = load_model("sfc"), {"machine": HMC}
    exact, serial = (
        tables(load_cost("deepa", {"mode": mode}, context), graph, 4) for mode in ("exact", "serial")
    )
    for one, other in zip(exact.edges, serial.edges, strict=True):
        moved = one.costs > 0
        assert (moved == (other.costs > 0)).all()
        assert (other.costs[moved] > one.costs[moved]).all()


@crossed(
    {
        "space": ["all", "height*width", "batch*out_channels*height*width", "height,width,batch"],
        "model": late(["lenet-c", "alexnet-2012", "inception-v3"], "inception-v3"),
        "array": [[4], [2, 4], [16]],
    }
)
def test_what_is_searched_is_what_is_scored(model: str, space: str, array: list[int]) -> None:
    """Choices of one dim and grids of several are counted alike, whichever of them a search compares."""
    space = f"conv:{space} linear:batch,out_channels" if "batch" not in space and space != "all" else space
    for cost, convention in product(("time", "volume"), ("paper", "moved")):
        plan = plan_model(
            model, array=array, space=space, cost=cost, hardware="tpu-v3", convention=convention
        )
        counted = scored(plan).time_s if cost == "time" else scored(plan).communication_bytes
        assert plan.cost.value == pytest.approx(counted, rel=1e-9)
