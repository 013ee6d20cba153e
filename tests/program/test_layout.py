from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar.sharding.placement import ALONE, WHOLE, Choice, cut, grid
from tests.program.arrays import array_layout

if TYPE_CHECKING:
    from hypar.sharding.layout import Layout


def shares(layout: Layout, level: int, dim: str) -> list[tuple[float, ...]]:
    return [*map(tuple, layout.levels[level][dim].tolist())]


def test_a_choice_divides_each_part_alike() -> None:
    layout = array_layout((2, 2), (cut("batch", 2), cut("height", 2)))
    assert shares(layout, 0, "batch") == [(0, 0.5), (0, 0.5), (0.5, 1), (0.5, 1)]
    assert shares(layout, 1, "height") == [(0, 0.5), (0.5, 1), (0, 0.5), (0.5, 1)]
    assert [*layout.dims] == ["batch", "height"]
    assert [*layout.of({"height": "rows"}).dims] == ["rows"]


@pytest.mark.parametrize(
    ("choice", "working"),
    [
        (ALONE, [1, 0, 0, 0]),
        (WHOLE, [1, 1, 1, 1]),
        (cut("batch", 2), [1, 0, 1, 0]),
    ],
)
def test_devices_beyond_the_grid_are_idle(choice: Choice, working: list[int]) -> None:
    layout = array_layout((4,), (choice,))
    assert layout.working.tolist() == [bool(own) for own in working]
    assert (layout.copies(("batch",)).number >= 0).tolist() == layout.working.tolist()


def test_a_grid_numbers_its_shards_through_the_dims() -> None:
    layout = array_layout((4,), (grid({"batch": 2, "out_channels": 2}),))
    assert shares(layout, 0, "batch") == [(0, 0.5), (0, 0.5), (0.5, 1), (0.5, 1)]
    assert shares(layout, 0, "out_channels") == [(0, 0.5), (0.5, 1), (0, 0.5), (0.5, 1)]
