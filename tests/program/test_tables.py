"""Equal rows and columns of tables are found as numpy finds them, for few devices and for many."""

from __future__ import annotations

import numpy as np
import pytest

from hypar.program.holding import Holding
from hypar.program.tables import content_of, indices_of, kinds_of, table_of


@pytest.mark.parametrize("devices", [1, 3, 8, 9, 64, 65, 200])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_kinds_are_the_columns_in_lexicographic_order(devices: int, size: int) -> None:
    random = np.random.default_rng(devices * size)
    table = random.random((devices, 5))[:, random.integers(0, 5, size)] < 0.5
    different, first, which, counts = np.unique(
        table, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    found = kinds_of(table)
    assert (table[:, found.first] == different).all()
    assert found.first.tolist() == first.tolist()
    assert found.which.tolist() == which.reshape(-1).tolist()
    assert found.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (5, 13), (64, 2), (4, 0)])
def test_a_table_is_found_again_from_its_content(shape: tuple[int, int]) -> None:
    table = np.random.default_rng(0).random(shape) < 0.5
    assert (table_of(content_of(table)) == table).all()
    assert [own.tolist() for own in indices_of(table)] == [np.flatnonzero(row).tolist() for row in table]


def test_tables_of_equal_bits_and_other_shapes_differ() -> None:
    ones = np.ones((2, 4), bool)
    assert content_of(ones) != content_of(ones.reshape(4, 2))
    assert Holding((ones,)) != Holding((ones.reshape(4, 2),))


def test_holdings_are_equal_by_content() -> None:
    one, other = (Holding((np.eye(3, dtype=bool), np.ones((3, 2), bool))) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != Holding((np.eye(3, dtype=bool), np.zeros((3, 2), bool)))
