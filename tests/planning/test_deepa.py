"""Equal blocks of a network share their arrays and are folded once; the optimum stays."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import build_graph
from hypar.planning.strategies.base import load_strategy
from tests.effort import crossed
from tests.planning.parts import scored

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

MACHINE = load_machine("p100-4x4")
SPACE = load_strategy("deepa").space
SMALL = [(2, SPACE), (3, "batch*out_channels"), (3, "height*width")]
"""Numbers of blocks and spaces of which everything can be counted out."""


@cache
def equal_blocks(count: int) -> LayerGraph:
    """A convolution and residual blocks of one."""
    conv = "op: conv, out_channels: 512, kernel: 3, padding: 1"
    layers, last = ["{op: input, channels: 512, height: 28, width: 28}", f"{{name: stem, {conv}}}"], "stem"
    for n in range(count):
        layers.append(f"{{name: conv{n}, {conv}, inputs: {last}}}")
        layers.append(f"{{name: sum{n}, op: add, inputs: [{last}, conv{n}]}}")
        last = f"sum{n}"
    text = "source: made up\nbatch: 4\nlayers:\n" + "\n".join(f"  - {layer}" for layer in layers)
    return build_graph(parse_yaml(text, Path("blocks.yaml")), "blocks")


@pytest.mark.usefixtures("more_solvers")
@pytest.mark.parametrize(("count", "space"), SMALL)
def test_a_plan_of_equal_blocks_costs_what_counting_everything_out_finds(count: int, space: str) -> None:
    network = equal_blocks(count)
    asked: dict[str, Any] = {"array": [4], "strategy": "deepa", "space": space, "hardware": MACHINE}
    every = plan_model(network, solver="exhaustive", **asked)
    plan = plan_model(network, solver="elimination", **asked)
    assert plan.cost.value == pytest.approx(every.cost.value, rel=1e-12)


@crossed(
    {
        "space": ["all", "height*width", "batch*out_channels*height*width", "height,width,batch"],
        "model,array": [
            pytest.param(model, array, marks=[pytest.mark.slow] if array in slow else [])
            for model, slow in (
                ("lenet-c", [[16]]),
                ("alexnet-2012", [[16]]),
                ("inception-v3", [[4], [16], [2, 4]]),
            )
            for array in ([4], [16], [2, 4])
        ],
    }
)
def test_what_is_searched_is_what_is_scored(model: str, space: str, array: list[int]) -> None:
    """Choices of one dim and grids of several are counted alike, whichever of them a search compares."""
    graph = load_model(model)
    space = f"conv:{space} linear:batch,out_channels" if "batch" not in space and space != "all" else space
    machine = load_machine("tpu-v3")
    for cost, convention in product(("time", "volume"), ("paper", "moved")):
        plan = plan_model(graph, array=array, space=space, cost=cost, hardware=machine, convention=convention)
        score = scored(plan)
        counted = score.time_s if cost == "time" else score.communication_bytes
        assert plan.cost.value == pytest.approx(counted, rel=1e-9)
