"""Min-marginals: what the least cost becomes with any one choice held."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.minsum import solved


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.5, 0.9]))
def test_each_choice_costs_the_least_of_all_assignments_with_it(seed: int, density: float) -> None:
    """Parallel edges, nodes of one choice and several components included."""
    drawn = np.random.default_rng(seed)
    sizes = drawn.integers(1, 4, drawn.integers(1, 7)).tolist()
    nodes = tuple(drawn.integers(0, 50, size).astype(float) for size in sizes)
    pairs = [pair for pair in itertools.permutations(range(len(sizes)), 2) if drawn.random() < density / 2]
    edges = tuple(
        Edge.dense(one, other, drawn.integers(0, 50, (sizes[one], sizes[other])).astype(float))
        for one, other in pairs
    )
    problem = CostGraph(nodes=nodes, edges=edges)
    least = [np.full(size, np.inf) for size in sizes]
    for assignment in itertools.product(*map(range, sizes)):
        for node, choice in enumerate(assignment):
            least[node][choice] = min(least[node][choice], problem.cost(assignment))
    for found, known in zip(solved(problem).marginals(), least, strict=True):
        assert found == pytest.approx(known)
