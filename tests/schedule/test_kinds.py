"""The kinds of devices, which have as much of everything."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.schedule.lifetimes import Arrays
from tests.effort import examples


@st.composite
def amounts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """An array, and amounts that vary over some of its levels each."""
    array = tuple(draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=3)))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        shape = [draw(st.sampled_from([1, ways])) for ways in array]
        count = math.prod(shape)
        own = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        found.append(np.array(own, float).reshape(shape))
    return array, found


@settings(max_examples=examples(300, 60))
@given(amounts())
def test_devices_of_one_kind_have_as_much_of_everything(
    case: tuple[tuple[int, ...], list[np.ndarray]],
) -> None:
    array, every = case
    kinds = Arrays([], {}, 1, more=every)
    found = [*zip(*(kinds.of(own).tolist() for own in every), strict=True)]
    devices = zip(*(np.broadcast_to(own, array).reshape(-1).tolist() for own in every), strict=True)
    numbers = np.broadcast_to(kinds.kind, array).reshape(-1).tolist()
    assert len({*found}) == len(found)
    assert [found[number] for number in numbers] == [*devices]
