"""Plans for least time beside the baselines, all that come with hypar, and what timing the baselines costs.

Run by hand: ``pytest tests/benchmarks/test_baselines.py -m slow --benchmark-enable -n 0``; the sweep takes about half an
hour, and says how many plans were tried.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.planning.request import BASELINES
from hypar.registry import data_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

SPACES = (None, "all")
"""As it is without a word, and every dim."""


@pytest.mark.parametrize("hardware", data_names("hardware"))
def test_no_plan_for_least_time_is_slower_than_a_baseline(
    benchmark: BenchmarkFixture, hardware: str, say: Callable[[str], None]
) -> None:
    """Every network at 1 to 6 levels, as many as the machine has devices for."""
    machine = as_hardware(hardware)
    if isinstance(machine, HeterogeneousMachine) or machine.num_devices == 1:
        pytest.skip("the cost time is for several devices, all alike")
    if not benchmark.enabled:
        pytest.skip("run by hand")
    counts, worst = benchmark.pedantic(lambda: swept(hardware), rounds=1)  # type: ignore[no-untyped-call]
    say(
        f"{hardware}: {counts['tried']} plans tried, {counts['slower']} slower; worst {worst:.15f} times a baseline"
    )
    say(f"{hardware}: taken {dict(counts)}")
    assert counts["tried"]
    assert not counts["slower"]


def swept(hardware: str) -> tuple[Counter[str], float]:
    """How many plans were tried, how many are slower than a baseline that fits, whose plan each is; the worst ratio."""
    machine, counts, worst = load_machine(hardware), Counter[str](), 0.0
    for model in data_names("models"):
        graph = load_model(model)
        for levels in (count for count in range(1, 7) if 2**count <= machine.num_devices):
            asked = {"levels": levels, "hardware": machine}
            scores = [plan_model(graph, strategy=name, **asked).score for name in BASELINES]  # type: ignore[arg-type]
            fitting = [score.time_s for score in scores if score is not None and score.fits]
            for space in SPACES:
                plan = plan_model(graph, cost="time", space=space, **asked)  # type: ignore[arg-type]
                assert plan.score is not None
                assert plan.baselines is not None
                counts["tried"] += 1
                counts[plan.baselines.taken] += 1
                counts["does not fit"] += not plan.score.fits
                ratio = plan.score.time_s / min(fitting or [plan.score.time_s])
                counts["slower"] += ratio > 1
                worst = max(worst, ratio)
    return counts, worst


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("model", "hardware"), [("vgg16", "hmc"), ("resnet50", "h100-8x")])
def test_planning_for_time(benchmark: BenchmarkFixture, model: str, hardware: str, space: str | None) -> None:
    """Graph to plan with the baselines, which are planned once for every network, array and set of pins."""
    graph, machine = load_model(model), load_machine(hardware)
    plan = benchmark(plan_model, graph, levels=4, cost="time", space=space, hardware=machine)
    assert plan.baselines is not None
