"""Equal blocks of a network share their arrays and are folded once; the optimum stays."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_machine, load_model, plan_model
from hypar.costs.base import load_cost
from hypar.costs.graphs.paper import cost_graph
from hypar.files.yaml_file import parse_yaml
from hypar.network.build import build_graph
from hypar.network.spec.load import parse_spec
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.solvers.base import load_solver
from tests.effort import crossed

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

MACHINE = load_machine("p100-4x4")
SPACE = load_strategy("deepa").space
SMALL = [(2, SPACE), (3, "batch*out_channels"), (3, "height*width")]
"""Numbers of blocks and spaces of which everything can be counted out."""


@cache
def equal_blocks(count: int) -> LayerGraph:
    """A convolution and residual blocks of one."""
    conv = "op: conv, out_channels: 512, kernel: 3, padding: 1"
    layers, last = ["{op: input, channels: 512, height: 28, width: 28}", f"{{name: stem, {conv}}}"], "stem"
    for n in range(count):
        layers.append(f"{{name: conv{n}, {conv}, inputs: {last}}}")
        layers.append(f"{{name: sum{n}, op: add, inputs: [{last}, conv{n}]}}")
        last = f"sum{n}"
    text = "source: made up\nbatch: 4\nlayers:\n" + "\n".join(f"  - {layer}" for layer in layers)
    return build_graph(parse_spec(parse_yaml(text, Path("blocks.yaml")), "blocks"))


def problem(network: LayerGraph, space: str = SPACE) -> CostGraph:
    """The cost graph of a network's operators on four devices."""
    graph, choices = network.operators, parse_space(space).choices
    options = [(choices(layer, 4, idle=True),) for layer in graph.layers]
    levels = levels_of((4,), network.element_bytes)
    cost = load_cost("deepa", {}, {"machine": MACHINE})
    return cost_graph(cost, graph, levels, options, [WHOLE_LAYER] * len(options))


def unshared(shared: CostGraph) -> CostGraph:
    """The same numbers, each node and edge with arrays of its own."""
    edges = [edge._replace(terms=tuple(term.copy() for term in edge.terms)) for edge in shared.edges]
    return CostGraph(nodes=tuple(costs.copy() for costs in shared.nodes), edges=tuple(edges))


def num_tables(graph: CostGraph) -> int:
    """How many tables the edges have, those shared once."""
    return len({id(edge.terms[0]) for edge in graph.edges})


@pytest.mark.parametrize(("count", "space"), SMALL)
def test_a_plan_of_equal_blocks_costs_what_counting_everything_out_finds(count: int, space: str) -> None:
    network = equal_blocks(count)
    asked = {"array": [4], "strategy": "deepa", "space": space, "hardware": MACHINE}
    every = plan_model(network, solver="exhaustive", **asked)  # type: ignore[arg-type]
    plan = plan_model(network, solver="elimination", **asked)  # type: ignore[arg-type]
    assert plan.cost.value == pytest.approx(every.cost.value, rel=1e-12)


@pytest.mark.parametrize(("count", "space"), SMALL)
def test_equal_blocks_are_worth_a_search(count: int, space: str) -> None:
    """Each layer's cheapest choice by itself is not the answer, nor is one device: the edges are at work above."""
    graph = problem(equal_blocks(count), space)
    solution = load_solver("elimination").solve(graph)
    assert graph.cost([int(np.argmin(costs)) for costs in graph.nodes]) > solution.cost
    assert graph.cost([costs.size - 1 for costs in graph.nodes]) > solution.cost


@pytest.mark.parametrize("network", [equal_blocks(12), load_model("resnet18")], ids=["blocks", "resnet18"])
def test_folding_equal_blocks_once_finds_what_folding_each_does(network: LayerGraph) -> None:
    shared = problem(network)
    own = unshared(shared)
    assert num_tables(shared) < num_tables(own) == len(own.edges)
    once, each = (load_solver("elimination").solve(graph) for graph in (shared, own))
    assert once.cost == each.cost
    plan = plan_model(network, array=[4], strategy="deepa", hardware=MACHINE)
    assert plan.cost.value == pytest.approx(each.cost, rel=1e-12)


@crossed(
    {
        "space": ["all", "height*width", "batch*out_channels*height*width", "height,width,batch"],
        "model,array": [
            pytest.param(model, array, marks=[pytest.mark.slow] if array in slow else [])
            for model, slow in (
                ("lenet-c", [[16]]),
                ("alexnet-2012", [[16]]),
                ("inception-v3", [[4], [16], [2, 4]]),
            )
            for array in ([4], [16], [2, 4])
        ],
    }
)
def test_what_is_searched_is_what_is_scored(model: str, space: str, array: list[int]) -> None:
    """Choices of one dim and grids of several are counted alike, whichever of them a search compares."""
    graph = load_model(model)
    space = f"conv:{space} linear:batch,out_channels" if "batch" not in space and space != "all" else space
    machine = load_machine("tpu-v3")
    for cost, convention in product(("time", "volume"), ("paper", "moved")):
        plan = plan_model(graph, array=array, space=space, cost=cost, hardware=machine, convention=convention)
        assert plan.score is not None
        scored = plan.score.time_s if cost == "time" else plan.score.communication_bytes
        assert plan.cost.value == pytest.approx(scored, rel=1e-9)
