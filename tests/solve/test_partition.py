"""The partition against every partition there is, on random costs."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.errors import TableLimitError
from hypar.solve.partition import MOST_ENTRIES, Partition, partition

if TYPE_CHECKING:
    from hypar.solve.edge import Costs

LARGEST = 14
Key = tuple[float, float, float, tuple[int, ...]]


@st.composite
def block_costs(draw: st.DrawFn, *, additive: bool) -> tuple[list[Costs], Costs]:
    """Whole costs of few values for each span and its items, some of which cannot be, and of each seam."""
    items = draw(st.integers(1, LARGEST))
    spans = draw(st.integers(1, items))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    largest = draw(st.sampled_from([1, 3, 1000]))
    if additive:
        sums = np.concatenate([[0], np.cumsum(generator.integers(0, largest + 1, items))]).astype(np.float64)
        costs = [sums - sums[:-1, None]] * spans
    else:
        shape = (spans, items, items + 1)
        costs = list(generator.integers(0, largest + 1, shape).astype(np.float64))
        barred = draw(st.sampled_from([0.0, 0.1, 0.6]))
        costs = [np.where(generator.random(own.shape) < barred, np.inf, own) for own in costs]
    return costs, generator.integers(0, 3, items + 1).astype(np.float64)


def key(costs: list[Costs], seams: Costs, bounds: tuple[int, ...]) -> Key:
    """By what partitions are compared."""
    each = [float(own[ends]) for own, ends in zip(costs, itertools.pairwise(bounds), strict=True)]
    return max(each), sum(cost**2 for cost in each), float(seams[list(bounds[1:-1])].sum()), bounds


def brute(costs: list[Costs], seams: Costs) -> Partition | None:
    """The best of all partitions, one by one."""
    items, spans = len(seams) - 1, len(costs)
    every = ((0, *inner, items) for inner in itertools.combinations(range(1, items), spans - 1))
    best = min(key(costs, seams, bounds) for bounds in every)
    return None if math.isinf(best[0]) else Partition(best[3], best[0])


@given(problem=st.one_of(block_costs(additive=False), block_costs(additive=True)))
def test_equals_brute_force_on_any_costs(problem: tuple[list[Costs], Costs]) -> None:
    costs, seams = problem
    assert partition(costs.__getitem__, len(costs), seams) == brute(costs, seams)


def test_no_partition_above_its_limit() -> None:
    sums = np.array([0.0, 9, 10, 11, 12, 13])
    costs = sums - sums[:-1, None]
    assert partition(lambda _span: costs, 3, np.zeros(6), 9.0) == Partition((0, 1, 3, 5), 9)
    assert partition(lambda _span: costs, 3, np.zeros(6), 8.9) is None


@pytest.mark.parametrize("scale", [2.0**-900, 1.0, 2.0**900])
def test_squares_of_costs_of_any_size(scale: float) -> None:
    """Neither nothing nor infinite: the rest beside the bottleneck is still even."""
    sums = np.array([0.0, 9, 10, 11, 12, 13]) * scale
    assert partition(lambda _span: sums - sums[:-1, None], 3, np.zeros(6)) == Partition(
        (0, 1, 3, 5), 9 * scale
    )


def test_too_many_items_are_refused_before_any_cost_is_asked_for() -> None:
    with pytest.raises(
        TableLimitError, match="5,000 items in 4 spans would take 400,000,000 entries"
    ) as error:
        partition(lambda _span: pytest.fail("asked"), 4, np.zeros(5001))
    assert error.value.limit == MOST_ENTRIES
