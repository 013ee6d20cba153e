"""A step on several groups: who waits for whom, by hand on tiny networks, and what holds of every step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, load_machine, plan_model
from hypar.planning.replay import run_plan
from hypar.sharding.amounts.counted import SEAM
from tests.effort import examples
from tests.heterogeneous import group, groups_of, kind, machines, networks, write_machine, written
from tests.kit import names_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.heterogeneous import Drawn

FAST, SLOW = 1e12, 0.5e12
"""Floating-point operations a second of the two devices."""

WIDE, NARROW = 10e9, 5e9
"""Bytes a second that they receive."""

LATE = 1e-6
"""Seconds that a transfer takes the second besides."""


def spans(folder: Path, network: LayerGraph, pins: list[str]) -> dict[str, tuple[float, float]]:
    """When each task of a step on a fast and on a slow device ran, by its name; they have equal shares."""
    kinds = {
        name: kind(devices=1, peak=f"{speed} TFLOP/s", memory_bandwidth="9000 TB/s")
        for name, speed in (("a", 1), ("b", 0.5))
    }
    groups = [group("a.yaml", bandwidth="10 GB/s"), group("b.yaml", bandwidth="5 GB/s", latency="1 us")]
    machine = load_machine(write_machine(folder, kinds, groups))
    asked: dict[str, Any] = {"strategy": "accpar", "shares": "equal", "pins": pins}
    plan = plan_model(network, hardware=machine, convention="paper", **asked)
    scored = run_plan(plan, hardware=machine, model=network, convention="paper")
    assert scored.score == plan.score
    times = zip(scored.timeline.starts, scored.timeline.ends, strict=True)
    members = ["ab"[piece.groups[0]] for piece in scored.step.pieces]
    names = [name.removeprefix(f"{member}: ") for member, name in zip(members, names_of(scored), strict=True)]
    return {f"{member} {name}": span for member, name, span in zip(members, names, times, strict=True)}


B, I, O = 8, 30, 20
ONE = f"""
  - {{op: input, channels: {I}}}
  - {{name: fc, op: linear, out_features: {O}}}
"""


M = 12
TWO = f"""
  - {{op: input, channels: {I}}}
  - {{name: one, op: linear, out_features: {M}}}
  - {{name: two, op: linear, out_features: {O}}}
"""


def test_what_a_reader_lacks_it_gets_when_all_that_hold_some_of_it_are_done(tmp_path: Path) -> None:
    """From samples to channels a quarter of the tensor crosses each way; sums of outputs are added up at once."""
    found = spans(tmp_path, written(TWO, B), ["one=batch", "two=mp"])
    first = [2 * (B / 2) * I * M / speed for speed in (FAST, SLOW)]
    second = [2 * B * (M / 2) * O / speed for speed in (FAST, SLOW)]
    quarter, outputs, weight = B * M, B * O * 4, I * M * 4
    rates = ((WIDE, 0.0), (NARROW, LATE))

    def received(member: int, num_bytes: float) -> float:
        return num_bytes / rates[member][0] + rates[member][1]

    forward = [first[1] + received(member, quarter) for member in (0, 1)]
    partial = [forward[member] + second[member] for member in (0, 1)]
    summed = [max(partial) + received(member, outputs) for member in (0, 1)]
    backward = [summed[member] + second[member] for member in (0, 1)]
    gradient = [backward[member] + second[member] for member in (0, 1)]
    for member, name in enumerate("ab"):
        expected = {
            "two forward all_to_all H1": (first[1], forward[member]),
            "two forward": (forward[member], partial[member]),
            "two forward all_reduce H1": (max(partial), summed[member]),
            "two backward": (summed[member], backward[member]),
            "two gradient": (backward[member], gradient[member]),
        }
        for task, span in expected.items():
            assert found[f"{name} {task}"] == pytest.approx(span, rel=1e-9), task
    # Errors cross when both groups have theirs, on a device without overlap after what it does meanwhile.
    for member, name in enumerate("ab"):
        free = found[f"{name} two update"][1]
        start, end = found[f"{name} one backward all_to_all H1"]
        assert start == pytest.approx(max(free, *backward), rel=1e-9)
        assert end - start == pytest.approx(received(member, quarter), rel=1e-9)
        assert found[f"{name} one backward"][0] == end
        start, end = found[f"{name} one gradient all_reduce H1"]
        assert start == pytest.approx(max(found[f"{other} one gradient"][1] for other in "ab"), rel=1e-9)
        assert end - start == pytest.approx(received(member, weight), rel=1e-9)


def test_all_groups_of_a_side_receive_together(tmp_path: Path) -> None:
    """What crosses the outer split keeps both groups of the pair, after what crossed the inner one."""
    kinds = {
        name: kind(devices=2, peak=f"{speed} TFLOP/s") for name, speed in zip("abc", (1, 2, 3), strict=True)
    }
    first, second, third = (group(f"{name}.yaml") for name in kinds)
    machine = load_machine(write_machine(tmp_path, kinds, [groups_of("pair", first, second), third]))
    network = written(ONE, B)
    plan = plan_model(
        network, hardware=machine, strategy="accpar", shares="equal", pins="fc=batch", convention="paper"
    )
    step = run_plan(plan, hardware=machine, model=network, convention="paper").step
    crossed = [
        (piece.level, piece.groups, piece.resource)
        for piece in step.pieces
        if piece.collective and piece.phase == "gradient"
    ]
    assert crossed == [
        (2, (0,), "a fully_connected links"),
        (2, (1,), "b fully_connected links"),
        (1, (2,), "c fully_connected links"),
        (1, (0,), "a outward links"),
        (1, (1,), "b outward links"),
        (0, (0, 1), "pair outward links"),
        (0, (2,), "c outward links"),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("machines")


@given(drawn=machines(most=3), graph=networks, shares=st.sampled_from(["equal", "exact", "layers"]))
@settings(max_examples=examples(25), deadline=None)
def test_every_step_runs_in_order(drawn: Drawn, graph: LayerGraph, shares: str, folder: Path) -> None:
    """No task before what it waits for; on a group without overlap one after another; a transfer after its senders."""
    machine = load_machine(write_machine(folder, *drawn))
    plan = plan_model(graph, hardware=machine, strategy="accpar", shares=shares, convention="paper")
    done = run_plan(plan, hardware=machine, model=graph, convention="paper")
    timeline, step = done.timeline, done.step
    starts, ends = timeline.starts, timeline.ends
    for index, task in enumerate(step.timeline.tasks):
        assert all(starts[index] >= ends[before] for before in task.after)
    names = [found.group for found in done.score.groups or ()]
    devices = {name: own for name, own, _ in machine.leaves()}
    for lane, name in enumerate(names):
        if not devices[name].overlap:
            own = sorted((starts[i], ends[i]) for i, piece in enumerate(step.pieces) if lane in piece.groups)
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))
    assert done.score.time_s == max(ends)
    # Every group computes each phase of each layer that it has something of, once.
    computed = [
        (piece.groups, place.layer, piece.kind)
        for piece, place in zip(step.pieces, step.places, strict=True)
        if not piece.collective
    ]
    assert len(computed) == len(set(computed))
    for lane, device in enumerate(done.lanes):
        kinds = [kind for kept, _, kind in computed if kept == (lane,)]
        assert len(kinds) == 4 * sum(time is not None for time in device.times)


def test_a_stage_sends_a_tensor_once_to_each_replica() -> None:
    """All at the same time: to each of two as long as stages alone do that have half of the batch."""
    machine, sent = load_machine("hmc", {"topology": "fully_connected", "devices": 4}), []
    cases: list[tuple[int, dict[str, Any]]] = [(16, {"array": (2, "s2")}), (8, {"stages": 2, "levels": 0})]
    for batch, asked in cases:
        ran = run_plan(
            plan_model("lenet-c", batch=batch, hardware=machine, microbatches=2, strategy="dp", **asked)
        )
        sent.append([own.seconds for own in ran.step.pieces if own.level == SEAM])
    assert sent[0] == pytest.approx(sent[1])


def test_a_group_is_idle_while_none_of_its_tasks_runs() -> None:
    """By the times between which nothing starts or ends; sends overlap with computation on this machine."""
    ran = run_plan(plan_model("alexnet", hardware="h100-8x", array=("s2", 2)))
    step, timeline = ran.step, ran.timeline
    assert ran.score.groups is not None
    for number, own in enumerate(ran.score.groups):
        tasks = [at for at, piece in enumerate(step.pieces) if number in piece.groups]
        spans = [(timeline.starts[at], timeline.ends[at]) for at in tasks]
        moments = sorted({0.0, timeline.makespan, *itertools.chain.from_iterable(spans)})
        idle = sum(
            until - since
            for since, until in itertools.pairwise(moments)
            if not any(start <= since and until <= end for start, end in spans)
        )
        assert own.idle_s == pytest.approx(idle, rel=1e-9, abs=1e-15)
