from __future__ import annotations

import numpy as np
import pytest

from hypar.execution.loss import loss
from tests.ops.layers import bench


@pytest.mark.parametrize("case", ["softmax", "linear", "softmax of an image", "conv"])
def test_errors_are_the_derivatives_of_the_loss(case: str) -> None:
    layer = bench(case).layer
    output = np.random.default_rng(0).uniform(0.1, 1, size=(3, *layer.shape.values()))
    _, error = loss(layer, output)
    direction = np.random.default_rng(1).normal(size=output.shape)
    there, back = (loss(layer, output + sign * 1e-6 * direction)[0].sum() for sign in (1, -1))
    assert (there - back) / 2e-6 == pytest.approx((error * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("case", ["softmax", "linear", "softmax of an image"])
def test_elements_need_nothing_else_and_devices_add_up_alike(case: str) -> None:
    layer, random = bench(case).layer, np.random.default_rng(0)
    output = random.uniform(0.1, 1, size=(3, *layer.shape.values()))
    held = random.random((4, *output.shape)) < 0.5
    for whole, own in zip(loss(layer, output), loss(layer, np.where(held, output, np.nan)), strict=True):
        assert (np.isnan(own) == ~held).all()
        assert (own[held] == np.broadcast_to(whole, own.shape)[held]).all()


def test_a_uniform_distribution_costs_its_entropy() -> None:
    parts, errors = loss(bench("softmax").layer, np.full((3, 5), 0.2))
    assert parts.sum() == pytest.approx(np.log(5))
    assert ((errors != 0).sum(axis=1) == 1).all()
