"""The bounded solver: its bound, and its cost."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.errors import TableLimitError
from hypar.solve.solvers import named
from hypar.solve.solvers.base import FALLBACK, Tables, cheapest, load_solver
from hypar.solve.solvers.named import Bounded
from tests.effort import examples
from tests.problems import chains, cost_graphs, random_problem, structure, trees
from tests.solvers import EXHAUSTIVE

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph

EVERYONE = list(itertools.combinations(range(12), 2))


@pytest.fixture
def no_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elimination has tables that never fit."""
    monkeypatch.setattr(named, "tables_of", lambda _: Tables(stored=2**40, work=2**40))


def optimum(problem: CostGraph) -> float:
    return EXHAUSTIVE.solve(problem).cost


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


def test_it_is_picked_only_where_no_exact_solver_fits() -> None:
    assert not load_solver("bounded").exact
    assert cheapest((structure([40] * 12, EVERYONE),)) == FALLBACK == "bounded"
    assert cheapest((structure([4] * 12, EVERYONE),)) == "elimination"
    assert (
        load_solver("elimination").solve(random_problem(np.random.default_rng(0), [2], [], 1)).bound is None
    )
