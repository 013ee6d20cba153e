from __future__ import annotations

import numpy as np
import pytest

from hypar.network.windows import TransposedWindow, Window
from hypar.program.cuts import array_cuts
from hypar.program.pieces import divide
from hypar.program.reads import owned, read
from hypar.sharding.placement import WHOLE, cut

HALVES = divide(8, array_cuts((2,), (cut("height", 2),)), "height")


def indices(members: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(own).tolist() for own in members]


@pytest.mark.parametrize(
    ("window", "size", "expected"),
    [
        (Window(kernel=3, padding=1), 8, [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]),
        (Window(kernel=2, stride=2), 16, [[*range(8)], [*range(8, 16)]]),
        (Window(kernel=1, stride=2), 15, [[0, 2, 4, 6], [8, 10, 12, 14]]),
        (Window(kernel=2, dilation=3, padding=1), 9, [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]]),
        (TransposedWindow(kernel=2, stride=2), 4, [[0, 1], [2, 3]]),
    ],
)
def test_windows_read_what_their_taps_meet(window: Window, size: int, expected: list[list[int]]) -> None:
    assert indices(read(window, HALVES, size)) == expected


def test_an_idle_device_reads_nothing() -> None:
    made = divide(8, array_cuts((2,), (cut("height", 1),)), "height")
    assert indices(read(Window(kernel=1), made, 8)) == [[*range(8)], []]


class TestOwned:
    reading = read(Window(kernel=3, padding=1), HALVES, 8)
    alone = (np.ones((2, 1), bool),)

    def test_a_row_belongs_to_the_piece_that_holds_it(self) -> None:
        held = divide(8, array_cuts((2,), (cut("height", 2),)), "height")
        assert indices(owned(self.reading, held, self.alone)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert indices(owned(self.reading, held[::-1], self.alone)) == [
            [0, 1, 2, 4],
            [3, 5, 6, 7],
        ]

    def test_a_row_that_all_hold_belongs_to_the_piece_in_whose_middle_it_lies(self) -> None:
        assert indices(owned(self.reading, np.ones((2, 8), bool), self.alone)) == [[0, 1, 2, 3], [4, 5, 6, 7]]

    def test_devices_of_one_piece_own_it_together(self) -> None:
        cuts = array_cuts((2, 2), (WHOLE, cut("height", 2)))
        reading = read(Window(kernel=3, padding=1), divide(8, cuts, "height"), 8)
        found = owned(reading, np.ones((4, 8), bool), (np.ones((4, 1), bool),))
        assert indices(found) == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2

    def test_pieces_of_other_samples_do_not_overlap(self) -> None:
        reading = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], bool)
        samples = np.array([[1, 0], [0, 1], [0, 1]], bool)
        assert (owned(reading, reading, (samples,)) == reading).all()

    def test_every_row_that_is_read_has_an_owner(self) -> None:
        for kernel in (3, 5, 7):
            reading = read(Window(kernel=kernel, padding=kernel // 2), HALVES, 8)
            found = owned(reading, np.zeros((2, 8), bool), self.alone)
            assert (found.sum(axis=0) == 1).all()
