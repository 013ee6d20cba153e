"""How long stages that are cut take to plan. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize(
    ("model", "hardware", "stages", "levels"),
    [
        ("vgg16", "hmc", "best", 4),
        ("resnet50", "hmc", 4, 2),
        ("resnet50", "hmc", "best", 4),
        ("resnet152", "tpu-v2", 16, 2),
        ("resnet152", "h100-8x", 16, 2),
    ],
)
def test_stages(
    benchmark: BenchmarkFixture,
    say: Callable[[str], None],
    model: str,
    hardware: str,
    stages: int | str,
    levels: int,
) -> None:
    """Partitions exact over all spans, 2,485 of ResNet-50 and 21,321 of ResNet-152; meant to stay under two seconds."""
    graph, machine = load_model(model), load_machine(hardware)
    plan = benchmark(plan_model, graph, stages=stages, levels=levels, hardware=machine)
    assert plan.num_devices == machine.num_devices
    if benchmark.stats is not None:
        seconds = benchmark.stats.stats.mean
        step = format_seconds(plan.score.time_s)
        count = len(plan.stages.stages)
        say(
            f"{model} on {hardware}, {stages} stages, {levels} levels: {seconds * 1e3:.0f} ms; {count} stages, {step} a step"
        )
        assert seconds < 2
