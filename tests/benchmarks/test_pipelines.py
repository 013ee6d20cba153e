"""How long pipelines take in-process. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_machine, load_model, pipeline_model
from hypar.solve.partition import partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize("schedule", ["layer-block", "1f1b"])
@pytest.mark.parametrize(("balance", "most"), [("time", 1), ("macs", 1), ("traffic", 6), ("memory", 6)])
def test_resnet152(
    benchmark: BenchmarkFixture, say: Callable[[str], None], balance: str, most: float, schedule: str
) -> None:
    """ResNet-152 in 16 stages: 206 layers that are cut, 2e22 partitions."""
    graph, machine = load_model("resnet152").with_batch(8), load_machine("hmc")
    found = benchmark(pipeline_model, graph, stages=16, schedule=schedule, balance=balance, hardware=machine)
    assert len(found.stages.stages) == 16
    if benchmark.stats is not None:
        seconds = benchmark.stats.stats.mean
        say(f"resnet152, 16 stages, {schedule}, balance {balance}: {seconds * 1e3:.0f} ms")
        assert seconds < most


@pytest.mark.parametrize("items", [250, 500, 1000, 2000])
def test_partition(benchmark: BenchmarkFixture, items: int) -> None:
    """So many items in 16 spans: time grows with the square."""
    costs = np.random.default_rng(0).random((items, items + 1))
    assert benchmark(partition, lambda _span: costs, 16, np.zeros(items + 1)) is not None
