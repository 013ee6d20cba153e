"""Times of several algorithms, and costs that are their least."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar import load_machine, plan_model, score_plan
from hypar.machine.links import LevelLink, Line, least
from hypar.sharding.conventions import BY_LEVELS
from tests.effort import crossed

if TYPE_CHECKING:
    from hypar.machine.machine import Machine

numbers = st.floats(0, 1e3).map(lambda number: round(number, 3))
lines = st.lists(st.builds(Line, numbers, numbers, st.sampled_from(["ring", "tree"])), min_size=1, max_size=8)


@given(lines, st.lists(st.floats(0, 1e6), min_size=1, max_size=5))
def test_the_lines_kept_are_least_everywhere(given_lines: list[Line], sizes: list[float]) -> None:
    kept = least(given_lines)
    link = LevelLink(lines={"all_reduce": kept}, hops=1, mean_hops=1.0, resource="links")
    assert {*kept} <= {*given_lines}
    for size in sizes:
        time = min(line.seconds(size) for line in given_lines)
        assert link.seconds("all_reduce", size) == pytest.approx(time, rel=1e-8, abs=1e-12)
        assert link.line("all_reduce", size).seconds(size) == link.seconds("all_reduce", size)
    found = link.seconds("all_reduce", np.array(sizes))
    assert np.asarray(found).tolist() == [link.seconds("all_reduce", size) for size in sizes]


@given(lines)
def test_every_line_kept_is_needed(given_lines: list[Line]) -> None:
    """Latency grows from each to the next, the time of a byte falls, and the bytes from which the next is faster grow."""
    kept = least(given_lines)
    pairs = list(pairwise(kept))
    assert all(one.latency_s < other.latency_s for one, other in pairs)
    assert all(one.seconds_per_byte > other.seconds_per_byte for one, other in pairs)
    meet = [
        (other.latency_s - one.latency_s) / (one.seconds_per_byte - other.seconds_per_byte)
        for one, other in pairs
    ]
    assert meet == sorted(meet)


@cache
def boards(latency: str) -> Machine:
    """Sixty-four boards whose levels have several algorithms worth using."""
    machine: Machine = load_machine("tpu-v3", {"devices": 64, "latency": latency})
    return machine


ASKED: list[dict[str, Any]] = [
    *({"strategy": strategy} for strategy in ("dp", "mp", "hypar", "owt", "optimal")),
    # Halos, and grids of several dims.
    {"space": "batch,height,out_channels", "search": "greedy"},
    {"space": "all", "search": "greedy"},
]


@crossed(
    {
        "asked": [pytest.param(asked, id=" ".join(asked.values())) for asked in ASKED],
        "convention": BY_LEVELS,
        "latency": ["1 us", "100 us"],
    }
)
def test_the_time_that_is_minimised_is_the_engine_s(
    asked: dict[str, Any], convention: str, latency: str
) -> None:
    """For each transfer the least of several lines, summed as the engine sums its tasks."""
    models = (
        {"alexnet": (8,)} if asked.get("strategy") == "optimal" else {"alexnet": (16, 4), "lenet-c": (8,)}
    )
    for model, array in models.items():
        plan = plan_model(
            model, array=array, cost="time", hardware=boards(latency), convention=convention, **asked
        )
        score = score_plan(plan, hardware=boards(latency), convention=convention)
        assert plan.cost.value == pytest.approx(score.time_s, rel=1e-9)
