"""AccPar (HPCA 2020): three types on networks of many paths, the residual networks at batch 512.

A residual network is a row of blocks, each a path of convolutions beside a shortcut. The plans are checked
against that: the least cost of a block between its two ends is a sum over its two paths, and the ends
follow one another.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hypar import load_model, plan_model
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, PlanNode
from hypar.plan.plan import Plan
from hypar.planning.question import Question, ask
from hypar.planning.resolved import Resolved
from hypar.sharding.placement import WHOLE, Choice, cut
from tests import oracle
from tests.effort import late

TYPES = "batch,in_channels,out_channels"
Table = NDArray[Any]


@pytest.fixture(scope="module", params=late(["resnet18", "resnet34", "resnet50"], "resnet34", "resnet50"))
def graph(request: pytest.FixtureRequest) -> LayerGraph:
    return load_model(request.param).with_batch(512)


@pytest.fixture(scope="module")
def plan(graph: LayerGraph) -> Plan:
    return plan_model(graph, levels=7, strategy="accpar", convention="paper")


class Block(NamedTuple):
    """The two paths to a join, both from the join before it or from the first layer."""

    main: tuple[int, ...]
    shortcut: tuple[int, ...]


def blocks(network: PlanGraph) -> list[Block]:
    makers: dict[int, list[int]] = {}
    for tensor in network.tensors:
        makers.setdefault(tensor.consumer, []).append(tensor.producer)
    found: list[Block] = []
    for end, layer in enumerate(network.layers):
        if layer.join:
            start = found[-1].main[-1] if found else 0
            paths = [[maker, end] for maker in makers[end]]
            for path in paths:
                while path[0] != start:
                    path[:0] = makers[path[0]]
            found.append(Block(*(tuple(path) for path in paths)))
    return found


def least(row: Sequence[Block], nodes: Sequence[Table], edges: dict[tuple[int, int], Table]) -> Any:
    """The least sum over a row of blocks with a layer behind it."""
    last = row[-1].main[-1], len(nodes) - 1
    passed = [last, *(edge for block in row for path in block for edge in pairwise(path))]
    assert sorted(passed) == sorted(edges)

    def along(path: tuple[int, ...]) -> Table:
        """The least sum between each pair of choices of a path's ends, without theirs."""
        costs = edges[path[0], path[1]]
        for here, after in pairwise(path[1:]):
            costs = ((costs + nodes[here])[:, :, None] + edges[here, after]).min(axis=1)
        return costs

    best = nodes[0]
    for main, shortcut in row:
        best = (best[:, None] + along(main) + along(shortcut)).min(axis=0) + nodes[main[-1]]
    return (best[:, None] + edges[last] + nodes[-1]).min()


def types_of(layer: PlanNode) -> list[Choice]:
    """The three types of a layer with a weight; a join is cut in batch or channels, or whole."""
    dims = ["batch", "channels"] if layer.join else TYPES.split(",")
    types = [cut(dim, 2) for dim in dims]
    return [*types, WHOLE] if layer.join else types


def counted(graph: LayerGraph, plan: Plan, level: int) -> tuple[list[Table], dict[tuple[int, int], Table]]:
    """What one level's choices cost below those that a plan makes above it, in fractions."""
    network = graph.contracted
    options = [
        [(*plan.choices(layer.name)[:level], choice) for choice in types_of(layer)]
        for layer in network.layers
    ]
    nodes = [
        np.array([oracle.layer_elements(layer, at) for at in every])
        for layer, every in zip(network.layers, options, strict=True)
    ]
    edges = {
        (tensor.producer, tensor.consumer): np.array(
            [
                [oracle.tensor_elements(graph, tensor, made, read) for read in options[tensor.consumer]]
                for made in options[tensor.producer]
            ]
        )
        for tensor in network.tensors
    }
    return nodes, edges


def question_of(graph: LayerGraph, plan: Plan) -> Question:
    return ask(Resolved.of(plan), graph)


@pytest.mark.parametrize("strategy", ["dp", "owt", "hypar"])
def test_three_types_cost_less_than_the_others_at_seven_levels(
    graph: LayerGraph, plan: Plan, strategy: str
) -> None:
    other = plan_model(graph, levels=7, strategy=strategy, convention="paper")
    for found in (plan, other):
        choices = [found.choices(layer) for layer in found.layers]
        assert found.cost.value == oracle.volume(graph, choices)
    assert plan.cost.value < other.cost.value


def test_each_level_is_the_least_over_blocks(graph: LayerGraph, plan: Plan) -> None:
    row = blocks(graph.contracted)
    for level, split in enumerate(plan.splits):
        assert split.cost == least(row, *counted(graph, plan, level)) * graph.element_bytes


def test_joint_search_is_the_least_over_blocks_at_four_levels(graph: LayerGraph) -> None:
    joint = plan_model(graph, levels=4, strategy="optimal", space=TYPES, convention="paper")
    question = question_of(graph, joint)
    problem = question.cost_graph(0, 4, question.outermost())
    edges = {(edge.source, edge.target): edge.costs for edge in problem.edges}
    assert joint.cost.value == least(blocks(graph.contracted), problem.nodes, edges)
