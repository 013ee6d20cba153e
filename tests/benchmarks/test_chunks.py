"""How long chunks take to find. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, overlap_model
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.exchanges import EXCHANGES
from tests.schedule.test_chunks import deep

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_resnet_152(benchmark: BenchmarkFixture, say: Callable[[str], None], exchange: str) -> None:
    """The best chunks of 156 layers, graph to timeline; meant to stay under a second."""
    graph, machine = load_model("resnet152"), load_machine("h100-8x", {"exchange": exchange})
    start = time.perf_counter()
    found = overlap_model(graph, hardware=machine)
    say(f"resnet152, {exchange}: {found!r}, {time.perf_counter() - start:.3f} s the first time")
    again = benchmark(overlap_model, graph, hardware=machine)
    assert again.chunks == found.chunks


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("count", [156, 2000, 20_000])
def test_best_of_many_layers(benchmark: BenchmarkFixture, count: int, exchange: str) -> None:
    """The search alone; a model file has 20,000 layers at most."""
    assert sum(benchmark(best_sizes, deep(count), EXCHANGES[exchange])) == count
