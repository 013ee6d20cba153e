"""The search by counts against elimination over all sequences, on arrays alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.solve.counts import chain, entries, relaxed, solution
from hypar.solve.counts.blocks import blocks_of, components
from hypar.solve.counts.columns import Columns, Plan
from hypar.solve.counts.near import floor_of
from hypar.solve.counts.relaxed import Relaxed
from hypar.solve.counts.solution import solve
from tests.counts import count_graphs, groups_of, least, tiered
from tests.effort import examples
from tests.problems import bridges, chains, series_parallel, trees

if TYPE_CHECKING:
    from hypar.solve.counts.forms import CountGraph


def first(search: Columns, *_: object) -> Plan:
    """The plan of every layer's first option, far above most optima."""
    graph, groups = search.graph, search.groups
    orders = np.array([[own[group][0] for group in groups.tolist()] for own in graph.offered])
    return Plan(orders, groups, graph.cost(orders, groups))


@settings(max_examples=examples(300, short=10))
@given(graph=st.one_of(count_graphs(), count_graphs(stays=True)))
def test_the_bound_is_below_the_optimum_and_the_plan_above(graph: CountGraph) -> None:
    found, best = solve(graph), least(graph)
    assert found is not None
    slack = 1e-9 * max(1.0, abs(best))
    assert found.bound <= best + slack
    assert found.cost >= best - slack
    assert np.isclose(found.cost, graph.cost(found.orders, groups_of(graph)), rtol=1e-12)
    if found.exact:
        assert abs(found.cost - best) <= slack


@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("shapes", [chains(), trees(), series_parallel()], ids=["chain", "tree", "sp"])
def test_it_is_the_optimum_where_every_block_has_a_pivot(
    poor: bool, shapes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a poor plan the optimum is found, and its orders written down, by the tables of blocks alone."""
    if poor:
        monkeypatch.setattr(Columns, "greedy", first)
        monkeypatch.setattr(Columns, "improving", lambda *_: iter(()))

    @settings(max_examples=examples(150, short=6))
    @given(graph=count_graphs(shapes))
    def equal(graph: CountGraph) -> None:
        found = solve(graph)
        if blocks_of([link[:2] for link in graph.links], len(graph.nodes)) is not None:
            assert found is not None
            assert found.exact
            assert np.isclose(found.cost, least(graph), rtol=1e-9)

    equal()


@settings(max_examples=examples(300, short=6))
@given(graph=tiered(st.one_of(chains(), trees(), series_parallel())))
def test_it_is_the_optimum_on_tiers_with_costs_of_states(graph: CountGraph) -> None:
    found = solve(graph)
    assert found is not None
    assert found.exact
    assert np.isclose(found.cost, least(graph), rtol=1e-9)


@settings(max_examples=examples(100))
@given(graph=count_graphs(bridges()))
def test_a_block_without_a_pivot_leaves_a_bound(graph: CountGraph) -> None:
    assert blocks_of([link[:2] for link in graph.links], len(graph.nodes)) is None
    found, best = solve(graph), least(graph)
    assert found is not None
    assert found.bound <= best + 1e-9 * max(1.0, abs(best))


@settings(max_examples=examples(100))
@given(graph=count_graphs())
def test_no_state_of_an_optimum_is_left_out(graph: CountGraph) -> None:
    best = least(graph)
    relaxed = Relaxed(graph)
    assert relaxed.bound() <= best + 1e-9 * max(1.0, abs(best))
    relaxed.narrow(best + 1e-6)
    assert all(len(states) for states in relaxed.states)
    tree = relaxed.bound()
    assert floor_of(graph) <= best
    assert tree <= best + 1e-9 * max(1.0, abs(best))
    assert (
        tree - 1e-9 * max(1.0, abs(best))
        <= relaxed.by_cliques(best + 1e-6)
        <= best + 1e-9 * max(1.0, abs(best))
    )
    assert all(len(states) for states in relaxed.states)


@settings(max_examples=examples(100))
@given(graph=st.one_of(count_graphs(), tiered()), most=st.sampled_from((1, 4, 20)))
def test_no_state_of_an_optimum_is_left_out_by_classes_of_states(graph: CountGraph, most: int) -> None:
    best = least(graph)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(relaxed, "FOLDING", 0)
        patched.setattr(relaxed, "MOST_FOLDED", most)
        found = Relaxed(graph, best + 1e-6, (0,))
    assert found.complete == (not graph.links)
    assert all(len(states) for states in found.states)
    assert found.bound() <= best + 1e-9 * max(1.0, abs(best))


@settings(max_examples=examples(50))
@given(graph=count_graphs())
def test_columns_are_a_plan_of_what_is_offered(graph: CountGraph) -> None:
    search = Columns(graph)
    start = search.greedy()
    plan = search.improved(start, 2)
    assert plan.cost <= start.cost
    assert np.isclose(plan.cost, graph.cost(plan.orders, plan.groups))
    for node, order in enumerate(plan.orders.tolist()):
        for group, option in zip(plan.groups.tolist(), order, strict=True):
            assert option in graph.offered[node][group]


def test_too_many_states_of_entries_leave_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Columns, "greedy", first)
    monkeypatch.setattr(Columns, "improving", lambda *_: iter(()))
    monkeypatch.setattr(entries, "MOST_PAIRS", 0)
    monkeypatch.setattr(chain, "MOST_ENTRIES", 1)

    @settings(max_examples=examples(50))
    @given(graph=count_graphs(series_parallel()))
    def bounded(graph: CountGraph) -> None:
        found, best = solve(graph), least(graph)
        assert found is not None
        assert found.bound <= best + 1e-9 * max(1.0, abs(best))
        assert found.cost >= best - 1e-9 * max(1.0, abs(best))

    bounded()


@pytest.mark.parametrize("limit", ["MOST_STATES", "MOST_LEVELS"])
def test_too_many_levels_or_states_are_not_searched(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(solution, limit, 0)

    @settings(max_examples=2)
    @given(graph=count_graphs())
    def refused(graph: CountGraph) -> None:
        assert solve(graph) is None

    refused()


@settings(max_examples=examples(200, short=20))
@given(shape=st.one_of(chains(), trees(), series_parallel(), bridges()))
def test_components_are_those_of_networkx(shape: tuple[int, list[tuple[int, int]]]) -> None:
    size, pairs = shape
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(size))
    found = components({node: {*graph[node]} - {node} for node in graph})
    expected: Any = nx.biconnected_components(graph)
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))
