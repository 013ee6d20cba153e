"""Plans of small networks on trees of one or two nodes against every plan there is, for every pair of kinds of nodes."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import plan_model
from hypar.machine.load import load_machine
from hypar.planning.resolved import Resolved
from hypar.planning.stages.spans import spans_of
from tests.effort import examples, late
from tests.heterogeneous import CONV, INPUT, LINEAR, group, groups_of, kind, write_machine, written
from tests.planning.parts import staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hypar import LayerGraph, Plan
    from hypar.machine.machine import Machine

    Hardware = Machine

DIMS = ("batch", "in_channels", "out_channels")
NEAR = 1 + 1e-9
CONVENTIONS = st.sampled_from(["paper", "moved", "fused"])

SIZES = st.sampled_from([4, 6, 8, 12, 20, 48])
"""No dim is cut further than it has elements, so that every choice may follow every other."""


@st.composite
def chains(draw: st.DrawFn, layers: int) -> LayerGraph:
    """Layers one behind the other, the first of them a convolution or not."""
    convs = draw(st.integers(0, 1))
    text = INPUT.format(draw(SIZES), 8, draw(st.sampled_from([2, 4])))
    for number in range(layers):
        last = f"layer{number - 1}" if number else "input"
        if number == convs:
            text += f"  - {{name: flat, op: flatten, inputs: {last}}}\n"
            last = "flat"
        text += (CONV if number < convs else LINEAR).format(f"layer{number}", draw(SIZES), last)
    return written(text, draw(st.sampled_from([8, 32])))


@st.composite
def hardware(draw: st.DrawFn, shape: str) -> dict[str, Any]:
    """The files of a machine of one, two or three kinds of devices."""
    kinds = {
        name: kind(
            devices=devices,
            peak=f"{draw(st.sampled_from([0.1, 1, 30]))} TFLOP/s",
            link=f"{draw(st.sampled_from([1, 25]))} GB/s",
            latency=draw(st.sampled_from(["0 s", "1 us"])),
        )
        for name, devices in SHAPES[shape].items()
    }
    return {"kinds": kinds, "bandwidth": f"{draw(st.sampled_from([0.5, 8]))} GB/s", "shape": shape}


SHAPES: dict[str, dict[str, int]] = {
    "identical": {"a": 4},
    "eight": {"a": 8},
    "levels in both": {"a": 2, "b": 2},
    "levels in one": {"a": 1, "b": 2},
    "splits in one": {"a": 1, "b": 1, "c": 1},
}
"""The devices of each kind; a group that is split is the last two kinds."""


def machine_of(folder: Path, drawn: dict[str, Any]) -> Hardware:
    """Write the files of a machine and read them."""
    rate = drawn["bandwidth"]
    groups = [group(f"{name}.yaml", bandwidth=rate) for name in drawn["kinds"]]
    if len(groups) > 2:
        groups = [groups[0], groups_of("pair", *groups[1:], bandwidth=rate)]
    file = write_machine(folder, drawn["kinds"], groups)
    found: Hardware = load_machine(folder / "a.yaml" if len(groups) == 1 else file)
    return found


def every(graph: LayerGraph, nodes: int, **asked: Any) -> Iterator[Plan]:
    """Plan every choice of all layers at the outermost nodes."""
    places = [f"{layer.name}@H{at + 1}" for layer in graph.contracted.layers for at in range(nodes)]
    for chosen in product(DIMS, repeat=len(places)):
        pins = [f"{place}={dim}" for place, dim in zip(places, chosen, strict=True)]
        yield plan_model(graph, pins=pins, **asked)


def total(plan: Plan) -> float:
    """The cost of all splits, and of all device groups."""
    return math.fsum(split.cost for split in plan.splits)


def least_of(graph: LayerGraph, nodes: int, splits: int, **asked: Any) -> float:
    """The least cost of all choices, those of each group of identical devices its own.

    Args:
        graph: the network.
        nodes: the number of nodes above a device.
        splits: how many of them, the outermost ones, are uneven splits.
        asked: what is asked for besides.
    """
    inside: dict[str, dict[str, float]] = {}
    above: dict[str, float] = {}
    for plan in every(graph, nodes, **asked):
        outer = [split for split in plan.splits if split.level < splits]
        key = str([split.choices for split in outer])
        above[key] = math.fsum(split.cost for split in outer)
        inner: dict[str, list[float]] = {}
        for split in plan.splits:
            if split.level >= splits:
                inner.setdefault(split.group, []).append(split.cost)
        known = inside.setdefault(key, {})
        for name, costs in inner.items():
            known[name] = min(known.get(name, math.inf), math.fsum(costs))
    return min(cost + math.fsum(inside[key].values()) for key, cost in above.items())


# Levels and uneven splits

UNEVEN: dict[str, tuple[str, int, int, int]] = {
    "levels below": ("levels in both", 2, 2, 1),
    "more levels below one": ("levels in one", 2, 2, 1),
    "levels below three layers": ("levels in both", 3, 2, 1),
    "a split below": ("splits in one", 2, 2, 2),
}
"""The machine, the number of layers, and how many nodes are above a device, the outermost of them uneven splits."""


@settings(max_examples=examples(3, 1))
@given(data=st.data())
@pytest.mark.parametrize("tree", late(UNEVEN, *[name for name in UNEVEN if name != "levels below"]))
def test_no_plan_over_an_uneven_split_costs_less_than_the_least_of_all(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    tree: str,
) -> None:
    shape, layers, nodes, splits = UNEVEN[tree]
    convention = data.draw(CONVENTIONS)
    graph = data.draw(chains(layers))
    machine = machine_of(tmp_path_factory.mktemp("machine"), data.draw(hardware(shape)))
    asked: dict[str, Any] = {"strategy": "optimal", "space": ",".join(DIMS), "convention": convention}
    found = plan_model(graph, hardware=machine, **asked)
    assert found.claim.startswith("each uneven split is optimal at equal shares given those above it")
    least = least_of(graph, nodes, splits, hardware=machine, **asked)
    assert least * (1 - 1e-12) <= found.cost.value


# Stages

STAGES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "levels in stages": ("identical", 1, {"array": ("s2", 2)}),
    "stages in levels": ("identical", 1, {"array": (2, "s2")}),
    "stages between levels": ("eight", 2, {"array": (2, "s2", 2)}),
    "stages on groups": ("levels in both", 1, {"stages": 2, "levels": 1}),
    "stages in uneven splits": ("levels in both", 1, {"array": (2, "s2")}),
    "stages over uneven splits": ("splits in one", 1, {"stages": 2}),
}
"""For each pair of nodes with stages the machine, the number of nodes besides the stages, and the tree."""


@settings(max_examples=examples(3, 1))
@given(data=st.data())
@pytest.mark.parametrize(
    "name", late(STAGES, *[name for name in STAGES if name not in {"stages on groups", "stages in levels"}])
)
def test_stages_are_the_least_of_all_plans(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Of all partitions the one of the least bottleneck; of all choices inside it those of the least cost."""
    shape, nodes, tree = STAGES[name]
    graph = data.draw(chains(2 if nodes == 2 else 3))
    machine = machine_of(tmp_path_factory.mktemp("machine"), data.draw(hardware(shape)))
    asked: dict[str, Any] = {"strategy": "optimal", "space": ",".join(DIMS), "microbatches": 2, **tree}
    asked |= {"hardware": machine, "convention": data.draw(CONVENTIONS)}
    found = plan_model(graph, **asked)
    # The groups of the stages are those of the faster order.
    groups = groups_of_stages(found)
    spans = spans_of(Resolved.of(found, machine), graph, groups, 2)

    def costliest(bounds: tuple[int, ...]) -> float:
        each = zip(spans, pairwise(bounds), strict=True)
        return max(own.span(*ends).cost("time") for own, ends in each)

    layers = len(graph.contracted.layers)
    ends = tuple(sum(len(stage.layers) for stage in staged(found).stages[:at]) for at in range(3))
    parts = [(0, *inner, layers) for inner in combinations(range(1, layers), len(groups) - 1)]
    assert costliest(ends) == min(map(costliest, parts))
    starts = [stage.layers[0] for stage in staged(found).stages]
    given_starts = {**asked, "starts": starts}
    inside = [plan for plan in every(graph, nodes, **given_starts) if groups_of_stages(plan) == groups]
    assert total(found) == pytest.approx(min(map(total, inside)), rel=1e-12)


def groups_of_stages(plan: Plan) -> list[str | None]:
    return [stage.group for stage in staged(plan).stages]
