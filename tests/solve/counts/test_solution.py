"""The search by counts against elimination over all sequences, on arrays alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.solve.counts.solution import Columns, Found, improving
from hypar.solve.limits import Budget
from hypar.solve.order import blocks_of
from tests.counts import count_graphs, least, tiered
from tests.effort import examples
from tests.problems import chains, series_parallel, trees

if TYPE_CHECKING:
    from hypar.solve.counts.forms import CountGraph


def first(search: Columns, *_: object) -> Found:
    """The plan of every layer's first option, far above most optima."""
    orders = np.array([[own[group][0] for group in search.groups.tolist()] for own in search.graph.offered])
    return Found(orders, search.cost(orders))


def solve(graph: CountGraph) -> Found | None:
    """The last answer of a search; None if there is none."""
    return deque([None, *improving(graph, Budget())], maxlen=1).pop()


@settings(max_examples=examples(300, short=10))
@given(graph=st.one_of(count_graphs(), count_graphs(stays=True)))
def test_the_bound_is_below_the_optimum_and_the_plan_above(graph: CountGraph) -> None:
    found, best = solve(graph), least(graph)
    assert found is not None
    slack = 1e-9 * max(1.0, abs(best))
    assert found.bound <= best + slack
    assert found.cost >= best - slack
    assert np.isclose(found.cost, Columns(graph).cost(found.orders), rtol=1e-12)
    if found.bound == found.cost:
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
        if blocks_of([link[:2] for link in graph.links]) is not None:
            assert found is not None
            assert found.bound == found.cost
            assert np.isclose(found.cost, least(graph), rtol=1e-9)

    equal()


@settings(max_examples=examples(300, short=6))
@given(graph=tiered(st.one_of(chains(), trees(), series_parallel())))
def test_it_is_the_optimum_on_tiers_with_costs_of_states(graph: CountGraph) -> None:
    found = solve(graph)
    assert found is not None
    assert found.bound == found.cost
    assert np.isclose(found.cost, least(graph), rtol=1e-9)
