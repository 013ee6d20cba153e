"""Cost graphs of one vector against those of an array for each node and edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.errors import ProblemError
from hypar.solve.cost_graph import CostGraph, structure_of
from hypar.solve.solvers.base import load_solver
from tests.effort import examples
from tests.problems import cost_graphs
from tests.solvers import EXHAUSTIVE

if TYPE_CHECKING:
    from collections.abc import Sequence


def laid_out(problem: CostGraph, scale: float = 1.0) -> CostGraph:
    """The same costs, times a number, as one vector."""
    terms = [edge.terms[0] for edge in problem.edges]
    vector = scale * np.concatenate([costs.reshape(-1) for costs in (*problem.nodes, *terms)])
    sizes = tuple(costs.size for costs in problem.nodes)
    return CostGraph.laid_out(
        structure_of(sizes, tuple((edge.source, edge.target) for edge in problem.edges)), vector
    )


def picks(problem: CostGraph, choice: Sequence[int]) -> list[int]:
    """A choice of each node."""
    return [at % costs.size for at, costs in zip(choice, problem.nodes, strict=False)]


@settings(max_examples=examples(100), deadline=None)
@given(cost_graphs(), st.lists(st.integers(0, 11), min_size=16, max_size=16), st.sampled_from([1.0, 1 / 3]))
def test_one_vector_is_as_good_as_many_arrays(problem: CostGraph, choice: list[int], scale: float) -> None:
    """Equal to the bit: parts, what an assignment picks, what is rounded, and what solvers find."""
    found = laid_out(problem, scale)
    plain = CostGraph(nodes=found.nodes, edges=found.edges)
    assert found.structure == plain.structure == problem.structure
    assert [costs.tolist() for costs in found.nodes] == [(scale * costs).tolist() for costs in problem.nodes]
    assignment = picks(problem, choice)
    assert found.picked(assignment) == plain.picked(assignment)
    assert found.cost(assignment) == plain.cost(assignment)
    assert found.costs_by_node(assignment) == plain.costs_by_node(assignment)
    assert found.summable_entries().tolist() == plain.summable_entries().tolist()
    for solver in (load_solver("elimination"), EXHAUSTIVE):
        assert solver.solve(found) == solver.solve(plain)


def test_a_cost_that_is_no_number_is_refused() -> None:
    with pytest.raises(ProblemError, match="edge 0"):
        CostGraph.laid_out(structure_of((1, 1), ((0, 1),)), np.array([1.0, 2.0, np.nan]))
