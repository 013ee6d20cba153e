from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.program.holding import divide
from hypar.sharding.layout import Layout, places_of
from hypar.sharding.placement import cut
from tests.effort import examples
from tests.program.machines import ARRAYS, array_of, laid

if TYPE_CHECKING:
    from random import Random

    from hypar.program.holding import Members
    from hypar.sharding.layout import Shares


def pieces(members: Members) -> list[list[int]]:
    return [np.flatnonzero(own).tolist() for own in members]


def shares(*ends: float) -> Layout:
    """Return a layout of the batch at one level, between groups whose shares end there."""
    own = np.array([*pairwise((0.0, *ends))])
    return Layout(places_of((len(ends),)), ({"batch": own},), np.ones(len(ends), bool))


@st.composite
def cuts_of_dims(draw: st.DrawFn) -> tuple[tuple[int, ...], list[str], Layout]:
    array = draw(st.sampled_from(ARRAYS))
    dims = [draw(st.sampled_from(["batch", "channels"])) for _ in array]
    own = {"layer": [cut(dim, ways) for dim, ways in zip(dims, array, strict=True)]}
    return array, dims, laid(array_of(array, own), own)[1]["layer"]


def test_idle_devices_have_no_copy() -> None:
    own = {"layer": [cut("batch", 2)]}
    layout = laid(array_of((4,), own), own)[1]["layer"]
    assert layout.working.tolist() == [True, False, True, False]
    assert (layout.copies(("batch",)).number >= 0).tolist() == layout.working.tolist()


def test_shares_are_rounded_by_the_largest_remainders() -> None:
    found = divide(10, shares(0.28, 0.55, 1.0), "batch")
    assert [len(piece) for piece in pieces(found)] == [3, 3, 4]
    assert [len(piece) for piece in pieces(divide(5, shares(0.01, 1.0), "batch"))] == [1, 4]


def test_groups_of_unequal_shares_are_each_rounded_by_themselves() -> None:
    """Two groups that divide the same samples have shares of their own: of 7, 2 and 5 in one, 4 and 3 in the other."""
    levels: tuple[dict[str, Shares], ...] = (
        {},
        {"batch": np.array([(0.0, 0.3), (0.3, 1.0), (0.0, 0.6), (0.6, 1.0)])},
    )
    found = divide(7, Layout(places_of((2, 2)), levels, np.ones(4, bool)), "batch")
    assert [len(piece) for piece in pieces(found)] == [2, 5, 4, 3]


@settings(max_examples=examples(200))
@given(cuts_of_dims(), st.integers(1, 24), st.booleans(), st.randoms(use_true_random=False))
def test_every_index_has_one_piece(
    case: tuple[tuple[int, ...], list[str], Layout], size: int, in_place: bool, random: Random
) -> None:  # fmt: skip
    array, dims, cuts = case
    held = np.array([[random.random() < 0.4 for _ in range(size)] for _ in range(cuts.places.devices)], bool)
    found = divide(size, cuts, "batch", (held,) if in_place else ())
    ways = int(np.prod([own for own, dim in zip(array, dims, strict=True) if dim == "batch"], dtype=int))
    assert (found.sum(axis=0) == cuts.places.devices // ways).all()
    widths = found.sum(axis=1)
    assert widths.max() - widths.min() <= len(array)
    coordinates = np.stack(np.unravel_index(np.arange(cuts.places.devices), array))
    own = coordinates[[dim == "batch" for dim in dims]]
    for device in range(cuts.places.devices):
        alike = (own == own[:, device : device + 1]).all(axis=0)
        assert (found[alike] == found[device]).all(), "pieces depend on the levels that divide the dim"
