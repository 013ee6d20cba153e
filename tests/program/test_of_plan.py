"""The programs of plans: arrays, unequal groups of a heterogeneous machine, and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar.execution.verify import verify_program
from hypar.planning.planner import plan_model
from hypar.program.of_plan import cuts_of, program_of
from hypar.program.steps import Update
from tests.effort import crossed
from tests.heterogeneous import group, groups_of, kind, write_machine
from tests.program.networks import network, perceptron

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.network.graph import LayerGraph


def chain() -> LayerGraph:
    return network(
        {"op": "input", "channels": 3, "height": 8, "width": 8},
        {"name": "conv", "op": "conv", "out_channels": 4, "kernel": 3, "padding": 1},
        {"op": "pool", "mode": "max", "kernel": 2},
        {"op": "flatten"},
        {"name": "fc1", "op": "linear", "out_features": 12},
        {"op": "relu"},
        {"name": "fc2", "op": "linear", "out_features": 5},
        batch=10,
    )


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("strategy", ["dp", "mp", "owt", "optimal"])
def test_an_array(strategy: str, convention: str) -> None:
    graph = chain()
    plan = plan_model(graph, levels=2, strategy=strategy)
    places, cuts = cuts_of(plan)
    assert places.devices == 4
    assert {*cuts} == {*plan.layers} == {"conv", "fc1", "fc2"}
    assert verify_program(program_of(plan, graph, convention)).agrees


def test_a_choice_of_a_plan_is_that_of_its_cuts() -> None:
    plan = plan_model(perceptron(8, 8, 8), levels=2, strategy="mp")
    _, cuts = cuts_of(plan)
    for name in plan.layers:
        divided = [choice.divided for choice in plan.choices(name)]
        assert [tuple(level.bounds) for level in cuts[name].levels] == divided


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Two and four devices side by side as one group, and two fast ones beside them."""
    fast, peak = "1000000 GB/s", "1 MFLOP/s"
    kinds = {
        "slow": kind(devices=2, peak=peak, link=fast),
        "more": kind(devices=4, peak=peak, link=fast),
        "quick": kind(devices=2, peak="7 MFLOP/s", link=fast),
    }
    slow, more, quick = (group(f"{name}.yaml", bandwidth=fast) for name in kinds)
    return write_machine(tmp_path, kinds, [groups_of("pair", slow, more, bandwidth=fast), quick])


@crossed(
    {
        "space": ["batch", "batch,in_channels,out_channels"],
        "integral": [False, True],
    }
)
def test_unequal_groups(space: str, uneven: Path, *, integral: bool) -> None:
    graph = chain()
    plan = plan_model(graph, hardware=uneven, space=space, cost="accpar", shares="linear", integral=integral)
    assert len({*plan.groups[0].above[0][0].shares}) == 2
    places, cuts = cuts_of(plan)
    assert places.devices == 8
    assert [part.tolist() for part in places.members(1)] == [[0, 1], [2, 3, 4, 5], [6], [7]]
    assert {*cuts} == {*plan.layers}
    for convention in ("moved", "fused", "direct"):
        assert verify_program(program_of(plan, graph, convention)).agrees


def test_a_group_has_its_share_of_each_layer(uneven: Path) -> None:
    """Samples are whole: the largest remainders are rounded up."""
    graph = perceptron(6, 6, batch=20)
    plan = plan_model(graph, hardware=uneven, space="batch", cost="accpar", shares="linear")
    (update,) = (step for step in program_of(plan, graph).steps if isinstance(step, Update))
    assert update.holding.elements.tolist() == [36] * 8
    _, cuts = cuts_of(plan)
    low, high = cuts["fc1"].levels[0].bounds["batch"]
    shares = plan.groups[0].above[0][0].shares
    assert np.unique(high - low).tolist() == pytest.approx(sorted(shares))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("levels", [0, 1])
def test_stages(schedule: str, levels: int) -> None:
    graph = chain()
    plan = plan_model(graph, hardware="hmc", levels=levels, stages=2, schedule=schedule, microbatches=5)
    places, cuts = cuts_of(plan)
    assert places.devices == 2 * 2**levels
    stages = plan.stages.stages if plan.stages else []
    for number, stage in enumerate(stages):
        for name in stage.layers:
            assert {*places.parts[0][cuts[name].working].tolist()} == {number}
    found = verify_program(program_of(plan, graph.with_batch(2)), microbatches=5)
    assert found.agrees
    seams = [one for one in found.transfers if one.moved[0]]
    assert {one.item.phase for one in seams} == {"forward", "backward"}
