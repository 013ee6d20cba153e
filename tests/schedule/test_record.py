"""The record of a step: its buffers, its order of issue, and room for what a step may do besides."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model
from hypar.machine.setting import Setting
from hypar.schedule.lanes import Lane
from hypar.schedule.pieces import COMMUNICATION, Piece
from hypar.schedule.record import (
    EACH,
    ERROR,
    GRADIENT,
    INPUT,
    OUTPUT,
    TERMS,
    WEIGHT,
    Op,
    bucketed,
    issued,
    record_of,
)
from hypar.schedule.stages import StageWork, StepWork, part_of
from hypar.schedule.tasks import Costed, TaskList
from hypar.schedule.timeline import Timeline, run
from tests.effort import examples
from tests.schedule.test_step import wired

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = ("lenet-c", "resnet18", "googlenet", "gpt2")
graph_of = cache(load_model)
SWITCHES = [*product([False, True], repeat=3)]


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_each_buffer_is_written_once_before_it_is_read(model: str, data: st.DataObject) -> None:
    """In every order of issue, also with the gradients of some nodes in buckets."""
    graph = graph_of(model).contracted
    record, nodes = record_of(graph), len(graph.layers)
    ends = sorted(data.draw(st.sets(st.integers(1, nodes), max_size=5)) | {nodes})
    kept = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1))
    buckets = [
        tuple(node for node in range(start, end) if node in kept)[::-1]
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    backward = bucketed(record.backward, tuple(filter(None, reversed(buckets))))
    for eager, deferred, final in SWITCHES:
        for ops in (record.backward, backward):
            order = [*record.forward, *issued(ops, eager=eager, deferred=deferred, final=final)]
            there = {INPUT, ERROR}
            for op in order:
                assert there.issuperset(op.reads)
                assert there.isdisjoint(op.writes)
                there.update(op.writes)
            assert there.issuperset((*record.made, *record.sent))
            if final:
                assert there.issuperset(EACH * node + WEIGHT for node in range(nodes))


def recomputing(costs: StageWork, phase: str, ops: list[Costed]) -> list[Costed]:
    """The ops with those that compute forward again before the backward phase of each node."""
    found = []
    for op, rounds in ops:
        if phase == "backward" and (op.kind, op.phase) == ("compute", "backward"):
            again = Op("compute", "forward", op.node, (EACH * op.node + OUTPUT,), (EACH * op.node + TERMS,))
            found += costs.costed([again])
        found.append((op, rounds))
    return found


def gathering(_: StageWork, phase: str, ops: list[Costed]) -> list[Costed]:
    """The ops with a gathering of each weight behind its update, as devices each update a part of it."""
    gather = Piece((0,), (0,), "links", 1e-3, COMMUNICATION)
    nodes = [op.node for op, _ in ops if op.kind == "update" and phase == "backward"]
    gathers = [Op("move", "gathered", node, (EACH * node + GRADIENT,), ()) for node in nodes]
    return [*ops, *((op, ((gather,),)) for op in gathers)]


def lane_of(model: str, overlap: str) -> Lane:
    """A network in data parallelism on four devices."""
    graph = graph_of(model)
    plan = plan_model(graph, array=[4], strategy="dp")
    setting = Setting(
        machine=wired("ring", 4, "7 us", overlap), array=(4,), element_bytes=4, convention="moved"
    )
    return Lane(graph.at_rest.contracted, [plan.choices(layer) for layer in plan.layers], setting)


def step(lane: Lane, changed: Callable[[StageWork, str, list[Costed]], list[Costed]]) -> Timeline:
    """A step of a part with other ops."""
    found, costs = TaskList([not lane.setting.machine.overlap]), StageWork((lane,))
    part = part_of(costs, found)
    plain = part.ops
    part.ops = lambda phase, final: changed(costs, phase, [*plain(phase, final)])
    for phase in ("forward", "backward"):
        part.phase(phase, 0)
    return run(found.tasks)


@pytest.mark.parametrize("overlap", ["none", "full"])
@pytest.mark.parametrize("model", ["lenet-c", "resnet18"])
def test_a_record_has_room_for_a_second_forward_op(model: str, overlap: str) -> None:
    lane = lane_of(model, overlap)
    plain, again = StepWork.of([lane]).run().timeline, step(lane, recomputing)
    forward = math.fsum(time.seconds["forward"] for time in lane.times if time is not None)
    spent = [math.fsum(one.seconds for one in own.tasks if one.kind == "forward") for own in (plain, again)]
    assert spent[1] == pytest.approx(2 * spent[0])
    assert again.busy["devices"] == pytest.approx(plain.busy["devices"] + forward)
    if overlap == "none":
        assert again.makespan == pytest.approx(plain.makespan + forward)
    assert plain.makespan < again.makespan <= (plain.makespan + forward) * (1 + 1e-12)


@pytest.mark.parametrize("overlap", ["none", "full"])
def test_a_record_has_room_for_a_gathering_behind_each_update(overlap: str) -> None:
    lane = lane_of("lenet-c", overlap)
    plain, sharded = StepWork.of([lane]).run().timeline, step(lane, gathering)
    layers = len(lane.graph.layers)
    assert len(sharded.tasks) == len(plain.tasks) + layers
    assert sharded.busy["links"] == pytest.approx(layers * 1e-3)
    assert sharded.makespan >= plain.makespan
