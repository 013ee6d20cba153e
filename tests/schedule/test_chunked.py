"""Gradients in chunks, as tasks, by hand."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from hypar import load_model, plan_model
from hypar.machine.setting import Setting
from hypar.planning.resolved import score_convention
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.schedule.timeline import run
from hypar.studies.step import task_names
from tests.network.test_graph import network
from tests.schedule.test_step import wired

if TYPE_CHECKING:
    from hypar import LayerGraph, Machine, Plan
    from hypar.schedule.record import Buckets
    from hypar.schedule.stages import Step

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


def lowered(chunks: Buckets | None, **changes: str) -> Step:
    """Three layers in data parallelism over two devices."""
    graph, machine = three(), wired(**{"topology": "ring", "devices": 2, "latency": "7 us", **changes})
    lane = lane_of(plan_model(graph, levels=1, strategy="dp", convention="paper"), graph, machine)
    return StepWork.of([lane]).run(chunks)


def test_a_chunk_is_one_transfer_behind_its_last_gradient_and_updates_wait_for_it() -> None:
    step = lowered(((2, 1), (0,)), overlap="full")
    names = [*task_names(step, [""], "abc")]
    assert names[3:] == [
        "c backward", "c gradient", "b backward", "b gradient", "c to b gradient all_reduce H1",
        "a backward", "a gradient", "a gradient all_reduce H1", "c update", "b update", "a update",
    ]  # fmt: skip
    sent = names.index("c to b gradient all_reduce H1")
    assert step.timeline.tasks[sent].after == (names.index("b gradient"),)
    assert [step.timeline.tasks[names.index(f"{layer} update")].after for layer in "cb"] == [(sent,)] * 2
    assert (step.places[sent].layer, step.timeline.tasks[sent].kind) == (1, "communication")
    timeline = run(step.timeline.tasks)
    assert timeline.starts[sent] == timeline.ends[names.index("b gradient")]
    assert timeline.starts[names.index("a backward")] < timeline.ends[sent]


def test_latency_is_paid_once_a_chunk_by_hand() -> None:
    """Weights of 16 x 32, 32 x 8 and 8 x 4 words over links of 25.6 Gb/s / 16 in all, and 7 us a transfer."""
    link = 7e-6
    apart, joined = lowered(None), lowered(((2, 1), (0,)))
    sent, alone = ([piece for piece in step.pieces if piece.collective] for step in (joined, apart))
    bytes_of = {"a": 4 * 16 * 32, "b": 4 * 32 * 8, "c": 4 * 8 * 4}
    assert [piece.link_bytes for piece in sent] == [bytes_of["c"] + bytes_of["b"], bytes_of["a"]]
    first, second, third = (piece.seconds for piece in alone)
    assert [piece.seconds for piece in sent] == pytest.approx([first + second - link, third])
    late, early = run(apart.timeline.tasks).makespan, run(joined.timeline.tasks).makespan
    assert late - early == pytest.approx(link)
