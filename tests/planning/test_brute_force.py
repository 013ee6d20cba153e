"""Plans of small networks in stages against every plan there is, for every pair of kinds of nodes."""

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

DIMS = ("batch", "in_channels", "out_channels")
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


SHAPES = {"identical": (4,), "eight": (8,), "levels in both": (2, 2), "splits in one": (1, 1, 1)}
"""The devices of each kind; a group that is split is the last two kinds."""


def machine_of(folder: Path, shape: str) -> Machine:
    """Return a machine of one, two or three kinds of devices."""
    rates = zip("abc", ("1 TFLOP/s", "30 TFLOP/s", "0.1 TFLOP/s"), SHAPES[shape], strict=False)
    kinds = {name: kind(devices=devices, peak=peak, link="25 GB/s") for name, peak, devices in rates}
    groups = [group(f"{name}.yaml", bandwidth="8 GB/s") for name in kinds]
    if len(groups) > 2:
        groups = [groups[0], groups_of("pair", *groups[1:], bandwidth="0.5 GB/s")]
    file = write_machine(folder, kinds, groups)
    found: Machine = load_machine(folder / "a.yaml" if len(groups) == 1 else file)
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
    "name",
    late(STAGES, *[name for name in STAGES if name not in {"stages on groups", "stages in levels"}]),
)
def test_stages_are_the_least_of_all_plans(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Of all partitions the one of the least bottleneck; of all choices inside it those of the least cost."""
    shape, nodes, tree = STAGES[name]
    graph = data.draw(chains(2 if nodes == 2 else 3))
    machine = machine_of(tmp_path_factory.mktemp("machine"), shape)
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
