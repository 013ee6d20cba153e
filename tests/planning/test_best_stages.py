"""The best number of stages against no stages and every power of two of them, on all machines of identical devices."""

from __future__ import annotations

import pytest

from hypar import Machine, load_model, machines, plan_model
from hypar.errors import InputError
from hypar.machine.load_heterogeneous import load_hardware
from tests.effort import NETWORKS

LEVELS = 3
"""Two-way levels of the array that is divided into stages and levels inside them."""


@pytest.mark.slow
@pytest.mark.parametrize("hardware", machines())
@pytest.mark.parametrize("model", NETWORKS)
def test_the_best_stages_are_never_slower(model: str, hardware: str) -> None:
    graph, machine = load_model(model), load_hardware(hardware)
    if not isinstance(machine, Machine) or machine.num_devices % 2**LEVELS:
        return
    best = plan_model(graph, hardware=machine, levels=LEVELS, stages="best").score
    assert best is not None
    for outer in range(LEVELS + 1):
        stages = 2**outer if outer else None
        try:
            other = plan_model(graph, hardware=machine, levels=LEVELS - outer, stages=stages).score
        except InputError:
            continue
        assert other is not None
        assert not other.fits or best.time_s <= other.time_s * (1 + 1e-9)
