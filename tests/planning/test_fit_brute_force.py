"""The fastest way of training that fits, of small networks, against every plan trained every way, and whether nothing fits."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product
from typing import Any

import pytest

from hypar import LayerGraph, load_machine, plan_model
from hypar.plan.request import Request
from hypar.planning.fit import Runs, ways_of
from hypar.planning.planner import resolve
from hypar.planning.question import ask
from tests.effort import late
from tests.heterogeneous import LINEAR, written
from tests.kit import known

Drawn = tuple[LayerGraph, dict[str, Any], dict[str, Any]]


def drawn(seed: int) -> Drawn:
    """Return a network of two or three layers, what is asked for, and changes to a machine."""
    draw = random.Random(seed)
    text = f"  - {{op: input, channels: {draw.choice((8, 64, 1024))}, height: 1, width: 1}}\n"
    text += "  - {name: flat, op: flatten, inputs: input}\n"
    last = "flat"
    for number in range(2):
        text += LINEAR.format(f"fc{number}", draw.choice((8, 12, 64, 256, 1024)), last)
        last = f"fc{number}"
    asked = {"array": draw.choice(((2,), (2,), (4,), (2, 2))), "optimizer": "adam", "strategy": "fit"}
    link = draw.choice(("1 GB/s", "10 GB/s", "450 GB/s"))
    changes = {"interconnect.1.link_bandwidth": link, "overlap": draw.choice(("none", "full"))}
    return written(text, draw.choice((2, 4, 6, 8))), asked, changes


@lru_cache(maxsize=1)
def every(seed: int) -> list[tuple[float, float]]:
    """Return the seconds and the bytes of every plan trained every way."""
    network, asked, changes = drawn(seed)
    request = resolve(Request(**asked, hardware=load_machine("h100-8x", changes)), network)
    runs, found = Runs(request, request.network(network)), []
    for way in ways_of(request, runs.graph):
        question = ask(runs.of(way), runs.graph)
        for plan in product(*[[*product(*own)] for own in question.options]):
            if all(question.runs(at, own) for at, own in enumerate(plan)):
                ran = runs.run(plan, way)
                found.append((ran.seconds, ran.held))
    return sorted(found)


@pytest.mark.parametrize("part", [-0.05, 0.1, 0.3, 0.6, 1.05])
@pytest.mark.parametrize("seed", late(range(100), *range(6, 100)))
def test_it_is_the_fastest_of_all_that_fit(seed: int, part: float) -> None:
    """The memory is a part of the way from what the smallest holds to what the fastest does, or too small for all."""
    network, asked, changes = drawn(seed)
    least, most = min(held for _, held in every(seed)), every(seed)[0][1]
    memory = int(least + part * (most - least if part > 0 else least))
    machine = load_machine("h100-8x", {**changes, "memory.capacity": f"{memory} B"})
    score = known(plan_model(network, **asked, hardware=machine).score)
    fastest = next((seconds for seconds, held in every(seed) if held <= memory), None)
    assert score.fits is (fastest is not None)
    assert fastest is None or score.time_s <= fastest * (1 + 1e-9)
