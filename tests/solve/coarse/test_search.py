"""The search from coarse to fine against every sequence counted out, on arrays alone."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.solve.coarse import search
from hypar.solve.coarse.merged import merged
from hypar.solve.coarse.search import Found, improving
from hypar.solve.coarse.states import Coarse, Spans
from hypar.solve.limits import Budget, Limits
from tests.effort import examples
from tests.ladders import cost_of, ladders, sequences

if TYPE_CHECKING:
    from hypar.solve.coarse.ladder import Ladder
    from hypar.solve.edge import Costs, Indices

MOST = 3000
"""Plans that are counted out."""


def fine(ladder: Ladder) -> Coarse:
    """The problem of single levels, with every sequence, where the plans are few."""
    found = [np.array(sequences(ladder, node), dtype=np.intp) for node in range(len(ladder.nodes))]
    assume(math.prod(map(len, found)) <= MOST)
    return Coarse(Spans(ladder), (1,) * ladder.levels, found)


def costs_of(coarse: Coarse) -> Costs:
    """The cost of every plan, with an axis for each node."""
    sizes = [len(own) for own in coarse.states]
    costs: Costs = np.zeros(sizes)
    for axis, own in enumerate(coarse.nodes):
        costs += own.reshape([-1 if axis == other else 1 for other in range(len(sizes))])
    for (a, b), own in zip(coarse.ladder.ends, coarse.pairs, strict=True):
        turned = own if a < b else own.T
        costs += turned.reshape([size if axis in {a, b} else 1 for axis, size in enumerate(sizes)])
    return costs


def least(ladder: Ladder) -> float:
    """The optimum, of all plans."""
    return float(costs_of(fine(ladder)).min())


def first(ladder: Ladder) -> Indices:
    """The plan of every node's first options."""
    return np.zeros((len(ladder.nodes), ladder.levels), dtype=np.intp)


def last(ladder: Ladder, budget: Budget, thin: Ladder | None = None) -> Found:
    """The last answer, perhaps with options merged first; none is worse than one before it."""
    found = [*improving(ladder, thin or ladder, first(ladder), budget)]
    for one, other in itertools.pairwise(found):
        assert other.cost <= one.cost
        assert other.bound >= one.bound
    return found[-1]


@settings(max_examples=examples(100))
@given(ladder=ladders())
def test_a_plan_costs_what_counting_level_by_level_says(ladder: Ladder) -> None:
    generator = np.random.default_rng(0)
    plan = [
        own[int(generator.integers(len(own)))]
        for own in (sequences(ladder, n) for n in range(len(ladder.nodes)))
    ]
    assert Spans(ladder).cost(np.array(plan, dtype=np.intp)) == cost_of(ladder, plan)


@pytest.mark.parametrize("exchanging", [True, False])
@settings(max_examples=examples(200))
@given(ladder=ladders())
def test_without_limits_it_is_the_optimum(exchanging: bool, ladder: Ladder) -> None:
    best = least(ladder)
    with pytest.MonkeyPatch.context() as patched:
        if not exchanging:
            patched.setattr(search, "exchanged", lambda *_: iter(()))
        budget = Budget()
        found = last(ladder, budget)
    assert found.exact
    assert found.cost == best == Spans(ladder).cost(found.orders)
    assert not budget.struck


@settings(max_examples=examples(100))
@given(ladder=ladders())
def test_within_limits_the_bound_is_below_the_optimum_and_the_plan_above(ladder: Ladder) -> None:
    best = least(ladder)
    for seconds, size in ((1e-6, 10**9), (60, 1000), (1e-5, 10**5)):
        budget = Budget(Limits(seconds, size))
        found = last(ladder, budget)
        assert found.bound <= best <= found.cost == Spans(ladder).cost(found.orders)
        assert found.exact or budget.struck


def classes(ladder: Ladder, parts: int) -> list[tuple[tuple[int, ...], ...]]:
    """Classes of each node's options, by their rest."""
    return [
        tuple(tuple(option % min(parts, run) for option in range(run)) for run in own)
        for own in ladder.options
    ]


@settings(max_examples=examples(100))
@given(ladder=ladders(), parts=st.integers(1, 2))
def test_with_options_merged_first_the_optimum_is_the_same_and_the_bound_below_it(
    ladder: Ladder, parts: int
) -> None:
    best, thin = least(ladder), merged(ladder, classes(ladder, parts))
    assert least(thin) <= best
    found = last(ladder, Budget(), thin)
    assert found.exact
    assert found.cost == best == Spans(ladder).cost(found.orders)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "MOST_STATES", 0)
        found = last(ladder, Budget(), thin)
    assert found.bound <= best <= found.cost == Spans(ladder).cost(found.orders)
    assert found.bound >= least(thin)
