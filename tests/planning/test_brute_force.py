"""Plans of small trees against every plan of the tree."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from hypar import plan_model
from hypar.machine.load import load_machine
from tests.effort import late
from tests.heterogeneous import CONV, INPUT, LINEAR, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar import LayerGraph, Plan

DIMS = ("batch", "in_channels", "out_channels")

CHAIN = (
    INPUT.format(6, 8, 2)
    + CONV.format("conv", 10, "input")
    + "  - {name: flat, op: flatten}\n"
    + LINEAR.format("fc", 12, "flat")
)
"""Two layers."""

NETWORKS = {"two": CHAIN, "three": CHAIN + LINEAR.format("last", 7, "fc")}


def network(name: str) -> LayerGraph:
    return written(NETWORKS[name], 8)


def every(graph: LayerGraph, depth: int, **asked: Any) -> Iterator[Plan]:
    """Plan every choice of every layer at every level."""
    places = [f"{layer.name}@H{level + 1}" for layer in graph.contracted.layers for level in range(depth)]
    for chosen in product(DIMS, repeat=len(places)):
        pins = [f"{place}={dim}" for place, dim in zip(places, chosen, strict=True)]
        yield plan_model(graph, pins=pins, space=",".join(DIMS), **asked)


def total(plan: Plan) -> float:
    return math.fsum(split.cost for split in plan.splits)


@pytest.mark.parametrize("convention", ["paper", "moved", "fused"])
@pytest.mark.parametrize("name", late(["two", "three"], "three"))
def test_the_optimum_over_two_levels_is_the_least_of_all_plans(name: str, convention: str) -> None:
    graph = network(name)
    asked: dict[str, Any] = {"strategy": "optimal", "array": (2, 2), "convention": convention}
    found = plan_model(graph, space=",".join(DIMS), **asked)
    assert math.isclose(total(found), min(map(total, every(graph, 2, **asked))))


@pytest.mark.parametrize("strategy", ["hypar", "accpar"])
def test_a_greedy_plan_of_one_level_is_the_least_of_all_plans(strategy: str) -> None:
    graph = network("two")
    asked: dict[str, Any] = {"strategy": strategy, "array": (2,), "convention": "moved"}
    found = plan_model(graph, space=",".join(DIMS), **asked)
    assert math.isclose(total(found), min(map(total, every(graph, 1, **asked))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "three"])
def test_stages_with_a_level_inside_are_the_least_of_all_plans(name: str) -> None:
    """Of all partitions the one of the least bottleneck; of all choices inside it those of the least cost."""
    graph, machine = network(name), load_machine("hmc")
    names = [layer.name for layer in graph.contracted.layers]
    asked: dict[str, Any] = {"strategy": "optimal", "levels": 1, "microbatches": 2, "hardware": machine}
    asked |= {"space": ",".join(DIMS), "convention": "moved"}
    found = plan_model(graph, stages=2, **asked)
    each = [plan_model(graph, starts=[names[0], start], **asked) for start in names[1:]]
    assert found.stages is not None
    assert found.stages.bottleneck_s == min(one.stages.bottleneck_s for one in each if one.stages is not None)
    begun = found.stages.stages[1].layers[0]
    inside = {name: value for name, value in asked.items() if name != "space"}
    assert math.isclose(total(found), min(map(total, every(graph, 1, starts=[names[0], begun], **inside))))
