from __future__ import annotations

import numpy as np

from hypar.program.holding import Holding, everywhere

TOP = Holding((np.array([[1, 1, 0], [0, 0, 1]], bool), np.array([[1, 1], [0, 1]], bool)))


def test_a_device_has_a_box() -> None:
    assert [[own.tolist() for own in box] for box in TOP.boxes] == [[[0, 1], [0, 1]], [[2], [1]]]
    assert TOP.elements.tolist() == [4, 1]
    assert (TOP.devices, TOP.shape) == (2, (3, 2))


def test_everywhere_is_everything() -> None:
    whole = everywhere((3, 2), 2)
    assert whole.elements.tolist() == [6, 6]
    assert TOP.within(whole)
    assert not whole.within(TOP)
    assert TOP.within(TOP)


def test_a_device_with_an_empty_box_lacks_nothing() -> None:
    empty = Holding((np.array([[1, 0, 0], [0, 0, 0]], bool), np.ones((2, 2), bool)))
    assert empty.elements.tolist() == [2, 0]
    assert empty.within(TOP)


def test_holdings_of_the_same_elements_are_the_same() -> None:
    assert Holding(tuple(own.copy() for own in TOP.members)) == TOP
    assert everywhere((3, 2), 2) != TOP
