"""AccPar (HPCA 2020): three types on networks of many paths, the residual networks at batch 512.

A residual network is a row of blocks, each a path of convolutions beside a shortcut. The plans are checked
against that: the least cost of a block between its two ends is a sum over its two paths, and the ends
follow one another.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hypar import load_model, plan_model
from hypar.planning.question import ask
from hypar.planning.resolved import Resolved
from hypar.sharding.placement import WHOLE, Choice, cut
from hypar.solve.cost_graph import CostGraph
from hypar.solve.solvers.base import load_solver
from tests import oracle
from tests.effort import late

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.plan.plan import Plan
    from hypar.planning.question import Question

TYPES = "batch,in_channels,out_channels"
Table = NDArray[Any]


@pytest.fixture(scope="module", params=late(["resnet18", "resnet34", "resnet50"], "resnet34", "resnet50"))
def graph(request: pytest.FixtureRequest) -> LayerGraph:
    return load_model(request.param).with_batch(512)


@pytest.fixture(scope="module")
def plan(graph: LayerGraph) -> Plan:
    """The plan under test."""
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


def level_problems(graph: LayerGraph, plan: Plan) -> Iterator[CostGraph]:
    """The cost graph of each level, given what the plan chose above it."""
    question = question_of(graph, plan)
    above = question.outermost()
    for level in range(len(plan.array)):
        yield question.cost_graph(level, level + 1, above)
        chosen = [plan.choices(layer)[level] for layer in plan.layers]
        above = question.below(above, chosen, plan.array[level])


def without_shortcuts(problem: CostGraph, row: Sequence[Block]) -> list[int]:
    """The best choices when the edges of the shortcuts are left out, so that only chains remain."""
    left_out = {edge for block in row for edge in pairwise(block.shortcut)}
    kept = tuple(edge for edge in problem.edges if (edge.source, edge.target) not in left_out)
    return list(load_solver("chain").solve(CostGraph(nodes=problem.nodes, edges=kept)).assignment)


def with_best_shortcuts(problem: CostGraph, row: Sequence[Block], chosen: list[int]) -> list[int]:
    """The same choices, but for the layers on the shortcuts, which do the best that these leave them."""
    for node in (node for block in row for node in block.shortcut[1:-1]):
        tries = [[*chosen[:node], pick, *chosen[node + 1 :]] for pick in range(problem.nodes[node].size)]
        chosen = min(tries, key=problem.cost)
    return chosen


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


def test_each_level_is_no_dearer_than_chains_charged_for_their_shortcuts(
    graph: LayerGraph, plan: Plan
) -> None:
    """Never dearer, even when the shortcuts may then follow the chain; cheaper altogether when they do not."""
    row = blocks(graph.contracted)
    chains = 0.0
    for problem, split in zip(level_problems(graph, plan), plan.splits, strict=True):
        chosen = without_shortcuts(problem, row)
        assert split.cost <= problem.cost(with_best_shortcuts(problem, row, chosen)) <= problem.cost(chosen)
        chains += problem.cost(chosen)
    assert plan.cost.value < chains


def test_joint_search_is_never_dearer_at_four_levels(graph: LayerGraph) -> None:
    greedy = plan_model(graph, levels=4, strategy="accpar", convention="paper")
    joint = plan_model(graph, levels=4, strategy="optimal", space=TYPES, convention="paper")
    every = plan_model(graph, levels=4, strategy="optimal", convention="paper")
    assert [found.search for found in (greedy, joint, every)] == ["greedy", "joint", "joint"]
    assert every.cost.value <= joint.cost.value <= greedy.cost.value


def test_joint_search_is_the_least_over_blocks_at_four_levels(graph: LayerGraph) -> None:
    joint = plan_model(graph, levels=4, strategy="optimal", space=TYPES, convention="paper")
    question = question_of(graph, joint)
    problem = question.cost_graph(0, 4, question.outermost())
    edges = {(edge.source, edge.target): edge.costs for edge in problem.edges}
    assert joint.cost.value == least(blocks(graph.contracted), problem.nodes, edges)
