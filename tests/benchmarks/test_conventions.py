"""How much longer planning takes under ``moved`` and ``fused``, side by side with ``paper`` in one run."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hypar import load_model, plan_model
from hypar.planning.searches.base import load_search
from hypar.sharding.amounts import counted, listing
from tests.conventions import THREE_TYPES, question_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

graph_of = cache(load_model)
ROUNDS = 7


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "search", "most"),
    [
        ("batch,in_channels", "greedy", 1.3),
        (THREE_TYPES, "greedy", 1.3),
        (THREE_TYPES, "joint", 3.0),
        ("all", "joint", 3.0),
    ],
)
@pytest.mark.parametrize("model", ["vgg16", "resnet50"])
def test_planning_under_moved(model: str, space: str, search: str, most: float) -> None:
    """Graph to plan: the search under each convention, and what planning takes besides."""
    graph = graph_of(model)
    asked = [question_of(graph, (2,) * 4, convention, space=space) for convention in ("paper", "moved")]
    paper, moved, whole = [], [], []
    for _ in range(ROUNDS):
        paper.append(seconds(lambda: load_search(search).run(asked[0])))
        moved.append(seconds(lambda: load_search(search).run(asked[1])))
        whole.append(
            seconds(lambda: plan_model(graph, levels=4, strategy="accpar", space=space, search=search))
        )
    taken = min(whole) - min(paper) + min(moved)
    assert taken <= most * min(whole), f"{taken / min(whole):.2f} times {min(whole) * 1e3:.1f} ms"


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
