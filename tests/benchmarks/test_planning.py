"""How long planning takes in-process. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_model, plan_model
from hypar.files.yaml_file import parse_yaml
from hypar.network.build import build_graph
from hypar.network.spec.load import parse_spec
from hypar.solve.solvers.base import load_solver
from tests.problems import random_problem

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from hypar.network.graph import LayerGraph


@pytest.mark.parametrize(
    ("model", "strategy", "search"),
    [
        ("vgg16", "hypar", "greedy"),
        ("vgg16", "accpar", "greedy"),
        ("vgg16", "accpar", "joint"),
        ("vgg16", "optimal", "joint"),
        ("resnet152", "accpar", "greedy"),
        ("inception-v3", "hypar", "joint"),
    ],
)
def test_four_levels(benchmark: BenchmarkFixture, model: str, strategy: str, search: str) -> None:
    """Graph to plan; VGG-16 is meant to stay under 5 ms greedy and 20 ms joint."""
    graph = load_model(model)
    plan = benchmark(plan_model, graph, levels=4, strategy=strategy, search=search)
    assert plan.num_devices == 16


@pytest.mark.parametrize("length", [1000, 2000, 4000])
def test_chain_solver(benchmark: BenchmarkFixture, length: int) -> None:
    """Three choices a node: time grows with the length."""
    pairs = [(node, node + 1) for node in range(length - 1)]
    problem = random_problem(np.random.default_rng(0), [3] * length, pairs, 1000)
    assert benchmark(load_solver("chain").solve, problem).cost > 0


@pytest.mark.parametrize("length", [1000, 2000, 4000])
def test_deep_network(benchmark: BenchmarkFixture, length: int) -> None:
    """A network of so many unlike linear layers, graph to plan."""
    plan = benchmark(plan_model, deep(length), levels=4)
    assert len(plan.layers) == length


@pytest.mark.parametrize("model", ["vgg16", "resnet152", "inception-v3"])
def test_model_file(benchmark: BenchmarkFixture, model: str) -> None:
    """File to graph."""
    assert benchmark(load_model, model).layers


def deep(length: int) -> LayerGraph:
    """Linear layers whose sizes differ, so that none are shared."""
    lines = [f"  - {{name: fc{n}, op: linear, out_features: {n % 997 + 1}}}" for n in range(length)]
    text = "source: made up\nbatch: 64\nlayers:\n  - {op: input, channels: 5}\n" + "\n".join(lines)
    return build_graph(parse_spec(parse_yaml(text, Path("deep.yaml")), "deep"))
