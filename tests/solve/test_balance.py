"""Shares of which the slowest group ends first, against grids of shares and roots that are found otherwise."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.solve.balance import balance, linear, times_at
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Quadratics = NDArray[np.float64]

numbers = st.integers(0, 60).map(lambda number: number / 8)
scales = st.sampled_from([1e-9, 1e-3, 1.0, 1e6])


@st.composite
def quadratics(draw: st.DrawFn, groups: int, *, growing: bool = False) -> Quadratics:
    """What sides take: work grows, what is lacked falls or is ``s - s**2``, what is added up stays.

    Args:
        draw: of Hypothesis.
        groups: how many there are.
        growing: whether all take longer the larger their share, whatever it is.
    """
    rows = []
    for _ in range(groups):
        work, lacked, crossed, added = (draw(numbers) for _ in range(4))
        if growing:
            work += lacked + crossed + 1
        rows.append([added + lacked, work - lacked + crossed, -crossed])
    return np.array(rows) * draw(scales)


def slowest(times: Quadratics, shares: Sequence[float]) -> float:
    return max(times_at(times, shares))


def grid(groups: int, most: Sequence[float], steps: int) -> NDArray[np.float64]:
    """Every shares of whole steps that sum to 1, none above its largest: ``[shares, groups]``."""
    rows = [
        [*picked, steps - sum(picked)]
        for picked in itertools.product(range(steps + 1), repeat=groups - 1)
        if sum(picked) <= steps
    ]
    found = np.array(rows) / steps
    return found[(found <= np.array(most) + 1e-12).all(axis=1)]


def least_on(times: Quadratics, shares: NDArray[np.float64]) -> float:
    """The least time of the slowest group on a grid of shares."""
    each = times[:, 0] + shares * (times[:, 1] + shares * times[:, 2])
    return float(each.max(axis=1).min())


def test_computation_alone_is_shared_by_speed() -> None:
    """AccPar (HPCA 2020): 180 and 420 TFLOP/s, for any work, give 0.3 and 0.7."""
    for work in (1.0, 3e9, 7e15):
        found = balance(np.array([[0, work / 180e12, 0], [0, work / 420e12, 0]]))
        assert found == pytest.approx((0.3, 0.7), abs=1e-12)


STEPS = {2: 400, 3: 60, 4: 24}


@pytest.mark.parametrize("groups", STEPS)
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_no_shares_of_a_grid_are_better(groups: int, data: st.DataObject) -> None:
    times = data.draw(quadratics(groups))
    most = data.draw(st.none() | st.lists(st.integers(0, 8).map(lambda part: part / 8), min_size=groups, max_size=groups))  # fmt: skip
    found = balance(times, most)
    if most is not None and math.fsum(most) < 1:
        assert found is None
        return
    limits = most or [1.0] * groups
    assert found is not None
    assert math.fsum(found) == pytest.approx(1, abs=1e-12)
    assert all(0 <= share <= limit for share, limit in zip(found, limits, strict=True))
    tried = grid(groups, limits, STEPS[groups])
    assume(len(tried))
    assert slowest(times, found) <= least_on(times, tried) * (1 + 1e-9) + 1e-15 * float(np.abs(times).max())


def root(times: Quadratics) -> float:
    """Where two growing times cross, by halving; 0 or 1 where one is always above the other."""

    def ahead(share: float) -> float:
        first, second = times_at(times, (share, 1 - share))
        return first - second

    low, high = 0.0, 1.0
    if ahead(low) >= 0:
        return 0.0
    if ahead(high) <= 0:
        return 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if ahead(middle) < 0 else (low, middle)
    return low


@given(times=quadratics(2, growing=True), limit=st.integers(1, 9).map(lambda part: part / 10))
@settings(max_examples=examples(100))
def test_a_largest_share_is_taken_where_more_would_be_better(times: Quadratics, limit: float) -> None:
    free = root(times)
    found = balance(times, (limit, 1.0))
    assert found == pytest.approx((min(free, limit), 1 - min(free, limit)), abs=1e-9)


@given(
    work=st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=5),
    moved=st.lists(st.floats(0, 1e3), min_size=5, max_size=5),
)
@settings(max_examples=examples(100))
def test_accpar_s_rule_has_equal_products(work: list[float], moved: list[float]) -> None:
    """AccPar (HPCA 2020): ``a (E_cp,i + E_cm,i) = b (E_cp,j + E_cm,j)``, of more sides for each pair."""
    shares = linear(work, moved[: len(work)])
    assert math.fsum(shares) == pytest.approx(1, abs=1e-12)
    products = [share * (own + other) for share, own, other in zip(shares, work, moved, strict=False)]
    assert products == pytest.approx([products[0]] * len(products), rel=1e-9)


def test_accpar_s_rule_leaves_all_to_sides_that_take_nothing() -> None:
    assert linear((0, 1), (0, 1)) == (1, 0)
    assert linear((0, 1, 0), (0, 0, 0)) == (0.5, 0, 0.5)
