"""A step as tasks: its order, and its time, which is the cost ``time``."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, Machine, Plan, load_machine, load_model, plan_model
from hypar.files.yaml_file import parse_yaml
from hypar.machine.setting import Setting
from hypar.network.graph import build_graph
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.schedule.timeline import run
from hypar.sharding.space import parse_space
from hypar.studies.step import task_names
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.schedule.stages import Step
    from hypar.sharding.placement import Options

MODELS = ("sfc", "lenet-c", "alexnet", "resnet18", "alexnet-2012")
graph_of = cache(load_model)


@cache
def wired(topology: str, devices: int, latency: str = "0 s", overlap: str = "none") -> Machine:
    """``hmc`` with as many devices as an array has."""
    changes = {"topology": topology, "devices": devices, "latency": latency, "overlap": overlap}
    machine: Machine = load_machine("hmc", changes)
    return machine


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan of which most choices are drawn."""
    graph = graph_of(draw(st.sampled_from(MODELS)))
    array = draw(st.sampled_from([(2,), (2, 2), (4, 2), (2, 2, 2, 2)]))
    pins = []
    for layer in graph.contracted.layers:
        dims = [dim for dim in layer.nest.sizes if dim in {"batch", "in_channels", "out_channels", "height"}]
        drawn = draw(st.sampled_from(dims if not layer.join else ["batch", "height"]))
        pins.append(f"{layer.name}@H{draw(st.integers(1, len(array)))}={drawn}")
    return plan_model(graph, array=array, space="all", pins=pins, search="greedy", convention="paper")


def lower(graph: PlanGraph, choices: Sequence[Options], setting: Setting) -> Step:
    """A step on identical devices."""
    return StepWork.of([Lane(graph, choices, setting)]).run()


def lowered(plan: Plan, **changes: str) -> Step:
    machine = wired(**{"topology": "ring", "devices": plan.num_devices, **changes})
    graph = graph_of(plan.model.name)
    setting = Setting(machine=machine, array=tuple(plan.array), element_bytes=graph.element_bytes)
    return lower(graph.contracted, [plan.choices(layer) for layer in plan.layers], setting)


@given(plan=plans())
@settings(max_examples=examples(40))
def test_overlap_is_never_slower_and_never_beats_a_resource(plan: Plan) -> None:
    alone = run(lowered(plan).timeline.tasks)
    beside = run(lowered(plan, overlap="full").timeline.tasks)
    assert beside.makespan <= alone.makespan * (1 + 1e-12)
    assert beside.makespan >= max(beside.busy.values()) * (1 - 1e-12)
    assert sorted(task.seconds for task in beside.tasks) == sorted(task.seconds for task in alone.tasks)


def test_a_step_goes_forward_then_backward_and_updates_last() -> None:
    plan = plan_model("sfc", levels=1, strategy="dp", convention="paper")
    step = lowered(plan, overlap="full")
    names = [*task_names(step, [""], plan.layers)]
    assert names[:5] == ["fc1 forward", "fc2 forward", "fc3 forward", "fc4 forward", "fc4 backward"]
    assert names[5:8] == ["fc4 gradient", "fc4 gradient all_reduce H1", "fc3 backward"]
    assert names[-4:] == ["fc4 update", "fc3 update", "fc2 update", "fc1 update"]
    backward = names.index("fc3 backward")
    assert step.timeline.tasks[backward].after == (names.index("fc4 backward"),)
    assert step.timeline.tasks[names.index("fc4 update")].after == (
        names.index("fc4 gradient all_reduce H1"),
    )


def test_levels_of_two_networks_have_links_of_their_own() -> None:
    plan, graph = plan_model("sfc", array=[8, 8], strategy="dp", convention="paper"), graph_of("sfc")
    setting = Setting(machine=load_machine("h100-8x"), array=(8, 8), element_bytes=4)
    step = lower(graph.contracted, [plan.choices(layer) for layer in plan.layers], setting)
    resources = {piece.level: piece.resource for piece in step.pieces if piece.collective}
    assert resources == {0: "switch links 1", 1: "switch links 2"}


SMALL = """
source: a fork, joins, pools, groups, windows with gaps, a global pool
batch: 6
layers:
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
source: a pool between two layers
batch: 4
layers:
  - {op: input, channels: 2, height: 4, width: 4}
  - {name: conv, op: conv, out_channels: 40, kernel: 3, padding: 1}
  - {name: pool, op: pool, mode: max, kernel: 2, stride: 2}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 300}
"""


@cache
def written(text: str) -> LayerGraph:
    return build_graph(parse_yaml(text, Path("net.yaml")), "net")


def network_of(plan: Plan) -> LayerGraph:
    return written(SMALL) if plan.model.name == "net" else graph_of(plan.model.name)


@st.composite
def grid_plans(draw: st.DrawFn, cost: str, *, idle: bool = True) -> Plan:
    """A plan of which every choice is drawn of all grids of all dims, on a machine without overlap."""
    graph = draw(st.sampled_from([written(SMALL), graph_of("lenet-c"), graph_of("alexnet-2012")]))
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


@pytest.mark.parametrize("cost", ["deepa", "time"])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_cost_of_grids_is_the_engine_s_time(cost: str, data: st.DataObject) -> None:
    plan = data.draw(grid_plans(cost))
    score = plan.score
    assert score is not None
    assert score.time_s == pytest.approx(plan.cost.value, rel=1e-9)
    assert math.fsum(score.time.values()) == pytest.approx(score.time_s, rel=1e-12)
    assert sum(sum(split.costs.values()) for split in plan.splits) == pytest.approx(
        plan.cost.value, rel=1e-12
    )
    for number in (
        score.energy_j,
        score.communication_bytes,
        score.memory_bytes,
        *score.communication.values(),
    ):
        assert number is not None
        assert 0 <= number < math.inf


@pytest.mark.parametrize("idle", [False, True])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_bytes_of_grids_are_their_volume(idle: bool, data: st.DataObject) -> None:
    plan = data.draw(grid_plans("volume", idle=idle))
    assert plan.score is not None
    assert plan.score.communication_bytes == pytest.approx(plan.cost.value, rel=1e-9)
    for split in plan.splits:
        here = plan.score.communication[f"H{split.level + 1}"]
        assert here == pytest.approx(split.cost, rel=1e-9, abs=1e-6)


def test_between_the_same_devices_of_one_device_nothing_moves() -> None:
    """A neighbour of other devices gets and gives what it needs all the same."""
    plan = plan_model(
        written(TINY),
        array=[4],
        strategy="deepa",
        hardware=wired("ring", 4),
        pins=["conv=n1", "pool=n1", "fc=n4"],
        convention="paper",
    )
    step = lowered_by(plan)
    moved = {(step.places[at].layer, piece.phase) for at, piece in enumerate(step.pieces) if piece.collective}
    assert moved == {(2, "forward"), (1, "backward"), (2, "gradient")}


def lowered_by(plan: Plan) -> Step:
    graph = written(TINY)
    setting = Setting(machine=wired("ring", 4), array=tuple(plan.array), element_bytes=4, convention="direct")
    return lower(graph.nodes(plan.graph), [plan.choices(layer) for layer in plan.layers], setting)


@given(plan=grid_plans("deepa"))
@settings(max_examples=examples(25))
def test_one_after_another_every_byte_that_all_devices_receive_takes_its_time(plan: Plan) -> None:
    machine, graph, array = wired("ring", plan.num_devices), network_of(plan), tuple(plan.array)
    serial = plan_model(
        graph, array=array, space="all", graph=plan.graph or "contracted", pins=plan.pins, cost="deepa",
        mode="serial", hardware=machine, convention="paper")  # fmt: skip
    setting = Setting(machine=machine, array=array, element_bytes=4, convention="direct")
    step = lower(graph.nodes(plan.graph), [plan.choices(layer) for layer in plan.layers], setting)
    links = machine.links(array)
    seconds = [
        piece.num_bytes * links[piece.level].lines[piece.collective][-1].seconds_per_byte
        if piece.collective
        else piece.seconds
        for piece in step.pieces
    ]
    assert serial.cost.value == pytest.approx(math.fsum(seconds), rel=1e-9)


def test_one_device_that_gets_from_four_gets_all_that_it_lacks_and_gives_each_its_part() -> None:
    plan = plan_model(
        written(TINY),
        array=[4],
        strategy="deepa",
        hardware=wired("ring", 4),
        pins=["conv=n4", "pool=n1", "fc=n1"],
        convention="paper",
    )
    lacking = 4 * (4 * 40 * 4 * 4) * 3 / 4
    every = lowered_by(plan).pieces
    sent = {piece.phase: piece for piece in every if piece.collective and piece.phase != "gradient"}
    assert {phase: (piece.link_bytes, piece.num_bytes) for phase, piece in sent.items()} == {
        "forward": (lacking, lacking),
        "backward": (lacking / 4, lacking),
    }


def test_only_devices_that_work_take_energy() -> None:
    """Work is what one device would do, but for the updates of weights that several hold."""
    pins = {"one": ["*=n1"], "four": ["conv=n4", "pool=n1", "fc=n1"]}
    found = {}
    for name, held in pins.items():
        plan = plan_model(
            written(TINY),
            array=[4],
            strategy="deepa",
            hardware=wired("ring", 4),
            pins=held,
            convention="paper",
        )
        assert plan.score is not None
        assert plan.score.energy is not None
        found[name] = plan.score.energy["arithmetic"]
    layers = {layer.name: layer.nest for layer in written(TINY).contracted.layers}
    work = 3 * sum(nest.macs for nest in layers.values()) + sum(e.elements("weight") for e in layers.values())
    extra = 3 * layers["conv"].elements("weight")
    assert found["four"] / found["one"] == pytest.approx((work + extra) / work, rel=1e-12)


@pytest.mark.parametrize(
    ("ahead", "unweighted", "timed"), [("", "counted", False), ("", "free", True), ("{op: batch_norm},", "counted", True)]
)  # fmt: skip
def test_the_error_of_the_network_s_input_takes_time_where_a_machine_says_so_or_a_norm_needs_it(
    ahead: str, unweighted: str, timed: bool
) -> None:
    text = f"[{{op: input, channels: 8}}, {ahead} {{name: a, op: linear, out_features: 16}}, {{name: b, op: linear, out_features: 4}}]"
    graph = build_graph(parse_yaml(f"source: two\nbatch: 8\nlayers: {text}", Path("net.yaml")), "net")
    machine = load_machine("h100-8x", {"unweighted": unweighted})
    setting = Setting(machine=machine, array=(2,), element_bytes=4)
    nodes = graph.contracted.layers
    chosen = [parse_space("batch").choices(node, 2)[:1] for node in nodes]
    times = Lane(graph.contracted, chosen, setting).times
    seconds = [time.seconds["backward"] for time in times if time is not None]
    assert [own > 0 for own in seconds] == [timed, True]
    assert all(time.seconds["gradient"] > 0 for time in times if time is not None)
