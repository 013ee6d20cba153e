"""Whether ``--strategy fit`` is ever slower than what a person would try: tensor, sequence and data parallelism, pipelines, interleaved too, ZeRO, recompute, microbatches.

``pytest tests/benchmarks/test_fit.py -m slow -n 0 -s`` runs each step of hundreds of configurations a case by the engine, and prints
a line for each memory: the fastest configuration that fits, and what was planned.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hypar import LayerGraph, load_machine, plan_model
from hypar.importers.formats import imported
from hypar.network.graph import load_model
from hypar.plan.request import Request
from hypar.planning.fit import Runs, Way, ways_of
from hypar.planning.planner import resolve
from hypar.sharding.placement import COPIES, Choice, Options, grid, numbered
from tests.kit import known

ASKED: dict[str, Any] = {"optimizer": "adam", "precision": "bf16", "strategy": "fit"}

CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "gpt2": ("gpt2", {"array": (8,), "batch": 480, "hardware": "a100-dgx"}, (80, 20, 10)),
    "llama3-8b": ("llama3-8b", {"array": (8,), "batch": 128, "hardware": "h100-8x"}, (80, 60, 40)),
    "llama3-8b 8x8": ("llama3-8b", {"array": (8, 8), "batch": 512, "hardware": "h100-8x"}, (80, 40)),
    "llama2-13b 2x8": ("llama2-13b", {"array": (2, 8), "batch": 128, "hardware": "a100-dgx"}, (80,)),
    "mixtral-8x7b 8x8": ("mixtral-8x7b", {"array": (8, 8), "batch": 256, "hardware": "h100-8x"}, (80,)),
    "llama3-70b 8x8": ("llama3-70b", {"array": (8, 8), "batch": 128, "hardware": "h100-8x"}, (80,)),
    "llama3-70b 64x8": ("llama3-70b", {"array": (64, 8), "batch": 512, "hardware": "h100-8x"}, (80,)),
    "gpt3-175b 128x8": ("gpt3-175b", {"array": (128, 8), "batch": 1536, "hardware": "a100-dgx"}, (80,)),
    "llama3-405b 2048x8": ("llama3-405b", {"array": (2048, 8), "batch": 2048, "hardware": "h100-8x"}, (80,)),
}
"""Networks with what is asked for, published batches, and gigabytes of memory."""

LLAMA2_13B = {
    "model_type": "llama",
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

DIMS = tuple(f"{end}{dim}" for dim in ("kv_heads", "heads", "ff", "vocab") for end in ("out_", "in_", ""))
"""The dims of which a layer divides its first: columns of q, k, v, gate, up and head, rows of o, down and the embedding."""

SAMPLES = 1, 2, 4, 12, 60
"""Samples that each device has at a time, where the devices of a stage are as many."""

SPLITS = {
    "sequence": (*DIMS, "sequence", "slots"),
    "whole": DIMS,
    "experts": ("experts", *DIMS, "sequence"),
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


def network_of(model: str, folder: Path) -> LayerGraph:
    """Return a shipped network, or that of a configuration."""
    if model != "llama2-13b":
        return load_model(model)
    file = folder / "config.json"
    file.write_text(json.dumps(LLAMA2_13B))
    return imported(str(file), ()).graph()


def asked_of(case: str, memory: int | None = None) -> dict[str, Any]:
    """Return what is asked for, of a machine with as many nodes as the array."""
    asked = {**CASES[case][1]}
    nodes = math.prod(asked["array"]) // 8
    changes: dict[str, Any] = {} if nodes <= 8 else {"interconnect.0.devices": nodes}
    changes |= {} if memory is None else {"memory.capacity": f"{memory} GB"}
    asked["hardware"] = load_machine(asked["hardware"], changes)
    return {**ASKED, **asked}


@lru_cache(maxsize=1)
def runs_of(case: str, folder: Path) -> Runs:
    """Return the steps of a case."""
    network, asked = network_of(CASES[case][0], folder), asked_of(case)
    request = resolve(Request(**asked), network)
    return Runs(request, request.network(load_model(network, batch=asked["batch"])))


def configurations(runs: Runs) -> Iterator[Configuration]:
    """Yield the configurations in which no device is without a sample; in stages those with ZeRO 1, where there are many."""
    layers, devices, batch = runs.question.graph.layers, math.prod(runs.whole.array), runs.graph.batch
    splits = [own for own in SPLITS if own != "experts" or any("experts" in one.nest.sizes for one in layers)]
    shared = [(1, "sequence"), *product((2, 4, 8), splits)]
    ways = [own for own in ways_of(runs.whole, runs.graph) if own.stages >= runs.least]
    for (tensor, split), way in product(shared, ways):
        at_once = devices // way.stages // tensor * way.microbatches
        usual = split == "sequence" and (
            runs.least > 1 or (way.zero == 1 and way.recompute in {"none", "full"})
        )
        whole = at_once and not batch % at_once and batch // at_once in SAMPLES
        if whole and way.recompute != "attention" and (way.stages == 1 or usual):
            yield Configuration(tensor, split, way)


@lru_cache(maxsize=1)
def every(case: str, folder: Path) -> list[tuple[float, float, Configuration]]:
    """Return seconds and bytes of all configurations of a case, the fastest first; infinite where stages do not fit."""
    runs, found = runs_of(case, folder), []
    for own in configurations(runs):
        runs.run.cache_clear()
        runs.staged.cache_clear()
        ran = runs.tried(own.choices(runs), own.way)
        found.append((ran.seconds, ran.held, own) if ran else (math.inf, math.inf, own))
    return sorted(found)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensor", "way"), [(1, Way(3, "none", 2)), (2, Way(1, "attention", 1)), (4, Way(2, "full", 4))]
)
def test_a_configuration_is_that_of_pins(tensor: int, way: Way, folder: Path) -> None:
    runs = runs_of("gpt2", folder)
    choices = Configuration(tensor, "sequence", way).choices(runs)
    ran = runs.run(choices, way)
    layers = zip(runs.question.graph.layers, choices, strict=True)
    pins = [f"{layer.name}={chosen[0].text(8)}" for layer, chosen in layers]
    own: dict[str, Any] = {"zero": way.zero, "recompute": way.recompute, "microbatches": way.microbatches}
    plan = plan_model("gpt2", pins=pins, **asked_of("gpt2"), **own)
    assert known(plan.score).time_s == ran.seconds


@pytest.mark.slow
@pytest.mark.parametrize(("case", "memory"), [(case, own) for case in CASES for own in CASES[case][-1]])
def test_it_is_no_slower_than_any_configuration(case: str, memory: int, folder: Path) -> None:
    started = time.process_time()
    plan = plan_model(network_of(CASES[case][0], folder), **asked_of(case, memory))
    planned_s, score = time.process_time() - started, known(plan.score)
    tried = every(case, folder)
    least = next((own for own in tried if own[1] <= memory * 1e9), None)
    line = f"{case}, {memory} GB: {score.time_s:.4g} s, {plan.training}, {planned_s:.1f} s of planning"
    sys.stdout.write(f"{line}; the best of {len(tried)}: {least}\n")
    assert len(tried) >= 200
    assert least is None or (score.fits and score.time_s <= least[0] * (1 + 1e-9))
