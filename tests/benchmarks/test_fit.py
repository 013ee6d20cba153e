"""Whether ``--strategy fit`` is ever slower than what a person would try: Megatron's tensor parallelism beside data parallelism, and ZeRO, recompute, microbatches.

``pytest tests/benchmarks/test_fit.py -m slow -n 0 -s`` runs each step of hundreds of configurations a case by the engine, and prints
a line for each memory: the fastest configuration that fits, and what was planned.
"""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from hypar import plan_model
from hypar.network.graph import load_model
from hypar.plan.request import Request
from hypar.planning.fit import Runs, Way, ways_of
from hypar.planning.planner import resolve
from hypar.sharding.placement import COPIES, Choice, Options, grid, numbered
from tests.kit import known

ASKED: dict[str, Any] = {"optimizer": "adam", "precision": "bf16", "strategy": "fit"}

CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "gpt2": ("gpt2", {"array": (8,), "batch": 64, "hardware": "a100-dgx"}, (80, 6, 4, 3)),
    "llama3-8b": ("llama3-8b", {"array": (8,), "batch": 64, "hardware": "h100-8x"}, (80, 60, 50, 40)),
    "llama3-8b 8x8": ("llama3-8b", {"array": (8, 8), "batch": 512, "hardware": "h100-8x"}, (80, 40)),
    "mixtral-8x7b 8x8": ("mixtral-8x7b", {"array": (8, 8), "batch": 64, "hardware": "h100-8x"}, (80,)),
    "llama3-70b 8x8": ("llama3-70b", {"array": (8, 8), "batch": 64, "hardware": "h100-8x"}, (80,)),
}
"""Networks with what is asked for, and gigabytes of memory."""

DIMS = tuple(f"{end}{dim}" for dim in ("kv_heads", "heads", "ff", "vocab") for end in ("out_", "in_", ""))
"""The dims of which a layer divides its first: columns of q, k, v, gate, up and head, rows of o, down and the embedding."""

SPLITS = {
    "sequence": (*DIMS, "sequence", "slots"),
    "whole": DIMS,
    "experts": ("experts", *DIMS, "sequence"),
    "context": ("sequence", "slots"),
}
"""The dims of which devices that share a sample divide the first that a layer has; where it has none all compute the same."""


class Configuration(NamedTuple):
    """What a person would try.

    Attributes:
        tensor: the devices that divide a sample.
        split: what they divide, one of ``SPLITS``.
        way: how the step trains.
    """

    tensor: int
    split: str
    way: Way

    def choices(self, runs: Runs) -> tuple[Options, ...]:
        """Return the choices of each layer, whose innermost level has the devices that divide a sample."""
        *outer, ways = runs.request.array
        above = tuple(grid({"batch": own}) for own in outer)

        def inner(sizes: Mapping[str, int]) -> Choice:
            dim = next((own for own in SPLITS[self.split] if own in sizes), COPIES)
            each = {"batch": ways // self.tensor, dim: self.tensor}
            if dim == COPIES and self.tensor > 1:
                return numbered((own, by) for own, by in each.items() if by > 1)
            return grid(each)

        return tuple((*above, inner(layer.nest.sizes)) for layer in runs.question.graph.layers)


def runs_of(case: str) -> Runs:
    """Return the steps of a case."""
    model, asked, _ = CASES[case]
    network = load_model(model)
    request = resolve(Request(**ASKED, **asked), network)
    return Runs(request, request.network(load_model(network, batch=asked["batch"])))


def configurations(runs: Runs) -> Iterator[Configuration]:
    """Yield every configuration in which no device is without a sample."""
    layers, devices = runs.question.graph.layers, math.prod(runs.request.array)
    splits = [own for own in SPLITS if own != "experts" or any("experts" in one.nest.sizes for one in layers)]
    shared = [(1, "sequence"), *product((2, 4, 8), splits)]
    for (tensor, split), way in product(shared, [*ways_of(runs.request, runs.graph)]):
        if way.stages == 1 and runs.graph.batch % (devices // tensor * way.microbatches) == 0:
            yield Configuration(tensor, split, way)


@lru_cache(maxsize=1)
def every(case: str) -> list[tuple[float, float, Configuration]]:
    """Return seconds and bytes of all configurations of a case, the fastest first."""
    runs, found = runs_of(case), []
    for own in configurations(runs):
        runs.run.cache_clear()
        ran = runs.run(own.choices(runs), own.way)
        found.append((ran.seconds, ran.held, own))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensor", "way"), [(1, Way(3, "none", 2)), (2, Way(1, "attention", 1)), (4, Way(2, "full", 4))]
)
def test_a_configuration_is_that_of_pins(tensor: int, way: Way) -> None:
    runs = runs_of("gpt2")
    choices = Configuration(tensor, "sequence", way).choices(runs)
    ran = runs.run(choices, way)
    layers = zip(runs.question.graph.layers, choices, strict=True)
    pins = [f"{layer.name}={chosen[0].text(8)}" for layer, chosen in layers]
    model, asked, _ = CASES["gpt2"]
    plan = plan_model(model, pins=pins, **ASKED, **asked, **way._asdict())
    assert known(plan.score).time_s == ran.seconds


@pytest.mark.slow
@pytest.mark.parametrize(("case", "memory"), [(case, own) for case in CASES for own in CASES[case][-1]])
def test_it_is_no_slower_than_any_configuration(case: str, memory: int) -> None:
    model, asked, _ = CASES[case]
    started = time.process_time()
    plan = plan_model(model, device_memory=f"{memory} GB", **ASKED, **asked)
    planned_s, score = time.process_time() - started, known(plan.score)
    least = next((own for own in every(case) if own[1] <= memory * 1e9), None)
    way = Way(plan.zero, plan.training.recompute, plan.microbatches or 1)
    line = f"{case}, {memory} GB: {score.time_s:.4g} s, {way}, {planned_s:.1f} s of planning"
    sys.stdout.write(f"{line}; the best of {len(every(case))}: {least}\n")
    assert least is None or (score.fits and score.time_s <= least[0] * (1 + 1e-9))
