"""Numberings of flat levels: their digits, and the amounts that they leave as they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar import load_model
from hypar.sharding.placement import (
    ALONE,
    COPIES,
    IDLE,
    WHOLE,
    choice_of,
    cut,
    digits_of,
    grid,
    numbered,
    runs_of,
    shards_of,
)
from tests.amounts import amounts

DIMS = ("batch", "in_channels", "out_channels")


def test_equal_digits_beside_each_other_are_one_run() -> None:
    runs = [("batch", 2), ("batch", 2), ("in_channels", 2), ("batch", 2)]
    found = numbered(runs)
    assert found.order == (("batch", 4), ("in_channels", 2), ("batch", 2))
    assert found.degrees == (("batch", 8), ("in_channels", 2))
    assert numbered([(COPIES, 2), (COPIES, 4)]) == WHOLE


def test_copies_are_at_work() -> None:
    join = numbered([("batch", 4), (COPIES, 2)])
    assert (join.devices(8), join.degree("batch"), join.divided) == (8, 4, ("batch",))


def test_digits_are_the_fewest_that_suit_all_layers() -> None:
    chosen = [
        numbered([("batch", 4), ("height", 4)]),
        numbered([("batch", 2), (COPIES, 8)]),
        cut("batch", 16),
    ]
    found = digits_of(chosen, 16)
    assert [ways for ways, _ in found] == [2, 2, 4]
    assert [labels for _, labels in found] == [
        ("batch", "batch", "batch"),
        ("batch", COPIES, "batch"),
        ("height", COPIES, "batch"),
    ]
    assert [choice_of(label, 2) for label in ("batch", COPIES, IDLE)] == [cut("batch", 2), WHOLE, ALONE]


def test_a_grid_beside_a_numbering_is_numbered_through() -> None:
    assert runs_of(grid({"in_channels": 2, "batch": 4}), 8) == (("batch", 4), ("in_channels", 2))
    assert runs_of(grid({"batch": 4}), 8) == (("batch", 4), (IDLE, 2))


def test_grids_of_unlike_factors_have_common_digits() -> None:
    chosen = [grid({"batch": 3, "height": 4}), grid({"batch": 4, "height": 3}), grid({"batch": 6}), ALONE]
    assert digits_of(chosen, 12) == [
        (2, ("height", "batch", "batch", IDLE)),
        (2, ("height", "batch", IDLE, IDLE)),
        (3, ("batch", "height", "batch", IDLE)),
    ]
    assert shards_of(chosen[2], 12)["batch"].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
    assert (shards_of(chosen[2], 12)[IDLE] == 0).tolist() == ([True] * 3 + [False] * 3) * 2


def test_numberings_without_common_digits_are_refused() -> None:
    with pytest.raises(ValueError, match="end at 2 and at 3"):
        digits_of([numbered([("batch", 2), ("height", 3)]), numbered([("batch", 3), ("height", 2)])], 6)


@given(st.lists(st.lists(st.sampled_from(DIMS), min_size=3, max_size=3), min_size=4, max_size=4))
def test_a_flat_level_moves_what_the_levels_of_its_digits_move(orders: list[list[str]]) -> None:
    graph = load_model("sfc").contracted
    for convention in ("moved", "fused"):
        flat = [(numbered((dim, 2) for dim in own),) for own in orders]
        levels = [tuple(cut(dim, 2) for dim in own) for own in orders]
        one = math.fsum(own.elements for own in amounts(graph, (8,), flat, convention))
        several = math.fsum(own.elements for own in amounts(graph, (2, 2, 2), levels, convention))
        assert one == pytest.approx(several)
