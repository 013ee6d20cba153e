"""Counts of transfers, against a count of every element by itself."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import counted
from hypar.program.holding import Holding
from hypar.sharding.layout import places_of
from tests.effort import examples
from tests.program.machines import ARRAYS

if TYPE_CHECKING:
    from hypar.sharding.layout import Numbers, Places


def has(holding: Holding, device: int, element: tuple[int, ...]) -> bool:
    return all(own[device, index] for own, index in zip(holding.members, element, strict=True))


def who(holding: Holding, element: tuple[int, ...]) -> set[int]:
    return {device for device in range(len(holding.members[0])) if has(holding, device, element)}


def parts_of(places: Places, level: int) -> list[set[int]]:
    """The devices of each part of a level: those with the same numbers down to it."""
    paths = [*zip(*[own.tolist() for own in places.parts[: level + 1]], strict=True)]
    return [{device for device, own in enumerate(paths) if own == path} for path in sorted({*paths})]


def entering(places: Places, had: set[int], wanted: set[int]) -> Numbers:
    """Count the parts of each level that an element enters from outside."""
    entered = [
        sum(bool(part & wanted) and not part & had for part in parts_of(places, level))
        for level in range(len(places.parts))
    ]
    return np.diff(entered, prepend=0)


def summed(places: Places, terms: set[int], wanted: set[int]) -> Numbers:
    """Count what sums one element: its terms leave parts as copies would enter them, from the best owner there is."""
    found = [entering(places, {owner}, terms) + entering(places, {owner}, wanted) for owner in wanted]
    return min(found, key=lambda own: np.cumsum(own).tolist()[::-1])


@st.composite
def holdings(draw: st.DrawFn, devices: int, shape: tuple[int, ...]) -> Holding:
    rows = [st.lists(st.booleans(), min_size=size, max_size=size) for size in shape]
    return Holding(tuple(np.array([draw(row) for _ in range(devices)], bool) for row in rows))


@st.composite
def transfers(draw: st.DrawFn) -> tuple[Places, Holding, Holding]:
    places = places_of(draw(st.sampled_from(ARRAYS)))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    return places, draw(holdings(places.devices, shape)), draw(holdings(places.devices, shape))


@settings(max_examples=examples(300))
@given(transfers())
def test_a_copy_is_counted_as_element_by_element(case: tuple[Places, Holding, Holding]) -> None:
    places, have, need = case
    total = np.zeros(len(places.parts), np.int64)
    for element in product(*map(range, have.shape)):
        total += entering(places, who(have, element), who(need, element))
    assert counted(places, have, need).tolist() == total.tolist()


@settings(max_examples=examples(300))
@given(transfers(), st.data())
def test_a_sum_is_counted_as_element_by_element(
    case: tuple[Places, Holding, Holding], data: st.DataObject
) -> None:
    places, terms, need = case
    copies = np.array([data.draw(st.integers(-1, 1)) for _ in range(places.devices)])
    total = np.zeros(len(places.parts), np.int64)
    for element in product(*map(range, terms.shape)):
        for copy in range(int(copies.max()) + 1):
            those = {*np.flatnonzero(copies == copy).tolist()}
            others = {*np.flatnonzero(copies < 0).tolist()} if copy == 0 else set()
            having, wanted = who(terms, element) & those, who(need, element) & (those | others)
            if having and wanted:
                total += summed(places, having, wanted)
    assert counted(places, terms, need, copies).tolist() == total.tolist()
