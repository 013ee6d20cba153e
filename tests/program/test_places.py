from __future__ import annotations

import numpy as np
import pytest

from hypar.program.places import Places, array_places


@pytest.mark.parametrize("array", [(), (3,), (2, 3), (3, 1, 2)])
def test_a_part_is_the_devices_that_share_coordinates(array: tuple[int, ...]) -> None:
    places = array_places(array)
    coordinates = [*np.ndindex(array)]
    assert places.devices == len(coordinates)
    for level in range(len(array)):
        shared = [coordinate[: level + 1] for coordinate in coordinates]
        expected = [
            [device for device, own in enumerate(shared) if own == one] for one in dict.fromkeys(shared)
        ]
        assert [part.tolist() for part in places.members(level)] == expected


def test_the_whole_array_is_the_part_above_all_levels() -> None:
    assert [part.tolist() for part in array_places((2, 2)).members(-1)] == [[0, 1, 2, 3]]


def test_a_level_splits_each_part_of_the_level_above() -> None:
    """Groups of unequal size: one device, and three of which two lie together."""
    places = Places((np.array([0, 1, 1, 1]), np.array([0, 1, 1, 2])))
    found = [(group.tolist(), [part.tolist() for part in parts]) for group, parts in places.inside(1)]
    assert found == [([0], [[0]]), ([1, 2, 3], [[1, 2], [3]])]
