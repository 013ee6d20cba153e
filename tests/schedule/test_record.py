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
from hypar.schedule.costed import Costed, StageWork
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
from hypar.schedule.stages import StepWork
from hypar.schedule.tasks import PartTasks, TaskList
from hypar.schedule.timeline import Timeline, run
from tests.effort import examples
from tests.schedule.test_step import wired

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class Recomputing(PartTasks):
    """A part that computes forward again before the backward phase of each node."""

    def _ops(self, phase: str, *, final: bool) -> Iterable[Op]:
        for op in super()._ops(phase, final=final):
            if phase == "backward" and (op.kind, op.phase) == ("compute", "backward"):
                yield Op("compute", "forward", op.node, (EACH * op.node + OUTPUT,), (EACH * op.node + TERMS,))
            yield op


class Gathered(StageWork):
    """The costs of a part whose devices each update a part of every weight, and then gather it."""

    def costed(self, ops: Iterable[Op]) -> list[Costed]:
        gather = Piece((0,), (0,), "links", 1e-3, COMMUNICATION)
        gathers = [op for op in ops if op.phase == "gathered"]
        others = super().costed(op for op in ops if op.phase != "gathered")
        return [*others, *((op, ((gather,),)) for op in gathers)]


class Gathering(PartTasks):
    """A part with a gathering of each weight behind its update."""

    def _ops(self, phase: str, *, final: bool) -> Iterable[Op]:
        ops = [*super()._ops(phase, final=final)]
        if phase == "forward":
            return ops
        nodes = [op.node for op in ops if op.kind == "update"]
        return [*ops, *(Op("move", "gathered", node, (EACH * node + GRADIENT,), ()) for node in nodes)]


def lane_of(model: str, overlap: str) -> Lane:
    """A network in data parallelism on four devices."""
    graph = graph_of(model)
    plan = plan_model(graph, array=[4], strategy="dp")
    setting = Setting(
        machine=wired("ring", 4, "7 us", overlap), array=(4,), element_bytes=4, convention="moved"
    )
    return Lane(graph.contracted, [plan.choices(layer) for layer in plan.layers], setting)


def step(lane: Lane, part: type[PartTasks], costs: type[StageWork] = StageWork) -> Timeline:
    """A step of a part."""
    found = TaskList([not lane.setting.machine.overlap], alone=True)
    own = part(found, costs((lane,)))
    for phase in ("forward", "backward"):
        own.phase(phase, 0)
    return run(found.tasks)


@pytest.mark.parametrize("overlap", ["none", "full"])
@pytest.mark.parametrize("model", ["lenet-c", "resnet18"])
def test_a_record_has_room_for_a_second_forward_op(model: str, overlap: str) -> None:
    lane = lane_of(model, overlap)
    plain, again = step(lane, PartTasks), step(lane, Recomputing)
    assert plain == StepWork.of([lane]).run().timeline
    forward = math.fsum(time.seconds["forward"] for time in lane.times if time is not None)
    assert again.by_kind["forward"] == pytest.approx(2 * plain.by_kind["forward"])
    assert again.busy["devices"] == pytest.approx(plain.busy["devices"] + forward)
    if overlap == "none":
        assert again.makespan == pytest.approx(plain.makespan + forward)
    assert plain.makespan < again.makespan <= (plain.makespan + forward) * (1 + 1e-12)


@pytest.mark.parametrize("overlap", ["none", "full"])
def test_a_record_has_room_for_a_gathering_behind_each_update(overlap: str) -> None:
    lane = lane_of("lenet-c", overlap)
    plain, sharded = step(lane, PartTasks), step(lane, Gathering, Gathered)
    layers = len(lane.graph.layers)
    assert len(sharded.tasks) == len(plain.tasks) + layers
    assert sharded.busy["links"] == pytest.approx(layers * 1e-3)
    assert sharded.makespan >= plain.makespan
