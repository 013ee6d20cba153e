from __future__ import annotations

import pytest

from hypar.program.cuts import Cuts, array_cuts
from hypar.sharding.placement import ALONE, WHOLE, Choice, cut, grid


def shares(cuts: Cuts, level: int, dim: str) -> list[tuple[float, float]]:
    low, high = cuts.levels[level].bounds[dim]
    return [*zip(low.tolist(), high.tolist(), strict=True)]


def test_a_choice_divides_each_part_alike() -> None:
    cuts = array_cuts((2, 2), (cut("batch", 2), cut("height", 2)))
    assert shares(cuts, 0, "batch") == [(0, 0.5), (0, 0.5), (0.5, 1), (0.5, 1)]
    assert shares(cuts, 1, "height") == [(0, 0.5), (0.5, 1), (0, 0.5), (0.5, 1)]
    assert cuts.divides("batch")
    assert cuts.divides("channels", "height")
    assert not cuts.divides("channels", "width")


@pytest.mark.parametrize(
    ("choice", "working"),
    [
        (ALONE, [1, 0, 0, 0]),
        (WHOLE, [1, 1, 1, 1]),
        (cut("batch", 2), [1, 0, 1, 0]),
        (grid({"batch": 3}), [1, 1, 1, 0]),
    ],
)
def test_devices_beyond_the_grid_are_idle(choice: Choice, working: list[int]) -> None:
    cuts = array_cuts((4,), (choice,))
    assert cuts.working.tolist() == [bool(own) for own in working]
    assert (cuts.copies(["batch"]) >= 0).tolist() == cuts.working.tolist()


def test_a_grid_numbers_its_shards_through_the_dims() -> None:
    cuts = array_cuts((4,), (grid({"batch": 2, "out_channels": 2}),))
    assert shares(cuts, 0, "batch") == [(0, 0.5), (0, 0.5), (0.5, 1), (0.5, 1)]
    assert shares(cuts, 0, "out_channels") == [(0, 0.5), (0.5, 1), (0, 0.5), (0.5, 1)]
