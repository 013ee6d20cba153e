"""Simulated transfers bring the right values, once, and count what they bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import add, copy, counted, mask
from hypar.program.holding import Holding
from tests.effort import examples
from tests.program.arrays import array_places

if TYPE_CHECKING:
    from hypar.program.layout import Places

ARRAYS = [(2,), (5,), (2, 2), (3, 2), (2, 2, 2), (2, 4)]


@st.composite
def transfers(draw: st.DrawFn) -> tuple[Places, Holding, Holding]:
    places = array_places(draw(st.sampled_from(ARRAYS)))
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    rates = draw(st.tuples(st.floats(0.2, 0.9), st.floats(0.2, 0.9)))
    first, second = (
        Holding(tuple(random.random((places.devices, size)) < rate for size in shape)) for rate in rates
    )
    return places, first, second


@settings(max_examples=examples(200))
@given(transfers())
def test_a_copy_brings_what_some_device_has(case: tuple[Places, Holding, Holding]) -> None:
    places, have, need = case
    whole = np.arange(float(np.prod(have.shape))).reshape(have.shape)
    had, needed = mask(have), mask(need)
    values, moved = copy(places, np.where(had, whole, np.nan), had, needed)
    there = needed & had.any(axis=0)
    assert (np.where(there, values, 0) == np.where(there, whole, 0)).all()
    assert np.isnan(values[~there]).all()
    if not (needed & ~had.any(axis=0)).any():
        assert moved.sum(axis=1).tolist() == counted(places, have, need).tolist()


@settings(max_examples=examples(200))
@given(transfers(), st.data())
def test_a_sum_is_that_of_the_terms_of_a_copy(
    case: tuple[Places, Holding, Holding], data: st.DataObject
) -> None:
    places, terms, need = case
    copies = np.array([data.draw(st.integers(0, 1)) for _ in range(places.devices)])
    had, needed = mask(terms), mask(need)
    source = np.where(had, np.random.default_rng(0).integers(-9, 9, had.shape), np.nan)
    values, moved = add(places, source, had, needed, copies)
    for device, own in enumerate(copies):
        summed = np.where(had & (copies == own).reshape(-1, *[1] * (had.ndim - 1)), source, 0).sum(axis=0)
        there = needed[device] & had[copies == own].any(axis=0)
        assert (values[device][there] == summed[there]).all()
        assert np.isnan(values[device][~there]).all()
    assert moved.sum(axis=1).tolist() == counted(places, terms, need, copies).tolist()
