"""Every solver faces the same jury: register a file and it is tested."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.errors import ProblemError, TableLimitError
from hypar.registry import plugin_names
from hypar.solve.cost_graph import CostGraph
from hypar.solve.solvers.base import Solver, cheapest, load_solver
from tests.effort import examples
from tests.problems import cost_graphs, random_problem, structure
from tests.solvers import EXHAUSTIVE

NAMES = plugin_names("solvers")

EXACT = [load_solver(name) for name in NAMES if load_solver(name).exact] + [EXHAUSTIVE]


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=examples(400))
@given(problem=cost_graphs())
def test_an_exact_solver_equals_counting_everything_out(solver: Solver, problem: CostGraph) -> None:
    if solver.tables(problem.structure) is not None:
        sizes = problem.structure.sizes
        best = min(problem.cost(choices) for choices in itertools.product(*map(range, sizes)))
        assert solver.solve(problem).cost == best


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(100))
@given(problem=cost_graphs())
def test_a_solver_states_the_cost_of_its_assignment_and_repeats_itself(name: str, problem: CostGraph) -> None:
    solver = load_solver(name)
    if solver.tables(problem.structure) is not None:
        solution = solver.solve(problem)
        assert solution.cost == problem.cost(solution.assignment)
        assert solution == solver.solve(problem)


@pytest.mark.parametrize("solver", EXACT)
@settings(max_examples=examples(300))
@given(problem=cost_graphs())
def test_ties_go_from_the_last_node_back_to_the_first_declared_choice(
    solver: Solver, problem: CostGraph
) -> None:
    if solver.tables(problem.structure) is not None:
        every = itertools.product(*map(range, problem.structure.sizes))
        first = min(every, key=lambda choices: (problem.cost(choices), choices[::-1]))
        assert solver.solve(problem).assignment == first


@settings(max_examples=examples(300))
@given(problem=cost_graphs(), unit=st.sampled_from([0.1, 1e-9 / 3, 1e200, 1e-200]))
def test_exact_solvers_agree_where_sums_are_rounded(problem: CostGraph, unit: float) -> None:
    scaled = CostGraph(
        nodes=tuple(costs * unit for costs in problem.nodes),
        edges=tuple(edge._replace(terms=tuple(t * unit for t in edge.terms)) for edge in problem.edges),
    )
    found = {
        solver.solve(scaled).assignment for solver in EXACT if solver.tables(scaled.structure) is not None
    }
    assert len(found) == 1


@settings(max_examples=examples(200))
@given(problem=cost_graphs())
def test_the_cheapest_solver_takes_the_graph(problem: CostGraph) -> None:
    solver = load_solver(cheapest((problem.structure,)))
    assert solver.exact
    assert solver.solve(problem).cost == load_solver("elimination").solve(problem).cost


def test_the_cheapest_for_a_chain_is_the_chain_solver() -> None:
    chain = structure([3] * 20, [(i, i + 1) for i in range(19)])
    assert cheapest((chain,)) == "chain"


@pytest.mark.parametrize("solver", [load_solver("elimination"), EXHAUSTIVE])
def test_tables_past_the_limit_are_refused_with_their_size(solver: Solver) -> None:
    size = 40
    everyone = list(itertools.combinations(range(7), 2))
    problem = random_problem(np.random.default_rng(0), [size] * 7, everyone, 1)
    with pytest.raises(TableLimitError) as error:
        solver.solve(problem)
    assert error.value.entries > error.value.limit
    assert f"{error.value.entries:,}" in str(error.value)
    assert ("width 6" in str(error.value)) == (solver is not EXHAUSTIVE)


def test_chain_refuses_a_branch_and_a_cycle() -> None:
    for pairs in ([(0, 1), (0, 2), (0, 3)], [(0, 1), (1, 2), (2, 0)]):
        problem = random_problem(np.random.default_rng(0), [2] * 4, pairs, 1)
        with pytest.raises(ProblemError, match="branch or a cycle"):
            load_solver("chain").solve(problem)
