"""Stages over the split outside all levels, each cut by itself."""

from __future__ import annotations

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.errors import OptionError

HMC = load_machine("hmc")
LENET = load_model("lenet-c")


def test_a_timeline_has_only_so_many_tasks() -> None:
    with pytest.raises(
        OptionError, match=r"microbatches: found 1,048,576; allowed: at most 52,428 in 2 stages$"
    ):
        plan_model(LENET, batch=2**20, stages=2, levels=1, microbatches=2**20, hardware=HMC)
