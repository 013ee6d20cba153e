"""How long a heterogeneous machine takes to plan. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_heterogeneous, load_model, plan_model

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize("shares", ["exact", "linear"])
def test_resnet50_on_128_and_128_devices(benchmark: BenchmarkFixture, shares: str) -> None:
    """Graph to plan with its score; exact shares are meant to stay under 2 s."""
    graph, machine = load_model("resnet50").with_batch(512), load_heterogeneous("tpu-v2-v3")
    plan = benchmark.pedantic(  # type: ignore[no-untyped-call]
        plan_model,
        (graph,),
        {"hardware": machine, "strategy": "accpar", "shares": shares},
        rounds=3,
        warmup_rounds=1,
    )
    print(f"\nresnet50, {shares}: {plan.num_devices} devices, {plan.score.time_s * 1e3:.3f} ms a step")  # noqa: T201
    assert plan.num_devices == 256
