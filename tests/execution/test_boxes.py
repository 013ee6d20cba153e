from __future__ import annotations

import numpy as np
import pytest

from hypar.execution.boxes import mask, put, take, whole_piece
from hypar.network.build import load_model

ARRAY = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    ("rows", "columns"), [([1, 2], [0, 1, 2]), ([0, 3], [1, 2]), ([0, 3], [0, 5]), ([], [1]), ([2], [])]
)
def test_boxes_are_taken_and_put(rows: list[int], columns: list[int]) -> None:
    box = np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp)
    taken = take(ARRAY, box)
    assert taken.tolist() == [[ARRAY[row, column] for column in columns] for row in rows]
    whole = put(ARRAY.shape, box, taken)
    held = mask(ARRAY.shape, box)
    assert (np.isnan(whole) == ~held).all()
    assert (whole[held] == ARRAY[held]).all()
    assert held.sum() == len(rows) * len(columns)


def test_a_box_may_name_the_first_dims_alone() -> None:
    assert take(ARRAY, (np.array([0, 2]),)).tolist() == ARRAY[[0, 2]].tolist()


def test_a_whole_piece_names_what_a_device_can_have_of_a_layer() -> None:
    layers = {layer.name: layer for layer in load_model("lenet-c").layers}
    sizes = {dim: len(part) for dim, part in whole_piece(layers["conv2"], 8).items()}
    assert sizes == {"batch": 8, "in_channels": 20, "out_channels": 50, "height": 8, "width": 8}
    assert {dim: len(part) for dim, part in whole_piece(layers["relu1"], 8).items()} == {
        "batch": 8,
        "channels": 500,
    }
