"""A step as tasks: its order, and its time, which is the cost ``time``."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, Machine, Plan, load_machine, load_model, plan_model
from hypar.machine.setting import Setting
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.schedule.timeline import run
from hypar.sharding.conventions import PAPER
from hypar.sharding.space import parse_space
from tests.effort import examples
from tests.heterogeneous import written
from tests.kit import known

if TYPE_CHECKING:
    from hypar.network.nodes import PlanNode
    from hypar.schedule.stages import Step

graph_of = cache(load_model)


@cache
def wired(topology: str, devices: int, latency: str = "0 s", overlap: str = "none") -> Machine:
    """``hmc`` with as many devices as an array has."""
    changes = {"topology": topology, "devices": devices, "latency": latency, "overlap": overlap}
    machine: Machine = load_machine("hmc", changes)
    return machine


SMALL = """
  - {op: input, channels: 4, height: 9, width: 7}
  - {name: stem, op: conv, out_channels: 6, kernel: 3, padding: 1, stride: 2}
  - {name: left, op: conv, out_channels: 6, kernel: 3, padding: 1, groups: 2}
  - {name: pool, op: pool, mode: max, kernel: 3, padding: 1, stride: 1, inputs: stem}
  - {name: sum, op: add, inputs: [left, pool]}
  - {name: right, op: conv, out_channels: 3, kernel: 1, stride: 2, inputs: sum}
  - {name: down, op: pool, mode: average, kernel: 1, stride: 2, inputs: sum}
  - {name: both, op: concat, inputs: [right, down]}
  - {name: last, op: conv, out_channels: 5, kernel: 2}
  - {name: gap, op: pool, mode: average, window: global}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 7}
"""
TINY = """
  - {op: input, channels: 2, height: 4, width: 4}
  - {name: conv, op: conv, out_channels: 40, kernel: 3, padding: 1}
  - {name: pool, op: pool, mode: max, kernel: 2, stride: 2}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 300}
"""


small, tiny = partial(written, SMALL, 6), partial(written, TINY, 4)


def network_of(plan: Plan) -> LayerGraph:
    return small() if plan.model.name == "net" else graph_of(plan.model.name)


def lowered(plan: Plan, graph: LayerGraph, convention: str = PAPER, **changes: str) -> Step:
    """A step on a ring of identical devices."""
    machine = wired("ring", plan.num_devices, **changes)
    setting = Setting(machine=machine, array=tuple(plan.array), element_bytes=4, convention=convention)
    choices = [plan.choices(layer) for layer in plan.layers]
    return StepWork.of([Lane(graph.nodes(plan.graph), choices, setting)]).run()


@st.composite
def grid_plans(draw: st.DrawFn, cost: str, *, idle: bool = True) -> Plan:
    """A plan of which every choice is drawn of all grids of all dims, on a machine without overlap."""
    graph = draw(st.sampled_from([small(), graph_of("lenet-c"), graph_of("alexnet-2012")]))
    nodes = draw(st.sampled_from(["contracted", "operators"]))
    array = draw(st.sampled_from([(4,), (16,), (2, 8), (4, 4), (12,), (6, 2)]))
    pins = [
        f"{layer.name}@{level}={draw(choices_of(layer, ways, idle))}"
        for layer in graph.nodes(None if nodes == "contracted" else "operators").layers
        for level, ways in enumerate(array)
    ]
    topology = draw(st.sampled_from(["torus", "ring", "switch", "fully_connected"]))
    machine = wired(topology, math.prod(array), draw(st.sampled_from(["0 s", "7 us"])))
    return plan_model(
        graph,
        array=array,
        space="all",
        graph=nodes,
        pins=pins,
        cost=cost,
        hardware=machine,
        convention="paper",
    )


def choices_of(layer: PlanNode, ways: int, idle: bool) -> st.SearchStrategy[str]:
    """The choices of a layer at a level, as pins."""
    every = parse_space("all").choices(layer, ways, idle=idle)
    return st.sampled_from([choice.text(ways) or "rep" for choice in every])


@given(plan=grid_plans("volume"))
@settings(max_examples=examples(40))
def test_overlap_is_never_slower_and_never_beats_a_resource(plan: Plan) -> None:
    alone, beside = (
        run(lowered(plan, network_of(plan), overlap=overlap).timeline.tasks) for overlap in ("none", "full")
    )
    assert beside.makespan <= alone.makespan * (1 + 1e-12)
    assert beside.makespan >= max(beside.busy.values()) * (1 - 1e-12)
    assert sorted(task.seconds for task in beside.tasks) == sorted(task.seconds for task in alone.tasks)


@pytest.mark.parametrize("cost", ["deepa", "time"])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_cost_of_grids_is_the_engine_s_time(cost: str, data: st.DataObject) -> None:
    plan = data.draw(grid_plans(cost))
    assert known(plan.score).time_s == pytest.approx(plan.cost.value, rel=1e-9)


@pytest.mark.parametrize("idle", [False, True])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_bytes_of_grids_are_their_volume(idle: bool, data: st.DataObject) -> None:
    plan = data.draw(grid_plans("volume", idle=idle))
    received = known(plan.score).communication
    assert math.fsum(received.values()) == pytest.approx(plan.cost.value, rel=1e-9)
    for split in plan.splits:
        assert received[f"H{split.level + 1}"] == pytest.approx(split.cost, rel=1e-9, abs=1e-6)


@given(plan=grid_plans("deepa"))
@settings(max_examples=examples(25))
def test_one_after_another_every_byte_that_all_devices_receive_takes_its_time(plan: Plan) -> None:
    machine, graph, array = wired("ring", plan.num_devices), network_of(plan), tuple(plan.array)
    serial = plan_model(
        graph, array=array, space="all", graph=plan.graph or "contracted", pins=plan.pins, cost="deepa",
        mode="serial", hardware=machine, convention="paper")  # fmt: skip
    links = machine.links(array)
    seconds = [
        piece.num_bytes * links[piece.level].lines[piece.collective][-1].seconds_per_byte
        if piece.collective
        else piece.seconds
        for piece in lowered(plan, graph, "direct").pieces
    ]
    assert serial.cost.value == pytest.approx(math.fsum(seconds), rel=1e-9)


def planned(*pins: str) -> Plan:
    asked: dict[str, Any] = {"array": [4], "strategy": "deepa", "hardware": wired("ring", 4)}
    return plan_model(tiny(), **asked, pins=pins, convention="paper")


def test_one_device_that_gets_from_four_gets_all_that_it_lacks_and_gives_each_its_part() -> None:
    lacking = 4 * (4 * 40 * 4 * 4) * 3 / 4
    every = lowered(planned("conv=n4", "pool=n1", "fc=n1"), tiny(), "direct").pieces
    sent = {piece.phase: piece for piece in every if piece.collective and piece.phase != "gradient"}
    assert {phase: (piece.link_bytes, piece.num_bytes) for phase, piece in sent.items()} == {
        "forward": (lacking, lacking),
        "backward": (lacking / 4, lacking),
    }


def test_only_devices_that_work_take_energy() -> None:
    """Work is what one device would do, but for the updates of weights that several hold."""
    one, four = (
        known(known(plan.score).energy)["arithmetic"]
        for plan in (planned("*=n1"), planned("conv=n4", "pool=n1", "fc=n1"))
    )
    layers = {layer.name: layer.nest for layer in tiny().contracted.layers}
    work = 3 * sum(nest.macs for nest in layers.values()) + sum(e.elements("weight") for e in layers.values())
    extra = 3 * layers["conv"].elements("weight")
    assert four / one == pytest.approx((work + extra) / work, rel=1e-12)


@pytest.mark.parametrize(
    ("ahead", "unweighted", "timed"), [([], "counted", False), ([], "free", True), (["op: batch_norm"], "counted", True)]
)  # fmt: skip
def test_the_error_of_the_network_s_input_takes_time_where_a_machine_says_so_or_a_norm_needs_it(
    ahead: list[str], unweighted: str, timed: bool
) -> None:
    layers = [
        "op: input, channels: 8",
        *ahead,
        "name: a, op: linear, out_features: 16",
        "op: linear, out_features: 4",
    ]
    graph = written("".join(f"  - {{{layer}}}\n" for layer in layers))
    machine = load_machine("h100-8x", {"unweighted": unweighted})
    setting = Setting(machine=machine, array=(2,), element_bytes=4)
    nodes = graph.contracted.layers
    chosen = [parse_space("batch").choices(node, 2)[:1] for node in nodes]
    times = Lane(graph.contracted, chosen, setting).times
    seconds = [time.seconds["backward"] for time in times if time is not None]
    assert [own > 0 for own in seconds] == [timed, True]
    assert all(time.seconds["gradient"] > 0 for time in times if time is not None)
