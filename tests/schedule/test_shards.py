"""Shards over the levels, against the indices that the devices of a program get."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.program.layout import Layout, Places, divide, shares_of
from hypar.schedule.shards import cut_of, kinds_of, missing, of_kinds, within
from hypar.sharding.placement import WHOLE, cut
from tests.effort import examples

if TYPE_CHECKING:
    from hypar.program.holding import Members
    from hypar.schedule.shards import Amount, Shards
    from hypar.sharding.placement import Options

DIMS = st.sampled_from([None, "channels", "batch"])


class Case(NamedTuple):
    """An array, the indices of a dim, and the choices of those that make and read it."""

    array: tuple[int, ...]
    size: int
    made: Options
    read: Options


@st.composite
def cases(draw: st.DrawFn) -> Case:
    array = tuple(draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=3)))
    ends = [
        tuple(
            [WHOLE if dim is None else cut(dim, ways) for ways, dim in ((ways, draw(DIMS)) for ways in array)]
        )
        for _ in range(2)
    ]
    return Case(array, draw(st.integers(1, 24)), *ends)


def members(case: Case, chosen: Options, held: tuple[Members, ...] = ()) -> Members:
    """The indices that each device gets, by the layout of a program."""
    devices = np.arange(math.prod(case.array))
    places = Places(tuple(np.unravel_index(devices, case.array)))
    levels = [
        {dim: own[part] for dim, own in shares_of(choice, ways)[0].items()}
        for choice, ways, part in zip(chosen, case.array, places.parts, strict=True)
    ]
    layout = Layout(places, tuple(levels), np.ones(len(devices), bool))
    return divide(case.size, layout, "channels", held)


def shards(case: Case, chosen: Options) -> tuple[Shards, Amount]:
    pairs = tuple([(choice, "channels") for choice in chosen])
    found, share = cut_of("channels", pairs, case.array, (), (case.size,))
    return (() if found is None else (("channels", found),)), share


def on_each(case: Case, share: Amount) -> list[float]:
    return [round(float(own), 9) for own in np.broadcast_to(share, case.array).reshape(-1)]


@settings(max_examples=examples(500, 60))
@given(cases())
def test_a_device_has_as_much_as_a_program_gives_it(case: Case) -> None:
    for chosen in (case.made, case.read):
        sizes = members(case, chosen).sum(axis=1) / case.size
        assert on_each(case, shards(case, chosen)[1]) == [round(float(own), 9) for own in sizes]


@settings(max_examples=examples(500, 60))
@given(cases())
def test_shards_lie_inside_others_where_a_program_leaves_them(case: Case) -> None:
    made = members(case, case.made)
    read = members(case, case.read, (made,))
    (own, _), (its, _) = shards(case, case.read), shards(case, case.made)
    lacks = (read & ~made).sum(axis=1) / case.size
    assert within(own, its) == (not lacks.any())
    if not lacks.any():
        assert on_each(case, missing(own, its)) == [0.0] * len(lacks)


@st.composite
def amounts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Amount]]:
    """An array, and amounts that vary over some of its levels each."""
    array = tuple(draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=3)))
    found: list[Amount] = []
    for _ in range(draw(st.integers(1, 3))):
        shape = [draw(st.sampled_from([1, ways])) for ways in array]
        count = math.prod(shape)
        own = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        found.append(np.array(own, float).reshape(shape))
    return array, found


@settings(max_examples=examples(300, 60))
@given(amounts())
def test_devices_of_one_kind_have_as_much_of_everything(case: tuple[tuple[int, ...], list[Amount]]) -> None:
    array, every = case
    kinds = kinds_of(every)
    each = [np.broadcast_to(of_kinds(own, kinds), len(kinds[0])).tolist() for own in every]
    found = [*zip(*each, strict=True)]
    devices = zip(*(np.broadcast_to(own, array).reshape(-1).tolist() for own in every), strict=True)
    assert len({*found}) == len(found)
    assert {*found} == {*devices}


def test_rows_are_not_taken_for_channels() -> None:
    """Of 5 in the same shards, rows stay consecutive, whichever is asked first."""
    array, size = (2, 2), 5
    made = ((WHOLE, "channels"), (cut("channels", 2), "channels"))
    read = ((cut("channels", 2), "channels"), (cut("channels", 2), "channels"))
    found = {}
    for name in ("channels", "height"):
        own, its = (cut_of(name, pairs, array, (), (size,))[0] for pairs in (read, made))
        assert own is not None
        assert its is not None
        found[name] = within(((name, own),), ((name, its),))
    assert found == {"channels": True, "height": False}


def test_a_real_number_of_indices_is_divided_by_itself() -> None:
    """5.0 of them are in equal halves, 5 in two and three, whichever is asked first."""
    pairs = ((cut("channels", 2), "channels"),)
    whole, real = (cut_of("channels", pairs, (2,), (), (5,), integral=own)[1] for own in (True, False))
    assert np.asarray(whole).tolist() == [0.4, 0.6]
    assert real == 0.5
