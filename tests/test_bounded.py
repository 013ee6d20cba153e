"""The bounded solver: its bound, its cost, its tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.errors import TableLimitError
from hypar.problem import CostGraph, Edge
from hypar.reduction import buckets, descended, diffused
from hypar.reduction.diffusion import least_sum
from hypar.solvers.base import cheapest_exact, load_solver
from hypar.solvers.bounded import Bounded
from tests.problems import cost_graphs, random_problem, structure

EVERYONE = list(itertools.combinations(range(12), 2))


def optimum(problem: CostGraph) -> float:
    return load_solver("exhaustive").solve(problem).cost


@settings(max_examples=300)
@given(problem=cost_graphs(), cap=st.sampled_from([1, 4, 16, 64]), rounds=st.sampled_from([0, 1, 20]))
def test_the_optimum_lies_between_bound_and_cost(problem: CostGraph, cap: int, rounds: int) -> None:
    found = Bounded(cap=cap, rounds=rounds).solve(problem)
    assert found.bound is not None
    assert found.bound <= optimum(problem) <= found.cost == problem.cost(found.assignment)
    assert found == Bounded(cap=cap, rounds=rounds).solve(problem)


@settings(max_examples=300)
@given(problem=cost_graphs())
def test_it_is_exact_where_nothing_is_split(problem: CostGraph) -> None:
    cap = 4**7
    assert all(len(bucket.parts) == 1 for bucket in buckets(problem.structure, cap))
    found = Bounded(cap=cap).solve(problem)
    assert found.bound == found.cost == optimum(problem)


def test_twelve_nodes_each_joined_to_each_are_answered_with_a_gap() -> None:
    problem = random_problem(np.random.default_rng(0), [40] * 12, EVERYONE, 1000)
    with pytest.raises(TableLimitError, match="width 11"):
        load_solver("elimination").solve(problem)
    found = load_solver("bounded").solve(problem)
    assert found.bound is not None
    assert 0 < found.bound < found.cost


def test_moving_costs_tightens_the_bound() -> None:
    problem = random_problem(np.random.default_rng(0), [8] * 12, EVERYONE, 1000)
    bounds = [Bounded(cap=64, rounds=rounds).solve(problem).bound or 0 for rounds in (0, 1, 20)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


@settings(max_examples=200)
@given(problem=cost_graphs(), rounds=st.integers(0, 4))
def test_moved_costs_have_the_same_sums_and_a_higher_least(problem: CostGraph, rounds: int) -> None:
    nodes, edges = diffused(problem, rounds)
    moved = CostGraph(
        nodes=tuple(nodes),
        edges=tuple(
            Edge.dense(edge.source, edge.target, costs)
            for edge, costs in zip(problem.edges, edges, strict=True)
        ),
    )
    for assignment in itertools.islice(itertools.product(*map(range, problem.structure.sizes)), 50):
        assert moved.cost(assignment) == pytest.approx(problem.cost(assignment))
    before = least_sum(problem.nodes, [edge.costs for edge in problem.edges])
    assert least_sum(nodes, edges) >= before - 1e-6


@given(problem=cost_graphs())
def test_exchanges_never_cost_more(problem: CostGraph) -> None:
    start = [0] * len(problem.nodes)
    assert problem.cost(descended(problem, [start])) <= problem.cost(start)


def test_the_best_start_wins_unless_one_is_good_enough() -> None:
    # Two valleys: no exchange of two choices leads from 0, 0, 0 to 1, 1, 1.
    unequal = np.array([[0.0, 9.0], [9.0, 0.0]])
    nodes = tuple(np.array([1.0, 0.0]) for _ in range(3))
    edges = tuple(Edge.dense(a, b, unequal) for a, b in [(0, 1), (1, 2), (0, 2)])
    problem = CostGraph(nodes=nodes, edges=edges)
    assert descended(problem, [(0, 0, 0)]) == (0, 0, 0)
    assert descended(problem, [(0, 0, 0), (1, 1, 1)]) == (1, 1, 1)
    assert descended(problem, [(0, 0, 0), (1, 1, 1)], enough=3) == (0, 0, 0)


def test_edges_of_several_levels_are_taken_whole() -> None:
    generator = np.random.default_rng(2)
    terms = (generator.random((2, 1, 3)), generator.random((3, 3, 2)))
    nodes = (generator.random(6), generator.random(6), generator.random(6))
    edges = tuple(Edge(source=a, target=b, terms=terms) for a, b in [(0, 1), (1, 2), (0, 2)])
    problem = CostGraph(nodes=nodes, edges=edges)
    best = optimum(problem)
    assert Bounded().solve(problem).cost == best
    found = Bounded(cap=36).solve(problem)
    assert found.bound is not None
    assert found.bound <= best <= found.cost


@pytest.mark.parametrize("cap", [100, 2000, 2**20])
def test_no_part_is_above_the_cap_but_a_single_matrix(cap: int) -> None:
    twelve = structure([40] * 12, EVERYONE)
    parts = [part for bucket in buckets(twelve, cap) for part in bucket.parts]
    assert all(part.entries <= cap or len(part.factors) == 1 for part in parts)
    tables = Bounded(cap=cap).tables(twelve)
    assert tables.fit
    assert tables.stored >= max(part.entries for part in parts) + twelve.entries


def test_it_is_not_exact_and_never_picked() -> None:
    solver = load_solver("bounded")
    assert not solver.exact
    assert cheapest_exact((structure([40] * 12, EVERYONE),)) != "bounded"
    assert (
        load_solver("elimination").solve(random_problem(np.random.default_rng(0), [2], [], 1)).bound is None
    )
