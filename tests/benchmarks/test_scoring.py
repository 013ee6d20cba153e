"""How long scoring takes in-process. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING

import kit
import pytest

from hypar import Plan, explore_model, load_machine, load_model, plan_model, score_plan
from hypar.machine import machine
from hypar.machine.compute_models import row_stationary
from hypar.machine.setting import Setting
from hypar.schedule import step
from hypar.schedule.scoring import score_step
from hypar.schedule.step import lower
from hypar.timeline import run

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from hypar.network.contraction import ContractedGraph
    from hypar.sharding.placement import Options

Job = tuple["ContractedGraph", "list[Options]", Setting]


@pytest.fixture
def vgg19() -> Job:
    graph = load_model("vgg19")
    plan = plan_model(graph, levels=4)
    setting = Setting(machine=load_machine("hmc"), array=(2,) * 4, element_bytes=graph.element_bytes)
    return graph.contracted, [plan.choices(layer) for layer in plan.layers], setting


def test_score(benchmark: BenchmarkFixture, vgg19: Job) -> None:
    """VGG-19 at 4 levels, meant to stay under 1 ms, once transfers and mappings are known."""
    assert benchmark(score_step, *vgg19).time_s > 0


def test_score_cold(benchmark: BenchmarkFixture, vgg19: Job) -> None:
    """The same with nothing known of its layers."""

    def forget() -> None:
        for module in (machine, step, row_stationary):
            for found in vars(module).values():
                if isinstance(found, functools._lru_cache_wrapper):
                    found.cache_clear()

    cold = benchmark.pedantic(score_step, vgg19, setup=forget, rounds=20)  # type: ignore[no-untyped-call]
    assert cold.time_s > 0


@pytest.mark.parametrize("hardware", ["hmc", "tpu-v3", "p100-4x4"])
@pytest.mark.parametrize("model", ["vgg16", "resnet50", "resnet152"])
def test_stored_plan(benchmark: BenchmarkFixture, model: str, hardware: str) -> None:
    """A stored plan at 4 levels, scored again: meant to stay under 1 ms for VGG-16, and under 3 ms for ResNet-50."""
    graph, machine = load_model(model), load_machine(hardware)
    plan = plan_model(graph, levels=4)
    assert benchmark(score_plan, plan, hardware=machine, model=graph).time_s > 0


@pytest.mark.parametrize("model", ["vgg16", "resnet50"])
def test_unlike_plans(benchmark: BenchmarkFixture, model: str) -> None:
    """A plan in every round that was not scored before; others of the network were."""
    graph, machine = load_model(model), load_machine("hmc")
    draw, plan = random.Random(0), plan_model(graph, levels=4)
    rounds = 30 if benchmark.enabled else 1

    def unlike() -> tuple[tuple[Plan], dict[str, object]]:
        data = plan.to_data()
        for split in data["splits"]:
            for layer in graph.contracted.layers:
                dims = ["batch", "in_channels" if layer.weighted else "channels"]
                split["choices"][layer.name] = {draw.choice(dims): split["ways"]}
        return (Plan.model_validate(data),), {"hardware": machine, "model": graph}

    for _ in range(rounds):
        (other,), known = unlike()
        score_plan(other, **known)  # type: ignore[arg-type]
    score = benchmark.pedantic(score_plan, setup=unlike, rounds=rounds)  # type: ignore[no-untyped-call]
    assert score.time_s > 0


def test_lower(benchmark: BenchmarkFixture, vgg19: Job) -> None:
    """Choices to tasks."""
    assert benchmark(lower, *vgg19).tasks


def test_engine(benchmark: BenchmarkFixture, vgg19: Job) -> None:
    """Tasks to a timeline."""
    tasks = lower(*vgg19).tasks
    assert benchmark(run, tasks).makespan > 0


def test_explore(benchmark: BenchmarkFixture) -> None:
    """1,024 plans of VGG-19, meant to stay under a second."""
    graph, hmc = load_model("vgg19"), load_machine("hmc")
    vary = ["fc1", "fc2", "conv5_4@H1", "conv5_4@H2"]
    found = benchmark(explore_model, graph, vary=vary, hardware=hmc, levels=4)
    assert len(found.points) == 1024


@pytest.mark.parametrize("model", ["vgg19", "resnet152"])
def test_least_time(benchmark: BenchmarkFixture, model: str) -> None:
    """The joint search for the least time at 4 levels."""
    graph, hmc = load_model(model), load_machine("hmc")
    plan = benchmark(plan_model, graph, levels=4, cost="time", search="joint", hardware=hmc)
    assert plan.score is not None


def test_refinement(benchmark: BenchmarkFixture) -> None:
    """Refining VGG-19 where communication runs beside computation."""
    graph, hmc = load_model("vgg19"), load_machine("hmc", {"overlap": "full"})
    plan = benchmark(plan_model, graph, levels=4, cost="time", hardware=hmc, refine=True)
    assert plan.refined is not None


def test_reproduction(benchmark: BenchmarkFixture) -> None:
    """HyPar's whole evaluation, without its plots."""
    if not benchmark.enabled:
        pytest.skip("run by hand; the page's own test computes it otherwise")
    page = benchmark.pedantic(kit.page, ("hypar",), rounds=1)  # type: ignore[no-untyped-call]
    assert page.sections
