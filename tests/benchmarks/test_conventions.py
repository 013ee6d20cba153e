"""How much longer planning takes under ``moved`` and ``fused``, side by side with ``paper`` in one run."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from hypar import load_model, plan_model
from hypar.planning.searches.base import load_search
from hypar.sharding.amounts import counted, listing
from tests.conventions import THREE_TYPES, question_of

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

graph_of = cache(load_model)


@pytest.mark.parametrize("convention", ["paper", "moved", "fused"])
@pytest.mark.parametrize(
    ("space", "search"),
    [("batch,in_channels", "greedy"), (THREE_TYPES, "greedy"), (THREE_TYPES, "joint"), ("all", "joint")],
)
@pytest.mark.parametrize("model", ["vgg16", "resnet50"])
def test_planning(benchmark: BenchmarkFixture, model: str, space: str, search: str, convention: str) -> None:
    """Graph to plan at four levels: ``moved`` is meant to take 1.3 times ``paper`` greedily, 3 times jointly."""
    benchmark.group = f"{model} {search} over {space}"
    benchmark(
        plan_model,
        graph_of(model),
        levels=4,
        strategy="accpar",
        space=space,
        search=search,
        convention=convention,
    )


@pytest.mark.parametrize("levels", [4, 20])
def test_counting_a_plan(benchmark: BenchmarkFixture, levels: int) -> None:
    """A plan of ResNet-50 on 16 devices is meant to take less than 5 ms, on 2^20 less than 100 ms."""
    graph = graph_of("resnet50").contracted
    found = load_search("greedy").run(question_of(graph_of("resnet50"), (2,) * levels, "moved"))

    def count() -> list[listing.Amount]:
        for cached in (counted.received_inside, counted.received_between):
            cached.cache_clear()
        return listing.amounts(graph, (2,) * levels, found.choices, "moved")

    assert benchmark(count)
