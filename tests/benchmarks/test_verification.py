"""How long verification takes in-process. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hypar.program
from hypar import Plan, plan_model, read_plan, verify_plan
from hypar.execution.verify import verify_program
from hypar.planning.sources import model_of
from hypar.program.of_plan import program_of
from tests.studies.verification.nets import layer, network

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from hypar import LayerGraph

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.json"))


def forget() -> None:
    """Forget what is known of tables, transfers and pieces."""
    for found in pkgutil.iter_modules(hypar.program.__path__):
        for value in vars(importlib.import_module(f"hypar.program.{found.name}")).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()


@pytest.fixture
def seven() -> tuple[Plan, LayerGraph]:
    """A network of 7 layers on 8 devices."""
    graph = network(
        layer("c1", "conv", "in", out_channels=8, kernel=3, padding=1),
        layer("p1", "pool", "c1", mode="max", kernel=2),
        layer("c2", "conv", "p1", out_channels=16, kernel=3, padding=1),
        layer("r2", "relu", "c2"),
        layer("f", "flatten", "r2"),
        layer("l1", "linear", "f", out_features=32),
        layer("l2", "linear", "l1", out_features=16),
        image=8,
        channels=4,
    )
    return plan_model(graph, levels=3, space="all"), graph


def test_seven_layers_on_eight_devices(benchmark: BenchmarkFixture, seven: tuple[Plan, LayerGraph]) -> None:
    """Lowering, counting, running and the run on one device, meant to stay under 0.3 s."""

    def verified() -> bool:
        plan, graph = seven
        return verify_program(program_of(plan, graph)).agrees

    assert benchmark.pedantic(verified, setup=forget, rounds=10)  # type: ignore[no-untyped-call]


def test_verify_plan(benchmark: BenchmarkFixture, seven: tuple[Plan, LayerGraph]) -> None:
    """The same with the plan's own count and the cases."""
    plan, graph = seven
    assert benchmark(verify_plan, plan, model=graph).ok


def test_counting_every_golden_plan(benchmark: BenchmarkFixture) -> None:
    """Lowering and counting all golden plans at full size, meant to stay under 5 s."""
    plans = [read_plan(file) for file in GOLDEN]
    graphs = [
        model_of(plan, file).with_batch(plan.model.batch) for plan, file in zip(plans, GOLDEN, strict=True)
    ]

    def counted() -> int:
        programs = [program_of(plan, graph) for plan, graph in zip(plans, graphs, strict=True)]
        steps = [(step, program.places) for program in programs for step in program.transfers.values()]
        return sum(int(step.counted(places).sum()) for step, places in steps)

    assert benchmark.pedantic(counted, setup=forget, rounds=3) > 0  # type: ignore[no-untyped-call]
