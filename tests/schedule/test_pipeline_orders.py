"""Schedules of pipelines: what follows from their orders, and what a run of them shows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.plan.records import FLUSHES
from hypar.schedule.pipeline_orders import Schedule, Work, in_flight, moments, staleness
from hypar.schedule.stages import Step
from tests.estimates import Pace, paced

if TYPE_CHECKING:
    from collections.abc import Sequence


def step_of(schedule: Schedule, paces: Sequence[Pace], microbatches: int) -> Step:
    """The first full step of parts of stages, each phase of which is a task."""
    found, pipeline = paced(schedule, paces)
    timeline = pipeline.run(schedule, microbatches)
    return Step(timeline=timeline, pieces=tuple(found.pieces), places=tuple(found.places), buckets=())


Span = tuple[float, float]


def spans_of(step: Step, count: int) -> list[dict[Work, Span]]:
    """When each stage did its work, in the order in which it began it; none is final."""
    found: list[dict[Work, Span]] = [{} for _ in range(count)]
    timeline = step.timeline
    for at in sorted(range(len(step.pieces)), key=timeline.starts.__getitem__):
        kind, place = step.pieces[at].kind, step.places[at]
        if kind in {"forward", "backward"}:
            part, stage = divmod(place.layer, count)
            found[stage][Work(kind, place.item, part)] = timeline.starts[at], timeline.ends[at]
    return found


def order_of(schedule: Schedule, stage: int, stages: int, *numbers: int) -> list[Work]:
    """All work of a stage, in order."""
    return [*chain.from_iterable(schedule.steps(stage, stages, *numbers))]


SECONDS = st.integers(0, 5).map(float)
FLUSHING = sorted(name for name, flushes in FLUSHES.items() if flushes)


def test_gpipe_takes_the_last_microbatch_back_first() -> None:
    """Figure 2c of its paper: forward 0 to 3, then backward 3 to 0."""
    (step,) = Schedule("gpipe").steps(0, 2, 4)
    assert [work.item for work in step if work.phase == "forward"] == [0, 1, 2, 3]
    assert [work.item for work in step if work.phase == "backward"] == [3, 2, 1, 0]


@pytest.mark.parametrize("minibatches", [16, 20, 33])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_layer_block(stages: int, minibatches: int) -> None:
    """Stage S of P keeps 2P - 2S + 2 mini-batches, all in N + 2P - 1 steps."""
    for stage in range(stages):
        steps = Schedule("layer-block").steps(stage, stages, 1, minibatches)
        assert in_flight(chain.from_iterable(steps)) == 2 * stages - 2 * stage
        assert staleness(chain.from_iterable(steps), 1) == 2 * stages - 2 * stage - 1
        assert len(steps) == minibatches + 2 * stages - 1


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_layer_block_at_each_step(stages: int) -> None:
    """At step T stage S takes mini-batch T - S + 1 forward and T - 2P + S backward, which updates."""
    minibatches = 3 * stages
    for number in range(1, stages + 1):
        for step, works in enumerate(Schedule("layer-block").steps(number - 1, stages, 1, minibatches), 1):
            due = {"forward": step - number + 1, "backward": step - 2 * stages + number}
            there = {phase: item for phase, item in due.items() if 1 <= item <= minibatches}
            assert {work.phase: work.item + 1 for work in works} == there
            assert all(work.final == (work.phase == "backward") for work in works)


@pytest.mark.parametrize("microbatches", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("name", FLUSHING)
def test_schedules_that_flush(name: str, stages: int, microbatches: int) -> None:
    """M + P - 1 microbatches' time a mini-batch, nothing stale; GPipe keeps M, 1F1B P - S + 1 at most."""
    schedule = Schedule(name)
    step = step_of(schedule, [Pace()] * stages, microbatches)
    assert step.timeline.makespan == 2 * (microbatches + stages - 1)
    orders = [order_of(schedule, stage, stages, microbatches, 3) for stage in range(stages)]
    assert {staleness(works, microbatches) for works in orders} == {0}
    kept = [microbatches if name == "gpipe" else min(microbatches, stages - s) for s in range(stages)]
    assert [in_flight(works) for works in orders] == kept


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Schedule, list[Pace], int]:
    """A schedule with stages of any speed, to which others send over links, or which are busy while they receive."""
    schedule = Schedule(draw(st.sampled_from(sorted(FLUSHES))))
    overlap, part = st.just(draw(st.booleans())), st.integers(0, 2).map(float)
    pace = st.builds(Pace, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, overlap=overlap, behind=part)
    paces = [
        own._replace(backward=own.backward + own.behind)
        for own in draw(st.lists(pace, min_size=1, max_size=5))
    ]
    return schedule, paces, draw(st.integers(1, 4)) if FLUSHES[schedule.name] else 1


@given(asked=pipelines())
def test_any_pipeline_keeps_its_order_and_its_data(asked: tuple[Schedule, list[Pace], int]) -> None:
    """A step has the work of the first full one; what a stage reads of the same step was made and received before."""
    schedule, paces, microbatches = asked
    done = spans_of(step_of(schedule, paces, microbatches), len(paces))
    first = 0 if FLUSHES[schedule.name] else 2 * len(paces) - 1
    for stage, works in enumerate(done):
        step = schedule.steps(stage, len(paces), microbatches)[first]
        assert [*works] == [work._replace(final=False) for work in step]
        for work, (start, _) in works.items():
            neighbour = stage + {"forward": -1, "backward": 1}[work.phase]
            if 0 <= neighbour < len(paces) and FLUSHES[schedule.name]:
                received = paces[stage].received if work.phase == "forward" else paces[stage].returned
                assert done[neighbour][work][1] + received <= start


def test_a_full_step_is_as_long_as_its_slowest_stage() -> None:
    """Stage 1 receives its errors itself; stage 2 receives over a link beside its backward."""
    paces = [Pace(2, 4, 1, returned=6), Pace(1, 3, 1, received=5, overlap=True)]
    step = step_of(Schedule("layer-block"), paces, 1).timeline
    # Stage 1: 2 + 6 + 4 + 1; stage 2: max(5, 1 + 3 + 1).
    assert step.makespan == 13
    assert step.busy == {"stage 1": 7, "stage 2": 5, "link 1-2": 5, "link 2-1": 6}


def test_the_stage_before_does_not_wait_for_the_gradient_behind_an_error() -> None:
    paces = [Pace(1, 2), Pace(1, 3, behind=2)]
    assert step_of(Schedule("1f1b"), paces, 1).timeline.makespan == 1 + 1 + 1 + 2


# Interleaved stages


SHAPES = [(2, 2, 4), (4, 2, 8), (4, 4, 4), (3, 5, 6), (8, 3, 16)]
"""Numbers of stages, of parts and of microbatches."""


def works(stages: int, parts: int, microbatches: int, stage: int) -> list[Work]:
    """The work of a stage for a mini-batch."""
    return order_of(Schedule("interleaved", parts), stage, stages, microbatches)


def test_the_first_device_of_figure_4() -> None:
    """Narayanan et al. (SC21), Figure 4 below: four devices, two parts, eight microbatches."""
    each = works(4, 2, 8, 0)
    named = [f"{work.phase[0]}{work.item + 1}{'ab'[work.part]}" for work in each]
    assert named[:10] == ["f1a", "f2a", "f3a", "f4a", "f1b", "f2b", "f3b", "f4b", "f5a", "f6a"]
    assert named[10:20] == ["f7a", "b1b", "f8a", "b2b", "f5b", "b3b", "f6b", "b4b", "f7b", "b1a"]
    assert named[-3:] == ["b6a", "b7a", "b8a"]
    assert [name for name, work in zip(named, each, strict=True) if work.final] == ["b8b", "b8a"]


@pytest.mark.parametrize(("forward", "backward"), [(1, 2), (1, 1), (3, 1)])
@pytest.mark.parametrize(("stages", "parts", "microbatches"), SHAPES)
def test_the_bubble_is_smaller_by_the_number_of_parts(
    stages: int, parts: int, microbatches: int, forward: int, backward: int
) -> None:
    """(p - 1) / (v m) of the time in which equal stages compute; section 2.2."""
    paces = [Pace(forward / parts, backward / parts)] * (stages * parts)
    schedule = Schedule("interleaved", parts)
    computing = microbatches * (forward + backward)
    bubble = (stages - 1) / (parts * microbatches)
    makespan = step_of(schedule, paces, microbatches).timeline.makespan
    assert makespan == pytest.approx((1 + bubble) * computing, rel=1e-12)
    orders = [order_of(schedule, stage, stages, microbatches, 2) for stage in range(stages)]
    assert {staleness(own, microbatches) for own in orders} == {0}


@pytest.mark.parametrize(("stages", "parts", "microbatches"), SHAPES)
def test_the_first_stage_keeps_more_by_the_published_factor(
    stages: int, parts: int, microbatches: int
) -> None:
    """L (1 + (p - 1) / (p v)) layers' activations for L layers, with enough microbatches; Korthikanti et al. (2022), 4.2.3."""
    most = [in_flight(works(stages, parts, 2 * microbatches, stage)) for stage in range(stages)]
    assert most[0] / (stages * parts) == pytest.approx(1 + (stages - 1) / (stages * parts))
    assert most == sorted(most, reverse=True)
    # A microbatch that waits behind the forward phase of a part is kept for that part and for those before it.
    kept = [*range(1, parts + 1), *range(parts - 1, 0, -1)]
    fullest = max(
        sum(count * each for count, each in zip(waiting, kept, strict=True)) + kept[piece]
        for piece, waiting in moments(works(stages, parts, 2 * microbatches, 0), parts)
        if piece < parts
    )
    assert fullest == most[0]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_result_goes_from_the_last_stage_to_the_first(overlap: bool) -> None:
    """Two parts of two stages send three times each way."""
    paces = [Pace(received=1.0, returned=1.0, overlap=overlap)] * 4
    step = step_of(Schedule("interleaved", 2), paces, 2)
    assert sum(task.kind == "communication" for task in step.pieces) == 2 * 2 * 3
    orders = [[work._replace(final=False) for work in works(2, 2, 2, stage)] for stage in range(2)]
    assert [[*own] for own in spans_of(step, 2)] == orders
