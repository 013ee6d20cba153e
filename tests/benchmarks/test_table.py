"""What planning, scoring and the other calls take: one table of calls of the public API, each with its aim.

``pytest tests/benchmarks/test_table.py -m slow --benchmark-enable -n 0`` times the short ones again and again, with the network
and the machine loaded; add ``-s`` for the long ones, each in a process of its own, whose line has the plan, the processor's
seconds and the largest memory. To compare two versions run both in turn, as ``PYTHONPATH=../before/src pytest ...``.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hypar import explore_model, load_machine, load_model, plan_model, score_plan, verify_plan
from tests.benchmarks.fresh import fresh
from tests.effort import NETWORKS, TRANSFORMERS
from tests.staged import pipeline

Asked = dict[str, Any]

DEEPA: Asked = {"strategy": "deepa", "batch": 512}

PLANS: dict[str, tuple[str, Asked]] = {
    # Greedy and joint at four levels: vgg16 within 5 and 20 ms.
    "vgg16 hypar": ("vgg16", {"levels": 4}),
    "vgg16 accpar": ("vgg16", {"levels": 4, "strategy": "accpar"}),
    "vgg16 accpar joint": ("vgg16", {"levels": 4, "strategy": "accpar", "search": "joint"}),
    "vgg16 optimal": ("vgg16", {"levels": 4, "strategy": "optimal"}),
    "resnet152 accpar": ("resnet152", {"levels": 4, "strategy": "accpar"}),
    "resnet152 fused": ("resnet152", {"levels": 4, "strategy": "accpar", "convention": "fused"}),
    "resnet152 time": ("resnet152", {"levels": 4, "cost": "time", "search": "joint", "hardware": "hmc"}),
    "vgg19 refined": ("vgg19", {"levels": 4, "cost": "time", "hardware": "h100-8x", "refine": True}),
    "vgg16 deepa 16": ("vgg16", {"array": [16], "hardware": "p100-4x4", **DEEPA}),
    "vgg16 deepa 64": ("vgg16", {"array": [64], "hardware": "h100-8x", **DEEPA}),
    "inception-v3 deepa 16": ("inception-v3", {"array": [16], "hardware": "p100-4x4", **DEEPA}),
    # Stages within 2 s, exact over all spans; shares of unlike groups within 2 s.
    "vgg16 best stages": ("vgg16", {"stages": "best", "levels": 4, "hardware": "hmc"}),
    "resnet50 4 stages": ("resnet50", {"stages": 4, "levels": 2, "hardware": "hmc"}),
    "resnet152 16 stages": ("resnet152", {"stages": 16, "levels": 2, "hardware": "h100-8x"}),
    "resnet50 exact shares": ("resnet50", {"hardware": "tpu-v2-v3", "strategy": "accpar", "shares": "exact", "batch": 512}),
    "resnet50 linear shares": ("resnet50", {"hardware": "tpu-v2-v3", "strategy": "accpar", "shares": "linear", "batch": 512}),
}  # fmt: skip
SCORES = [
    ("vgg16", "hmc"), ("resnet50", "hmc"), ("resnet152", "tpu-v3"), ("gpt2", "h100-8x"),
    ("llama3-8b", "h100-8x"),
]  # fmt: skip
"""At four levels: vgg16 within 1 ms, resnet50 within 3."""


@pytest.mark.parametrize("name", PLANS)
def test_planning(benchmark: BenchmarkFixture, name: str) -> None:
    model, asked = PLANS[name]
    known = {"hardware": load_machine(asked["hardware"])} if "hardware" in asked else {}
    assert benchmark(plan_model, load_model(model), **asked | known).layers


@pytest.mark.parametrize(("model", "hardware"), SCORES)
def test_scoring(benchmark: BenchmarkFixture, model: str, hardware: str) -> None:
    graph, machine = load_model(model), load_machine(hardware)
    plan = plan_model(graph, levels=4)
    assert benchmark(score_plan, plan, hardware=machine, model=graph).time_s > 0


def verified() -> Callable[[], object]:
    return partial(verify_plan, plan_model("lenet-c", levels=2), model=load_model("lenet-c"), batch=4)


VARIED = ["fc1", "fc2", "conv5_4@H1", "conv5_4@H2"]
CHUNKS: Asked = {"array": [8, 8], "strategy": "dp", "chunks": "best", "hardware": "h100-8x"}
OTHERS: dict[str, Callable[[], Callable[[], object]]] = {
    "load resnet152": lambda: partial(load_model, "resnet152"),
    "best chunks of resnet152": lambda: partial(plan_model, load_model("resnet152"), **CHUNKS),
    "resnet152 in 16 stages": lambda: partial(
        pipeline, load_model("resnet152").with_batch(8), stages=16, hardware="hmc"
    ),
    "1,024 plans of vgg19": lambda: partial(
        explore_model, load_model("vgg19"), vary=VARIED, hardware="hmc", levels=4
    ),
    "verify lenet-c": verified,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls(benchmark: BenchmarkFixture, name: str) -> None:
    """Chunks, stages and a thousand plans within a second each."""
    assert benchmark(OTHERS[name]())


COMMANDS = {
    "imports only": ["-c", "import click, numpy, pydantic.main, yaml"],
    "hypar plan vgg16": ["-m", "hypar", "plan", "vgg16", "--levels", "4"],
    "hypar --help": ["-m", "hypar", "--help"],
}


@pytest.mark.benchmark(min_rounds=10)
@pytest.mark.parametrize("name", COMMANDS)
def test_from_the_shell(benchmark: BenchmarkFixture, name: str) -> None:
    """The second is meant to stay within 1.3 times the first, and ``--help`` within 0.6 times the second."""
    done = benchmark(subprocess.run, [sys.executable, *COMMANDS[name]], capture_output=True, check=False)
    assert done.returncode == 0


INPUT = {"op": "input", "channels": 8, "height": 32, "width": 32}
CONV = {"op": "conv", "kernel": 3, "padding": 1}
THREE_DIMS = "batch,in_channels,out_channels"


def residual(blocks: int) -> Asked:
    layers: list[Asked] = [INPUT, {"name": "stem", **CONV, "out_channels": 64}]
    for at in range(blocks):
        before = f"add{at - 1}" if at else "stem"
        layers += [
            {"name": f"one{at}", **CONV, "out_channels": 64, "inputs": before},
            {"name": f"two{at}", **CONV, "out_channels": 64},
            {"name": f"add{at}", "op": "add", "inputs": [before, f"two{at}"]},
        ]
    return {"source": "drawn", "batch": 256, "layers": layers}


def unlike(layers: int) -> Asked:
    own = [{"name": f"conv{at}", **CONV, "out_channels": 64 + at} for at in range(layers)]
    return {"source": "drawn", "batch": 256, "layers": [INPUT, *own]}


def long() -> Iterator[tuple[str, str | Asked, Asked, float, float]]:
    """Yield each long call: its name, network and options, the largest gap and the most MB that are meant."""
    optimal: Asked = {"strategy": "optimal"}
    for model in ("resnet50", "resnet152", "inception-v3", "gpt2", "llama3-8b"):
        for levels in (8, 12, 20):
            for convention in ("moved", "fused"):
                most = (0.5, 1000) if model in TRANSFORMERS else (0.001, 300)
                yield (
                    f"{model} {levels} {convention}",
                    model,
                    {**optimal, "levels": levels, "convention": convention},
                    *most,
                )
    for model in ("alexnet", "vgg16", "resnet50", "resnet152", "inception-v3"):
        for ways in (16, 256, 4096, 16384):
            yield (
                f"{model} flat {ways}",
                model,
                {**optimal, "array": [ways]},
                0.0 if ways <= 256 else 0.05,
                300,
            )
    for machine, levels in (("hmc", 4), ("p100-4x4", 4), ("tpu-v2", 6), ("tpu-v3", 8)):
        for model in ("vgg16", "resnet50", "googlenet"):
            asked = {**optimal, "cost": "time", "levels": levels, "hardware": machine, "space": THREE_DIMS}
            yield f"{model} time {machine}", model, asked, 0.5, 3000
    for model in ("alexnet", "resnet152"):
        asked = {"array": [64], "hardware": "h100-8x", **DEEPA}
        yield f"{model} deepa 64", model, asked, 0.0, 300
    yield "1,000 residual blocks", residual(1000), {**optimal, "levels": 8}, 0.0, 1000
    yield "10,000 unlike layers", unlike(10_000), {"levels": 4}, 0.0, 3000


LONG = {name: (model, asked, gap, most) for name, model, asked, gap, most in long()}


def test_the_table_names_models_that_there_are() -> None:
    assert {model for model, *_ in LONG.values() if isinstance(model, str)} <= {*NETWORKS, *TRANSFORMERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_in_a_process_of_its_own(name: str) -> None:
    model, asked, gap, most = LONG[name]
    found = fresh(model, **asked)
    sys.stdout.write(found.line(name, f"{found.cost:.6g}"))
    assert found.gap <= gap
    assert most > found.MB
