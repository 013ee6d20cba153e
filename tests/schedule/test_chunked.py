"""Gradients in chunks, as tasks: by hand, and that bytes stay while latencies and transfers grow fewer."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model
from hypar.machine.setting import Setting
from hypar.planning.counting import score_convention
from hypar.schedule.lanes import Lane
from hypar.schedule.step import exchanging, lower_lanes
from hypar.timeline import run
from tests.effort import examples
from tests.network.test_gradients import network
from tests.schedule.test_step import wired

if TYPE_CHECKING:
    from hypar import LayerGraph, Machine, Plan
    from hypar.schedule.chunked import Chunks
    from hypar.schedule.step import Step

graph_of = cache(load_model)


def lane_of(plan: Plan, graph: LayerGraph, machine: Machine) -> Lane:
    """What runs a plan."""
    setting = Setting(
        machine=machine,
        array=tuple(plan.array),
        element_bytes=graph.element_bytes,
        convention=score_convention(plan),
    )
    return Lane(graph.nodes(plan.graph), [plan.choices(layer) for layer in plan.layers], setting)


def three() -> LayerGraph:
    return network(
        "{op: input, channels: 16}",
        *(f"{{name: {name}, op: linear, out_features: {size}}}" for name, size in (("a", 32), ("b", 8), ("c", 4))),
    )  # fmt: skip


def lowered(chunks: Chunks | None, **changes: str) -> Step:
    """Three layers in data parallelism over two devices."""
    graph, machine = three(), wired(**{"topology": "ring", "devices": 2, "latency": "7 us", **changes})
    return lower_lanes(
        [lane_of(plan_model(graph, levels=1, strategy="dp", convention="paper"), graph, machine)],
        chunks=chunks,
    )


def test_a_chunk_is_one_transfer_behind_its_last_gradient_and_updates_wait_for_it() -> None:
    step = lowered(((2, 1), (0,)), overlap="full")
    names = [task.name for task in step.tasks]
    assert names[3:] == [
        "c backward", "c gradient", "b backward", "b gradient", "c to b gradient all_reduce H1",
        "a backward", "a gradient", "a gradient all_reduce H1", "c update", "b update", "a update",
    ]  # fmt: skip
    sent = names.index("c to b gradient all_reduce H1")
    assert step.tasks[sent].after == (names.index("c gradient"), names.index("b gradient"))
    assert [step.tasks[names.index(f"{layer} update")].after for layer in "cb"] == [(sent,)] * 2
    assert (step.layers[sent], step.tasks[sent].kind) == (1, "communication")
    timeline = run(step.tasks)
    assert timeline.starts[sent] == timeline.ends[names.index("b gradient")]
    assert timeline.starts[names.index("a backward")] < timeline.ends[sent]


def test_latency_is_paid_once_a_chunk_by_hand() -> None:
    """Weights of 16 x 32, 32 x 8 and 8 x 4 words over links of 25.6 Gb/s / 16 in all, and 7 us a transfer."""
    link = 7e-6
    apart, joined = lowered(None), lowered(((2, 1), (0,)))
    moves = [(move, task) for move, task in zip(joined.moves, joined.tasks, strict=True) if move]
    bytes_of = {"a": 4 * 16 * 32, "b": 4 * 32 * 8, "c": 4 * 8 * 4}
    assert [move.subgroup_bytes for move, _ in moves] == [bytes_of["c"] + bytes_of["b"], bytes_of["a"]]
    alone = [task.seconds for move, task in zip(apart.moves, apart.tasks, strict=True) if move]
    assert [task.seconds for _, task in moves] == pytest.approx([sum(alone[:2]) - link, alone[2]])
    late, early = run(apart.tasks).makespan, run(joined.tasks).makespan
    assert late - early == pytest.approx(link)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[Step, Step, int]:
    """A step of drawn choices with its layers alone and in drawn chunks, and whether it overlaps."""
    graph = graph_of(draw(st.sampled_from(["lenet-c", "alexnet", "resnet18"])))
    array = draw(st.sampled_from([(2,), (4, 2), (2, 2, 2)]))
    dims = {layer.name: draw(st.sampled_from(["batch", "in_channels"])) for layer in graph.contracted.layers}
    pins = [f"{layer.name}={'rep' if layer.join else dims[layer.name]}" for layer in graph.contracted.layers]
    plan = plan_model(graph, array=array, space="all", pins=pins, convention="paper")
    overlap = draw(st.sampled_from(["none", "full"]))
    lane = lane_of(
        plan, graph, wired("ring", math.prod(array), draw(st.sampled_from(["0 s", "7 us"])), overlap)
    )
    alone = lower_lanes([lane])
    layers, found, start = exchanging(alone), [], 0
    while start < len(layers):
        size = draw(st.integers(1, len(layers) - start))
        found.append(layers[start : start + size])
        start += size
    return alone, lower_lanes([lane], chunks=tuple(found)), overlap == "none"


@given(chunked())
@settings(max_examples=examples(60))
def test_chunks_move_the_same_bytes_in_fewer_transfers(steps: tuple[Step, Step, bool]) -> None:
    alone, joined, serial = steps
    sums = [
        {
            (move.phase, move.level): math.fsum(
                other.total_bytes
                for other in step.moves
                if other and (other.phase, other.level) == (move.phase, move.level)
            )
            for move in step.moves
            if move
        }
        for step in steps[:2]
    ]
    assert sums[1] == pytest.approx(sums[0], rel=1e-12)
    assert len(joined.tasks) <= len(alone.tasks)
    spent = [math.fsum(task.seconds for task in step.tasks) for step in (alone, joined)]
    assert spent[1] <= spent[0] * (1 + 1e-12)
    timeline = run(joined.tasks)
    if serial:
        assert timeline.makespan == pytest.approx(spent[1], rel=1e-12)
    else:
        assert timeline.makespan >= max(timeline.busy.values()) * (1 - 1e-12)
    ends = {task.name: end for task, end in zip(joined.tasks, timeline.ends, strict=True)}
    for task, start in zip(joined.tasks, timeline.starts, strict=True):
        if task.name.endswith(" update"):
            assert start >= ends[task.name.replace(" update", " gradient")]
