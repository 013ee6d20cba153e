"""The bounded solver: its bound, its cost, its tables; the messages and exchanges that it rests on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.errors import TableLimitError
from hypar.solve.cost_graph import CostGraph, Structure
from hypar.solve.edge import Edge
from hypar.solve.elimination.local_search import LocalSearch
from hypar.solve.elimination.reparametrisation import Messages
from hypar.solve.solvers import bounded
from hypar.solve.solvers.base import FALLBACK, Tables, cheapest, load_solver
from hypar.solve.solvers.bounded import Bounded
from tests.effort import examples
from tests.problems import chains, cost_graphs, random_problem, structure, trees

EVERYONE = list(itertools.combinations(range(12), 2))
LEVELS = (np.arange(6.0).reshape(2, 1, 3) % 4, np.arange(18.0).reshape(3, 3, 2) % 5)
"""An edge of two levels: 2 and 3 choices of the source, 3 and 2 of the target."""


class _NoTables:
    """Elimination whose tables never fit."""

    def tables(self, _: Structure) -> Tables:
        return Tables(stored=2**40, work=2**40)


@pytest.fixture
def no_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "load_solver", lambda name: _NoTables())


def optimum(problem: CostGraph) -> float:
    return load_solver("exhaustive").solve(problem).cost


@pytest.mark.usefixtures("no_elimination")
@settings(max_examples=examples(300))
@given(problem=cost_graphs(), work=st.sampled_from([0, 2**16, 2**31]), rounds=st.sampled_from([1, 2, 20]))
def test_the_optimum_lies_between_bound_and_cost(problem: CostGraph, work: int, rounds: int) -> None:
    found = Bounded(work=work, rounds=rounds).solve(problem)
    assert found.bound is not None
    assert found.bound <= optimum(problem) <= found.cost == problem.cost(found.assignment)
    assert found == Bounded(work=work, rounds=rounds).solve(problem)


@pytest.mark.usefixtures("no_elimination")
@settings(max_examples=examples(200))
@given(problem=st.one_of(cost_graphs(chains()), cost_graphs(trees())))
def test_messages_alone_prove_the_optimum_of_a_tree(problem: CostGraph) -> None:
    found = Bounded().solve(problem)
    assert found.bound == found.cost == optimum(problem)


@settings(max_examples=examples(200))
@given(problem=cost_graphs())
def test_it_is_elimination_where_that_fits(problem: CostGraph) -> None:
    found = Bounded().solve(problem)
    assert found.assignment == load_solver("elimination").solve(problem).assignment
    assert found.bound == found.cost == optimum(problem)


def test_twelve_nodes_each_joined_to_each_are_answered_with_a_gap() -> None:
    problem = random_problem(np.random.default_rng(0), [40] * 12, EVERYONE, 1000)
    with pytest.raises(TableLimitError, match="width 11"):
        load_solver("elimination").solve(problem)
    found = load_solver("bounded").solve(problem)
    assert found.bound is not None
    assert 0 < found.bound < found.cost


def test_more_rounds_never_lower_the_bound() -> None:
    problem = random_problem(np.random.default_rng(0), [8] * 12, EVERYONE, 1000)
    messages = Messages(problem)
    bounds = [messages.round() for _ in range(6)]
    assert bounds == pytest.approx(sorted(bounds), rel=1e-3)
    assert bounds[0] < bounds[-1]


@given(problem=cost_graphs())
def test_exchanges_never_cost_more(problem: CostGraph) -> None:
    start = [0] * len(problem.nodes)
    assert problem.cost(LocalSearch(problem, 2**30).improved(start)) <= problem.cost(start)
    assert LocalSearch(problem, 0).improved(start) == tuple(start)


@given(problem=cost_graphs())
def test_no_exchange_of_one_or_of_two_neighbours_is_left(problem: CostGraph) -> None:
    found = LocalSearch(problem, 2**30).improved([0] * len(problem.nodes))
    near = [(edge.source, edge.target) for edge in problem.edges] or [(0, 0)]
    sizes = problem.structure.sizes
    for a, b in near:
        for x, y in itertools.product(range(sizes[a]), range(sizes[b])):
            other = list(found)
            other[a], other[b] = x, y
            assert problem.cost(other) >= problem.cost(found)


@pytest.mark.usefixtures("no_elimination")
def test_edges_of_several_levels_are_never_made_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = tuple(np.arange(6.0) * step % 7 for step in (1, 2, 3))
    edges = tuple(Edge(source=a, target=b, terms=LEVELS) for a, b in [(0, 1), (1, 2), (0, 2)])
    problem = CostGraph(nodes=nodes, edges=edges)
    best = optimum(problem)
    with monkeypatch.context() as patch:
        patch.setattr(Edge, "costs", property(lambda _: pytest.fail("a whole matrix")))
        found = Bounded().solve(problem)
    assert found.bound is not None
    assert found.bound <= best == found.cost


def test_a_bound_less_than_a_grain_below_the_cost_is_a_proof() -> None:
    assert bounded._raised(30.2, 8.0) == 32.0
    assert bounded._raised(32.0, 8.0) == 32.0
    problem = random_problem(np.random.default_rng(3), [3] * 4, [(0, 1), (1, 2)], 5)
    eighths = CostGraph(
        nodes=tuple(costs * 24 for costs in problem.nodes),
        edges=tuple(Edge.dense(e.source, e.target, e.costs * 40) for e in problem.edges),
    )
    assert eighths.grain() == 8.0


def test_its_tables_are_vectors_where_elimination_does_not_fit() -> None:
    twelve = structure([40] * 12, EVERYONE)
    tables = Bounded().tables(twelve)
    assert tables.fit
    assert twelve.entries < tables.stored < twelve.entries + 40 * 40 * 8


def test_it_is_picked_only_where_no_exact_solver_fits() -> None:
    assert not load_solver("bounded").exact
    assert cheapest((structure([40] * 12, EVERYONE),)) == FALLBACK == "bounded"
    assert cheapest((structure([4] * 12, EVERYONE),)) == "elimination"
    assert (
        load_solver("elimination").solve(random_problem(np.random.default_rng(0), [2], [], 1)).bound is None
    )
