from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar.execution.loss import loss
from tests.ops.layers import bench, mask

if TYPE_CHECKING:
    from hypar.ops.run import Box

WHOLE: Box = (np.arange(3), np.arange(5))


@pytest.mark.parametrize("case", ["softmax", "linear", "softmax of an image", "conv"])
def test_errors_are_the_derivatives_of_the_loss(case: str) -> None:
    layer = bench(case).layer
    output = np.random.default_rng(0).uniform(0.1, 1, size=(3, *layer.shape.values()))
    box = tuple(np.arange(size) for size in output.shape)
    found = loss(layer, output, box)
    direction = np.random.default_rng(1).normal(size=output.shape)
    there, back = (loss(layer, output + sign * 1e-6 * direction, box).value for sign in (1, -1))
    assert (there - back) / 2e-6 == pytest.approx((found.error * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("case", ["softmax", "linear"])
def test_boxes_add_up_to_the_whole_and_need_nothing_else(case: str) -> None:
    layer = bench(case).layer
    output = np.random.default_rng(0).uniform(0.1, 1, size=(3, *layer.shape.values()))
    every = tuple(np.arange(size) for size in output.shape)
    whole = loss(layer, output, every)
    total = 0.0
    for rows in (np.array([0, 2]), np.array([1])):
        for channels in (every[1][::2], every[1][1::2]):
            held = mask(output.shape, (rows, channels))
            part = loss(layer, np.where(held, output, np.nan), (rows, channels))
            total += part.value
            assert (np.isnan(part.error) == ~held).all()
            assert (part.error[held] == whole.error[held]).all()
    assert total == pytest.approx(whole.value, rel=1e-12)


def test_a_uniform_distribution_costs_its_entropy() -> None:
    found = loss(bench("softmax").layer, np.full((3, 5), 0.2), WHOLE)
    assert found.value == pytest.approx(np.log(5))
    assert ((found.error != 0).sum(axis=1) == 1).all()
