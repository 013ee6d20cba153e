"""How long the search for mappings takes, cold. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model
from hypar.machine.compute_models import blocked_row_stationary
from hypar.machine.machine import local_shape
from hypar.machine.spatial import blocking, passes, sets, tiles
from hypar.network.dims import CUTTABLE
from hypar.network.training import PHASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from hypar.machine.compute_models.base import LocalShape

CHIP = load_machine("eyeriss").compute
WHOLE = (1,) * len(CUTTABLE)


def forget() -> None:
    for module in (blocked_row_stationary, blocking, passes, sets, tiles):
        for found in vars(module).values():
            if isinstance(found, functools._lru_cache_wrapper):
                found.cache_clear()


def shapes(network: str, batch: int) -> list[LocalShape]:
    graph = load_model(network, batch=batch).contracted
    return [local_shape(layer.einsum, WHOLE) for layer in graph.layers if not (layer.join or layer.empty)]


def mapped(shapes: Sequence[LocalShape], phases: Sequence[str]) -> float:
    return sum(CHIP.work(shape, phase, 1).seconds for shape in shapes for phase in phases)


@pytest.mark.parametrize("phases", [["forward"], list(PHASES)], ids=["forward", "every phase"])
def test_vgg16(benchmark: BenchmarkFixture, phases: list[str]) -> None:
    """Sixteen layers with nothing known, meant to stay under 20 ms."""
    layers = shapes("vgg16", 3)
    found = benchmark.pedantic(mapped, (layers, phases), setup=forget, rounds=20)  # type: ignore[no-untyped-call]
    assert found > 0


@pytest.mark.parametrize("phase", list(PHASES))
def test_largest_layer(benchmark: BenchmarkFixture, phase: str) -> None:
    """The layer of ResNet-50 with the most arithmetic, with nothing known, meant to stay under 1 ms."""
    largest = max(shapes("resnet50", 256), key=lambda shape: shape.macs)
    found = benchmark.pedantic(mapped, ([largest], [phase]), setup=forget, rounds=20)  # type: ignore[no-untyped-call]
    assert found > 0
