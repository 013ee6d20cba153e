"""Pieces of real branching networks, small enough to count out, are solved to the same cost."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model
from hypar.costs.graphs.paper import cost_graph
from hypar.costs.volume import Volume
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.solvers.base import load_solver
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = 8


@cache
def whole(name: str) -> CostGraph:
    """The cost graph of one two-way level under AccPar's three types."""
    graph = load_model(name).contracted
    (level,) = levels_of((2,), 4)
    space = parse_space("batch,in_channels,out_channels")
    options = [(space.choices(layer, 2),) for layer in graph.layers]
    return cost_graph(Volume(), graph, [level], options, [WHOLE_LAYER] * len(graph.layers))


def piece(problem: CostGraph, kept: Sequence[int]) -> CostGraph:
    """The nodes named, with the edges between them."""
    number = {node: index for index, node in enumerate(kept)}
    return CostGraph(
        nodes=tuple(problem.nodes[node] for node in kept),
        edges=tuple(
            Edge.dense(number[edge.source], number[edge.target], edge.costs)
            for edge in problem.edges
            if edge.source in number and edge.target in number
        ),
    )


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet152", "inception-v3", "googlenet"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_connected_piece_is_solved_exactly(name: str, data: st.DataObject) -> None:
    problem = whole(name)
    neighbours = problem.structure.neighbours()
    kept = [data.draw(st.integers(0, len(neighbours) - 1))]
    while len(kept) < NODES:
        border = sorted(set().union(*(neighbours[node] for node in kept)) - set(kept))
        kept.append(data.draw(st.sampled_from(border)))
    part = piece(problem, kept)
    assert load_solver("elimination").solve(part).cost == load_solver("exhaustive").solve(part).cost
