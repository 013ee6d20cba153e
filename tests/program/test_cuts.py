from __future__ import annotations

import numpy as np
import pytest

from hypar.program.cuts import Cuts, LevelCut, array_cuts, scattered, uncut
from hypar.program.places import Places, array_places
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
    assert array_cuts((4,), (choice,)).working.tolist() == [bool(own) for own in working]


def test_a_device_that_is_idle_at_any_level_is_idle() -> None:
    cuts = array_cuts((2, 2), (ALONE, cut("batch", 2)))
    assert cuts.working.tolist() == [True, True, False, False]


def test_a_grid_numbers_its_shards_through_the_dims() -> None:
    cuts = array_cuts((4,), (grid({"batch": 2, "out_channels": 2}),))
    assert shares(cuts, 0, "batch") == [(0, 0.5), (0, 0.5), (0.5, 1), (0.5, 1)]
    assert shares(cuts, 0, "out_channels") == [(0, 0.5), (0.5, 1), (0, 0.5), (0.5, 1)]


def test_nothing_is_divided_where_nothing_is_cut() -> None:
    cuts = uncut(array_places((2, 3)))
    assert cuts.working.all()
    assert not cuts.divides("batch", "channels")
    assert cuts.copies(["batch"]).tolist() == [0, 1, 2, 3, 4, 5]


class TestCopies:
    def test_devices_with_the_same_shards_have_copies(self) -> None:
        cuts = array_cuts((2, 2), (WHOLE, cut("batch", 2)))
        assert cuts.copies(["batch"]).tolist() == [0, 0, 1, 1]
        assert array_cuts((2, 2), (cut("batch", 2), WHOLE)).copies(["batch"]).tolist() == [0, 1, 0, 1]

    def test_dims_that_do_not_count_make_copies(self) -> None:
        cuts = array_cuts((4,), (grid({"batch": 2, "in_channels": 2}),))
        assert cuts.copies(["batch", "in_channels"]).tolist() == [0, 0, 0, 0]
        assert cuts.copies(["batch"]).tolist() == [0, 1, 0, 1]

    def test_idle_devices_have_none(self) -> None:
        assert array_cuts((4,), (cut("batch", 2),)).copies(["batch"]).tolist() == [0, -1, 0, -1]

    def test_unequal_groups_have_copies_that_are_each_whole(self) -> None:
        """One group alone, another of two that share the samples: each has the whole sum over samples."""
        assert _groups([(0, 1), (0, 0.5), (0.5, 1)]).copies(["batch"]).tolist() == [0, 1, 1]

    def test_a_copy_of_which_a_group_has_no_part_is_none(self) -> None:
        """Samples are cut between the groups; of the second one, both devices have the same."""
        cuts = _groups([(0, 1), (0, 1), (0, 1)], [(0, 0.5), (0.5, 1), (0.5, 1)])
        assert cuts.copies(["batch"]).tolist() == [0, 0, -1]

    def test_dims_that_are_gone_divide_no_more(self) -> None:
        cuts = array_cuts((2, 2), (cut("height", 2), cut("batch", 2)))
        left = cuts.without(["height"])
        assert left.copies(["batch", "height"]).tolist() == [0, 0, 1, 1]
        assert not left.divides("height")


def _groups(inner: list[tuple[float, float]], outer: list[tuple[float, float]] | None = None) -> Cuts:
    """Return the cuts of samples over one device and two that lie together."""
    places = Places((np.array([0, 1, 1]), np.array([0, 1, 2])))
    levels = [
        LevelCut(
            {"batch": (np.array([low for low, _ in own]), np.array([high for _, high in own]))},
            np.ones(3, bool),
        )
        for own in (outer or [(0.0, 1.0)] * 3, inner)
    ]
    return Cuts(places, tuple(levels))


class TestScattered:
    def test_sums_go_to_the_shards_of_their_reader(self) -> None:
        maker = array_cuts((2, 2), (cut("in_channels", 2), cut("batch", 2)))
        reader = array_cuts((2, 2), (cut("in_channels", 2), cut("out_channels", 2)))
        found = scattered(maker, reader)
        assert [[*level.bounds] for level in found.levels] == [["channels"], ["batch"]]

    def test_sums_go_to_all_where_the_reader_divides_nothing_of_its_input(self) -> None:
        maker = array_cuts((2,), (cut("in_channels", 2),))
        found = scattered(maker, array_cuts((2,), (cut("out_channels", 2),)))
        assert [[*level.bounds] for level in found.levels] == [[]]

    def test_sums_stay_where_some_device_has_no_term_or_no_shard(self) -> None:
        maker = array_cuts((4,), (cut("in_channels", 4),))
        found = scattered(maker, array_cuts((4,), (cut("batch", 2),)))
        assert [[*level.bounds] for level in found.levels] == [[]]

    def test_groups_that_divide_unlike_dims_send_their_own_sums(self) -> None:
        """A group of two has terms, which go to the samples that its devices read; the one beside it divides samples already."""
        places = Places((np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])))
        whole, halves = ((0, 1),) * 2, ((0, 0.5), (0.5, 1))

        def level(**dims: tuple[tuple[float, float], ...]) -> LevelCut:
            ends = {dim: np.array(own, float) for dim, own in dims.items()}
            return LevelCut({dim: (own[:, 0], own[:, 1]) for dim, own in ends.items()}, np.ones(4, bool))

        outer = level()
        maker = Cuts(places, (outer, level(in_channels=halves + whole, batch=whole + halves)))
        reader = Cuts(places, (outer, level(batch=halves + halves)))
        found = scattered(maker, reader)
        assert shares(found, 1, "batch") == [*halves, *halves]
        assert not found.divides("channels")
        reader = Cuts(places, (outer, level(in_channels=halves + halves)))
        found = scattered(maker, reader)
        assert shares(found, 1, "channels") == [*halves, *whole]
        assert shares(found, 1, "batch") == [*whole, *halves]
