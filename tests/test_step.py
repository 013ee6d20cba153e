"""A step as tasks: its bytes are the volume, its time without overlap the sum and the cost ``time``."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, Machine, Plan, load_machine, load_model, plan_model
from hypar.schedule.step import COMPUTE, Setting, Step, lower
from hypar.score import score_step, totals, totals_of
from hypar.timeline import run

MODELS = ("sfc", "lenet-c", "alexnet", "resnet18", "alexnet-2012")
graph_of = cache(load_model)


@cache
def wired(topology: str, devices: int, latency: str = "0 s", overlap: str = "none") -> Machine:
    """``hmc`` with as many devices as an array has."""
    changes = {"topology": topology, "devices": devices, "latency": latency, "overlap": overlap}
    return load_machine("hmc", changes)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan of which most choices are drawn."""
    graph = graph_of(draw(st.sampled_from(MODELS)))
    array = draw(st.sampled_from([(2,), (2, 2), (4, 2), (2, 2, 2, 2)]))
    pins = []
    for layer in graph.contracted.layers:
        dims = [
            dim for dim in layer.einsum.sizes if dim in {"batch", "in_channels", "out_channels", "height"}
        ]
        drawn = draw(st.sampled_from(dims if not layer.join else ["batch", "height"]))
        pins.append(f"{layer.name}@H{draw(st.integers(1, len(array)))}={drawn}")
    return plan_model(graph, array=array, space="all", pins=pins, search="greedy")


def lowered(plan: Plan, **changes: str) -> Step:
    machine = wired(**{"topology": "ring", "devices": plan.num_devices, **changes})
    graph = graph_of(plan.model.name)
    setting = Setting(machine=machine, array=tuple(plan.array), element_bytes=graph.element_bytes)
    return lower(graph.contracted, [plan.choices(layer) for layer in plan.layers], setting)


@given(plan=plans())
@settings(max_examples=40)
def test_transfers_are_the_volume(plan: Plan) -> None:
    step = lowered(plan)
    moved = math.fsum(move.total_bytes for move in step.moves if move is not None)
    assert moved == pytest.approx(plan.cost.value, rel=1e-12)
    for split in plan.splits:
        here = math.fsum(
            move.total_bytes for move in step.moves if move is not None and move.level == split.level
        )
        assert here == pytest.approx(split.cost, rel=1e-12, abs=1e-6)


@given(plan=plans())
@settings(max_examples=40)
def test_without_overlap_the_time_is_the_plain_sum(plan: Plan) -> None:
    step = lowered(plan)
    assert run(step.tasks).makespan == pytest.approx(
        math.fsum(task.seconds for task in step.tasks), rel=1e-12
    )


@given(
    plan=plans(),
    topology=st.sampled_from(["h_tree", "torus", "ring", "switch", "fully_connected"]),
    latency=st.sampled_from(["0 s", "7 us"]),
)
@settings(max_examples=60)
def test_the_cost_time_is_the_engine_s(plan: Plan, topology: str, latency: str) -> None:
    assume(topology != "h_tree" or plan.num_devices & (plan.num_devices - 1) == 0)
    machine = wired(topology, plan.num_devices, latency)
    pins = [
        f"{layer}@H{level + 1}={choice.text(plan.array[level]) or 'rep'}"
        for layer in plan.layers
        for level, choice in enumerate(plan.choices(layer))
    ]
    graph = graph_of(plan.model.name)
    held = plan_model(graph, array=plan.array, space="all", pins=pins, cost="time", hardware=machine)
    assert held.score is not None
    assert held.score.time_s == pytest.approx(held.cost.value, rel=1e-9)


@given(plan=plans(), optimizer=st.sampled_from(["sgd", "momentum", "adam"]))
@settings(max_examples=40)
def test_totals_are_those_of_the_whole_score(plan: Plan, optimizer: str) -> None:
    graph, machine = graph_of(plan.model.name), wired("torus", plan.num_devices)
    setting = Setting(
        machine=machine, array=tuple(plan.array), element_bytes=graph.element_bytes, optimizer=optimizer
    )
    choices = [plan.choices(layer) for layer in plan.layers]
    assert totals(graph.contracted, choices, setting) == totals_of(
        score_step(graph.contracted, choices, setting)
    )


@given(plan=plans())
@settings(max_examples=40)
def test_overlap_is_never_slower_and_never_beats_a_resource(plan: Plan) -> None:
    alone = run(lowered(plan).tasks)
    beside = run(lowered(plan, overlap="full").tasks)
    assert beside.makespan <= alone.makespan * (1 + 1e-12)
    assert beside.makespan >= max(beside.busy.values()) * (1 - 1e-12)
    assert sorted(task.seconds for task in beside.tasks) == sorted(task.seconds for task in alone.tasks)


def test_a_step_goes_forward_then_backward_and_updates_last() -> None:
    plan = plan_model("sfc", levels=1, strategy="dp")
    step = lowered(plan, overlap="full")
    names = [task.name for task in step.tasks]
    assert names[:5] == ["fc1 forward", "fc2 forward", "fc3 forward", "fc4 forward", "fc4 backward"]
    assert names[5:8] == ["fc4 gradient", "fc4 gradient all_reduce H1", "fc4 update"]
    assert names[-1] == "fc1 update"
    backward = names.index("fc3 backward")
    assert step.tasks[backward].after == (names.index("fc4 backward"),)
    assert step.tasks[names.index("fc4 update")].after == (names.index("fc4 gradient all_reduce H1"),)


def test_sums_go_from_the_innermost_level_outward() -> None:
    step = lowered(plan_model("sfc", levels=3, strategy="dp"))
    levels = [move.level for layer, move in zip(step.layers, step.moves, strict=True) if move and layer == 0]
    assert levels == [2, 1, 0]


def test_joins_compute_nothing() -> None:
    graph: LayerGraph = graph_of("resnet18")
    step = lowered(plan_model(graph, levels=2))
    joins = {index for index, layer in enumerate(graph.contracted.layers) if layer.join}
    assert joins
    computed = {
        layer for layer, task in zip(step.layers, step.tasks, strict=True) if task.resource == COMPUTE
    }
    assert not joins & computed


def test_levels_of_two_networks_have_links_of_their_own() -> None:
    plan, graph = plan_model("sfc", array=[8, 8], strategy="dp"), graph_of("sfc")
    setting = Setting(machine=load_machine("h100-8x"), array=(8, 8), element_bytes=4)
    step = lower(graph.contracted, [plan.choices(layer) for layer in plan.layers], setting)
    resources = {move.level: task.resource for move, task in zip(step.moves, step.tasks, strict=True) if move}
    assert resources == {0: "switch links 1", 1: "switch links 2"}
