"""The order of elimination, its ties, and what the least cost becomes with any one choice held."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from hypar.errors import TableLimitError
from hypar.solve import order
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.minsum import min_sum, solved
from hypar.solve.solvers.base import load_solver
from tests.effort import crossed
from tests.problems import (
    cost_graphs,
    random_problem,
    structure,
)
from tests.solvers import EXHAUSTIVE


@given(problem=cost_graphs())
def test_each_choice_costs_the_least_of_all_assignments_with_it(problem: CostGraph) -> None:
    least = [np.full(costs.size, np.inf) for costs in problem.nodes]
    for assignment in itertools.product(*map(range, problem.structure.sizes)):
        cost = problem.cost(assignment)
        for node, choice in enumerate(assignment):
            least[node][choice] = min(least[node][choice], cost)
    for found, known in zip(solved(problem).marginals(), least, strict=True):
        assert found == pytest.approx(known)


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
