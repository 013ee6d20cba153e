"""How long grids take in-process. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

from hypar import load_machine, load_model, plan_model
from hypar.costs.base import load_cost
from hypar.costs.graphs.paper import cost_graph
from hypar.files.yaml_file import parse_yaml
from hypar.network.build import build_graph
from hypar.network.spec.load import parse_spec
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.grids.reshard import Gap, reshards
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.solvers.base import load_solver
from tests.benchmarks import naive
from tests.benchmarks.cold import forget

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Options

    Say = Callable[[str], None]

T = TypeVar("T")

BATCH = 512
MACHINES = {16: "p100-4x4", 64: "h100-8x"}
NETWORKS = ["alexnet", "vgg16", "resnet50", "resnet152", "inception-v3"]
SPACE = parse_space(load_strategy("deepa").space)

MOST_MEMORY = 300e6
"""Bytes that planning may take at its peak, Python and its libraries included."""

PLANNED = """
import sys
from pathlib import Path
from hypar import load_model, plan_model
plan_model(load_model(sys.argv[1]), batch=512, array=[64], strategy="deepa", hardware="h100-8x")
print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
"""
"""Prints the peak of a fresh process in KiB. Unlike ru_maxrss it leaves out what the parent had taken."""


def test_cold_plan_on_16_devices(benchmark: BenchmarkFixture, network: str) -> None:
    """Graph to plan; AlexNet and VGG-16 are meant to stay under 20 ms, the others under 100 ms."""
    assert cold(benchmark, lambda: load_model(network), 16).cost.value > 0


def test_cold_plan_on_64_devices(benchmark: BenchmarkFixture, network: str) -> None:
    """Graph to plan; AlexNet and VGG-16 are meant to stay under 200 ms, the others under a second."""
    assert cold(benchmark, lambda: load_model(network), 64).cost.value > 0


@pytest.mark.parametrize(("model", "ways"), [("vgg16", 16), ("vgg16", 64), ("inception-v3", 16)])
def test_warm_plan(benchmark: BenchmarkFixture, model: str, ways: int) -> None:
    """The same network again."""
    graph, machine = load_model(model).with_batch(BATCH), load_machine(MACHINES[ways])
    plan_model(graph, array=[ways], strategy="deepa", hardware=machine)
    plan = benchmark(plan_model, graph, array=[ways], strategy="deepa", hardware=machine)
    assert plan.num_devices == ways


@pytest.mark.parametrize(
    ("model", "reader"), [("vgg16", "conv3_2"), ("inception-v3", "Mixed_6b.branch7x7_2.conv")]
)
def test_transfers_beside_loops(benchmark: BenchmarkFixture, say: Say, model: str, reader: str) -> None:
    """All pairs of choices of two convolutions on 16 devices, and the same entry by entry."""
    graph = load_model(model).with_batch(BATCH).operators
    tensor = next(tensor for tensor in graph.tensors if graph.layers[tensor.consumer].name == reader)
    ends = (graph.layers[tensor.producer], graph.layers[tensor.consumer])
    options = (choices(graph, 16)[tensor.producer], choices(graph, 16)[tensor.consumer])
    einsums = (ends[0].einsum, ends[1].einsum)
    gap = Gap(einsums, tensor.content, 16, (1.0,) * len(einsums[1].input), direct=True)
    started = time.perf_counter()
    counted = naive.transfers(gap, options)
    loops_s = time.perf_counter() - started
    moves = rounds(benchmark, lambda: reshards(gap, options), 20)
    assert [move.phase for move in moves] == ["forward", "backward"]
    shape = (len(options[0]), len(options[1]))
    for move, table in zip(moves, counted, strict=True):
        assert (np.broadcast_to(move.elements, shape) == table).all()
    compared(benchmark, say, f"{model} {reader}, {shape[0]} x {shape[1]} pairs", loops_s)


def test_solver_beside_loops(benchmark: BenchmarkFixture, say: Say) -> None:
    """The first six layers of VGG-16 on 16 devices, a chain, folded by full min-plus."""
    whole = problem(load_model("vgg16").with_batch(BATCH), 16)
    chain = CostGraph(nodes=whole.nodes[:6], edges=whole.edges[:5])
    lists = [costs.tolist() for costs in chain.nodes], [edge.costs.tolist() for edge in chain.edges]
    started = time.perf_counter()
    counted = naive.least(*lists)
    loops_s = time.perf_counter() - started
    solver = load_solver("elimination")
    solution = rounds(benchmark, lambda: solver.solve(chain), 20)
    assert solution.cost == pytest.approx(counted, rel=1e-12)
    compared(benchmark, say, f"chain of {len(chain.nodes)} nodes of {chain.nodes[0].size} choices", loops_s)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory(benchmark: BenchmarkFixture, say: Say, network: str) -> None:
    """The peak of a fresh process that plans for 64 devices stays under 300 MB."""
    command = [sys.executable, "-c", PLANNED, network]
    done = rounds(benchmark, lambda: subprocess.run(command, capture_output=True, check=True, text=True), 1)
    peak = int(done.stdout) * 1024
    benchmark.extra_info["peak_bytes"] = peak
    say(f"{network} on 64 devices: {peak / 1e6:.0f} MB at the peak")
    assert peak < MOST_MEMORY


@pytest.mark.parametrize("length", [25, 50, 100])
def test_unlike_layers(benchmark: BenchmarkFixture, say: Say, length: int) -> None:
    """So many convolutions that share nothing; time is meant to grow with the length."""
    plan = cold(benchmark, lambda: unlike(length), 16)
    assert len(plan.layers) == length
    per_layer(benchmark, say, f"{length} unlike convolutions", length)


@pytest.mark.parametrize("count", [2, 10, 50])
def test_equal_blocks(benchmark: BenchmarkFixture, say: Say, count: int) -> None:
    """So many equal residual blocks; all but the first two are meant to cost little each."""
    plan = cold(benchmark, lambda: equal_blocks(count), 16)
    assert len(plan.layers) == 3 * count + 1
    per_layer(benchmark, say, f"{count} equal blocks", len(plan.layers))


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def cold(benchmark: BenchmarkFixture, load: Callable[[], LayerGraph], ways: int) -> Plan:
    """The plan of a network that is loaded afresh for each round, timed with nothing known of it."""
    machine = load_machine(MACHINES[ways])

    def start() -> tuple[tuple[LayerGraph], dict[str, object]]:
        graph = load().with_batch(BATCH)
        forget()
        return (graph,), {"array": [ways], "strategy": "deepa", "hardware": machine}

    plan: Plan = benchmark.pedantic(plan_model, setup=start, rounds=10)  # type: ignore[no-untyped-call]
    return plan


def rounds(benchmark: BenchmarkFixture, task: Callable[[], T], count: int) -> T:
    """What a task gives, timed with nothing known."""
    found: T = benchmark.pedantic(task, setup=forget, rounds=count)  # type: ignore[no-untyped-call]
    return found


def compared(benchmark: BenchmarkFixture, say: Say, what: str, loops_s: float) -> None:
    """Say how many times as long the loops took."""
    if benchmark.stats is not None:
        least_s = benchmark.stats["min"]
        benchmark.extra_info["times"] = loops_s / least_s
        say(
            f"{what}: loops {loops_s * 1e3:.1f} ms, hypar {least_s * 1e3:.2f} ms, {loops_s / least_s:,.0f} times"
        )


def per_layer(benchmark: BenchmarkFixture, say: Say, what: str, layers: int) -> None:
    """Say what a layer took."""
    if benchmark.stats is not None:
        least_ms = benchmark.stats["min"] * 1e3
        benchmark.extra_info["ms_per_layer"] = least_ms / layers
        say(f"{what}: {least_ms:.1f} ms, {least_ms / layers:.2f} ms a layer")


def choices(graph: ContractedGraph, ways: int) -> list[Options]:
    """What each layer may do."""
    return [SPACE.choices(layer, ways, idle=True) for layer in graph.layers]


def problem(network: LayerGraph, ways: int) -> CostGraph:
    """The cost graph of a network's operators."""
    graph = network.operators
    cost = load_cost("deepa", {}, {"machine": load_machine(MACHINES[ways])})
    options = [(own,) for own in choices(graph, ways)]
    return cost_graph(
        cost, graph, levels_of((ways,), network.element_bytes), options, [WHOLE_LAYER] * len(options)
    )


def network_of(layers: list[str], size: int) -> LayerGraph:
    """A made-up network."""
    image = f"{{op: input, channels: 64, height: {size}, width: {size}}}"
    lines = "\n".join(f"  - {layer}" for layer in [image, *layers])
    text = f"source: made up\nbatch: {BATCH}\nlayers:\n{lines}\n"
    return build_graph(parse_spec(parse_yaml(text, Path("a.yaml")), "a"))


def unlike(length: int) -> LayerGraph:
    """Convolutions in a chain, each with more channels and a smaller image than the one before."""
    return network_of(
        [f"{{name: conv{n}, op: conv, out_channels: {65 + n}, kernel: 3}}" for n in range(length)], 232
    )


def equal_blocks(count: int) -> LayerGraph:
    """A convolution and residual blocks of two."""
    conv = "op: conv, out_channels: 64, kernel: 3, padding: 1"
    layers, last = [f"{{name: stem, {conv}}}"], "stem"
    for n in range(count):
        layers += [
            f"{{name: a{n}, {conv}, inputs: {last}}}",
            f"{{name: b{n}, {conv}}}",
            f"{{name: sum{n}, op: add, inputs: [{last}, b{n}]}}",
        ]
        last = f"sum{n}"
    return network_of(layers, 56)
