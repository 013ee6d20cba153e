"""DeePa's two rules, the order of elimination."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings

from hypar.errors import TableLimitError
from hypar.solve import order
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.minsum import min_sum
from hypar.solve.order import neighbours, separators
from hypar.solve.solvers.base import load_solver
from tests.effort import crossed, examples
from tests.problems import (
    Pair,
    any_graphs,
    cost_graphs,
    random_problem,
    series_parallel,
    structure,
)
from tests.solve.two_rules import reduced
from tests.solvers import EXHAUSTIVE

BRIDGE = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("size", "pairs", "steps", "left"),
    [
        (4, [(0, 1), (1, 2), (2, 3)], [("node", (0, 1, 2)), ("node", (0, 2, 3))], (0, 3)),
        (
            4,
            [(0, 1), (0, 2), (1, 3), (2, 3)],
            [("node", (0, 1, 3)), ("node", (0, 2, 3)), ("edge", (0, 3))],
            (0, 3),
        ),
        (2, [(0, 1), (0, 1), (0, 1)], [("edge", (0, 1)), ("edge", (0, 1))], (0, 1)),
        (4, BRIDGE, [], (0, 1, 2, 3)),
        # A node with two edges in, or none, stays; so does one between two edges from and to one node.
        (3, [(0, 2), (1, 2)], [], (0, 1, 2)),
        (2, [(0, 1), (1, 0)], [], (0, 1)),
        (0, [], [], ()),
    ],
)
def test_the_two_rules(
    size: int, pairs: list[Pair], steps: list[tuple[str, tuple[int, ...]]], left: tuple[int, ...]
) -> None:
    found = reduced(structure([2] * size, pairs))
    assert [(step.kind, step.nodes) for step in found.steps] == steps
    assert found.nodes == left


@given(graph=series_parallel())
def test_a_series_parallel_graph_reduces_to_its_ends(graph: tuple[int, list[Pair]]) -> None:
    found = reduced(structure([2] * graph[0], graph[1]))
    assert found.nodes == (0, 1)
    assert found.edges == ((0, 1),)


def by_rules(problem: CostGraph) -> CostGraph:
    """What the two rules leave of a cost graph, with the costs."""
    found = reduced(problem.structure)
    edges = [(edge.source, edge.target, edge.costs) for edge in problem.edges]
    for step in found.steps:
        source, target = step.nodes[0], step.nodes[-1]
        if step.kind == "node":
            node = step.nodes[1]
            (before,) = [edge for edge in edges if edge[1] == node]
            (after,) = [edge for edge in edges if edge[0] == node]
            paths = before[2][:, :, None] + problem.nodes[node][:, None] + after[2]
            edges = [edge for edge in edges if node not in edge[:2]] + [(source, target, paths.min(axis=1))]
        else:
            first, second, *others = [edge for edge in edges if edge[:2] == (source, target)]
            edges = [edge for edge in edges if edge[:2] != (source, target)] + others
            edges.append((source, target, first[2] + second[2]))
    place = {node: at for at, node in enumerate(found.nodes)}
    return CostGraph(
        nodes=tuple(problem.nodes[node] for node in found.nodes),
        edges=tuple(Edge.dense(place[a], place[b], costs) for a, b, costs in edges),
    )


@settings(max_examples=examples(200))
@given(problem=cost_graphs())
def test_the_rules_do_not_change_the_optimum(problem: CostGraph) -> None:
    left = by_rules(problem)
    assert EXHAUSTIVE.solve(left).cost == EXHAUSTIVE.solve(problem).cost


@pytest.mark.parametrize("solver", ["elimination", "bounded"])
def test_what_rounding_makes_equal_ties(solver: str) -> None:
    # Beside 1e16 costs are multiples of 4, so that node 0's choices are equal and the first of them is taken.
    problem = CostGraph(nodes=(np.array([1.0, 0.0]), np.array([0.0, 1e16])), edges=())
    assert EXHAUSTIVE.solve(problem).assignment == (0, 0)
    assert load_solver(solver).solve(problem).assignment == (0, 0)


def test_ties_of_many_nodes_between_two_are_broken_from_the_last_back() -> None:
    last = 301
    apart, equal = 1.0 - np.eye(2), np.zeros((2, 2))
    edges = [Edge.dense(0, node, equal) for node in range(1, last)]
    edges += [Edge.dense(node, last, apart if node % 2 else equal) for node in range(1, last)]
    problem = CostGraph(nodes=(*(np.zeros(2),) * last, np.array([1.0, 0.0])), edges=tuple(edges))
    found = load_solver("elimination").solve(problem)
    assert found.assignment == (0, *[node % 2 for node in range(1, last)], 1)


@example(graph=(3, [(0, 1), (0, 2)]))
@given(graph=any_graphs())
def test_separators_are_those_of_networkx(graph: tuple[int, list[Pair]]) -> None:
    size, pairs = graph
    expected: Any = nx.articulation_points(nx.Graph(pairs))
    assert sorted(separators(neighbours(structure([2] * size, pairs)))) == sorted(expected)


LARGE = {
    "each joined to each": (400, list(itertools.combinations(range(400), 2))),
    "one read by 2,000": (
        2002,
        [(0, node) for node in range(1, 2001)] + [(node, 2001) for node in range(1, 2001)],
    ),
    "four inputs each": (
        1000,
        [
            (int(low), high)
            for high in range(1, 1000)
            for low in np.random.default_rng(high).integers(0, high, 4)
        ],
    ),
    "chain": (8000, [(node, node + 1) for node in range(7999)]),
}
"""Structures: a number of nodes and the pairs that are joined."""


@crossed({"name": LARGE, "choices": [3, 1]})
def test_tables_are_known_without_making_what_does_not_fit(name: str, choices: int) -> None:
    size, pairs = LARGE[name]
    graph = structure([choices] * size, pairs)
    found = min_sum(graph)
    past = [step for step in found.steps if step.work > order.MOST_ENTRIES]
    assert past == ([] if found.complete else [found.steps[-1]])
    assert found.complete == (choices == 1 or size not in {400, 1000})
    tables = load_solver("elimination").tables(graph)
    assert tables is not None
    assert tables.fit == found.complete


@pytest.mark.slow
def test_a_table_of_unnameable_size_is_refused_in_a_short_line() -> None:
    problem = random_problem(
        np.random.default_rng(0), [3] * 400, list(itertools.combinations(range(400), 2)), 1
    )
    with pytest.raises(TableLimitError, match=r"would hold tables of more than 10\^190 entries, width 399;"):
        load_solver("elimination").solve(problem)
