from __future__ import annotations

import numpy as np
import pytest

from hypar.errors import ProblemError
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge


def graph(nodes: list[list[float]], edges: list[tuple[int, int, list[list[float]]]]) -> CostGraph:
    return CostGraph(
        nodes=tuple(np.array(costs, dtype=np.float64) for costs in nodes),
        edges=tuple(Edge.dense(a, b, np.array(costs, dtype=np.float64)) for a, b, costs in edges),
    )


def test_cost_is_the_sum_of_what_is_picked() -> None:
    problem = graph([[1, 2], [10, 20, 30]], [(0, 1, [[100, 200, 300], [400, 500, 600]])])
    assert problem.cost([1, 2]) == 2 + 30 + 600
    assert problem.structure.sizes == (2, 3)


@pytest.mark.parametrize(
    ("nodes", "edges", "match"),
    [
        ([[float("nan")]], [], "node 0"),
        ([[1.0], [float("inf")]], [], "node 1"),
        ([[1.0], [1.0]], [(0, 1, [[float("nan")]])], "edge 0"),
    ],
)
def test_what_is_no_number_is_refused(
    nodes: list[list[float]], edges: list[tuple[int, int, list[list[float]]]], match: str
) -> None:
    with pytest.raises(ProblemError, match=match):
        graph(nodes, edges)
