"""Schedules of pipelines: what follows from their orders, and what a run of them shows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.schedule.pipeline import STEPS, Pace, Pipeline, full_tasks, paced
from hypar.schedule.pipeline_orders import SCHEDULES, Work, in_flight, staleness
from hypar.schedule.timeline import Timeline, run


def ran(pipeline: Pipeline, timeline: Timeline) -> list[list[Work]]:
    """The work of each stage, in the order in which it was done."""
    found: dict[int, list[Work]] = {}
    for index in sorted(range(len(timeline.tasks)), key=timeline.starts.__getitem__):
        _, stage, work = pipeline.origins[index]
        if work is not None:
            found.setdefault(stage, []).append(work)
    return [found[stage] for stage in sorted(found)]


def step_ends(timeline: Timeline) -> list[float]:
    """The time at which each step ended."""
    return [end for end, task in zip(timeline.ends, timeline.tasks, strict=True) if task.resource == STEPS]


def full_step(pipeline: Pipeline, timeline: Timeline) -> Timeline:
    """The first step in which every stage has its full work."""
    return full_tasks(pipeline.origins, timeline)[0]


SECONDS = st.integers(0, 5).map(float)
FLUSHING = sorted(name for name, schedule in SCHEDULES.items() if schedule.flushes)


def simulated(
    name: str, stages: int, microbatches: int, minibatches: int, update: float = 0.0
) -> tuple[Pipeline, Timeline]:
    """Every forward and backward a second long."""
    lowered = paced(SCHEDULES[name], [Pace(update=update)] * stages, microbatches, minibatches)
    return lowered, run(lowered.found.tasks)


def steps_of(lowered: Pipeline, timeline: Timeline, phase: str) -> dict[tuple[int, int], int]:
    """In which step, by when steps ended, each stage did a phase for each item."""
    ends = step_ends(timeline)
    return {
        (stage, work.item): sum(end <= start for end in ends)
        for (_, stage, work), start in zip(lowered.origins, timeline.starts, strict=True)
        if work is not None and work.phase == phase
    }


def test_gpipe_takes_the_last_microbatch_back_first() -> None:
    """Figure 2c of its paper: forward 0 to 3, then backward 3 to 0."""
    (step,) = SCHEDULES["gpipe"].steps(0, 2, 4, 1)
    assert [work.item for work in step if work.phase == "forward"] == [0, 1, 2, 3]
    assert [work.item for work in step if work.phase == "backward"] == [3, 2, 1, 0]


@pytest.mark.parametrize("minibatches", [16, 20, 33])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_layer_block(stages: int, minibatches: int) -> None:
    """Stage S of P keeps 2P - 2S + 2 mini-batches, updates 2P - 2S + 1 steps later, all in N + 2P - 1 steps."""
    lowered, timeline = simulated("layer-block", stages, 1, minibatches, update=0.5)
    done = ran(lowered, timeline)
    assert [in_flight(works) for works in done] == [2 * stages - 2 * s for s in range(stages)]
    assert [staleness(works, 1) for works in done] == [2 * stages - 2 * s - 1 for s in range(stages)]
    assert len(step_ends(timeline)) == minibatches + 2 * stages - 1
    assert all(before < after for before, after in pairwise([0.0, *step_ends(timeline)]))
    forward, update = (steps_of(lowered, timeline, phase) for phase in ("forward", "update"))
    assert len(forward) == len(update) == stages * minibatches
    assert all(update[key] - forward[key] == 2 * stages - 2 * key[0] - 1 for key in forward)


@pytest.mark.parametrize(("stages", "step"), [(1, 1), (4, 3), (4, 8), (8, 17)])
def test_layer_block_at_one_step(stages: int, step: int) -> None:
    """At step T stage S takes mini-batch T - S + 1 forward and T - 2P + S backward."""
    minibatches = 3 * stages
    for number in range(1, stages + 1):
        steps = SCHEDULES["layer-block"].steps(number - 1, stages, 1, minibatches)
        named = {work.phase: work.item + 1 for work in steps[step - 1]}
        ahead, back = step - number + 1, step - 2 * stages + number
        assert named.get("forward") == (ahead if 1 <= ahead <= minibatches else None)
        assert named.get("backward") == (back if 1 <= back <= minibatches else None)


@pytest.mark.parametrize("microbatches", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("name", FLUSHING)
def test_schedules_that_flush(name: str, stages: int, microbatches: int) -> None:
    """M + P - 1 microbatches' time a mini-batch, nothing stale; GPipe keeps M, 1F1B P - S + 1 at most."""
    lowered, timeline = simulated(name, stages, microbatches, 3)
    done = ran(lowered, timeline)
    assert timeline.makespan == 3 * 2 * (microbatches + stages - 1)
    assert full_step(lowered, timeline).makespan == 2 * (microbatches + stages - 1)
    assert {staleness(works, microbatches) for works in done} == {0}
    kept = [microbatches if name == "gpipe" else min(microbatches, stages - s) for s in range(stages)]
    assert [in_flight(works) for works in done] == kept


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[str, list[Pace], int, int]:
    """A schedule with stages of any speed, to which others send over links, or which are busy while they receive."""
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    stages = draw(st.integers(1, 5))
    pace = st.builds(
        Pace,
        SECONDS,
        SECONDS,
        SECONDS,
        SECONDS,
        SECONDS,
        overlap=st.just(draw(st.booleans())),
        behind=st.just(0.0),
    )
    paces = draw(st.lists(pace, min_size=stages, max_size=stages))
    microbatches = draw(st.integers(1, 4)) if SCHEDULES[name].flushes else 1
    return name, paces, microbatches, draw(st.integers(1, 6))


@given(asked=pipelines())
def test_any_pipeline_keeps_its_order_and_its_data(asked: tuple[str, list[Pace], int, int]) -> None:
    name, paces, microbatches, minibatches = asked
    lowered = paced(SCHEDULES[name], paces, microbatches, minibatches)
    timeline = run(lowered.found.tasks)
    done = ran(lowered, timeline)
    spans = {
        (stage, work): (start, end)
        for (_, stage, work), start, end in zip(lowered.origins, timeline.starts, timeline.ends, strict=True)
        if work is not None
    }
    for stage, works in enumerate(done):
        order = SCHEDULES[name].steps(stage, len(paces), microbatches, minibatches)
        assert works == [work for step in order for work in step]
        for work in works:
            neighbour = stage + {"forward": -1, "backward": 1, "update": len(paces)}[work.phase]
            if 0 <= neighbour < len(paces):
                sent = lowered.made[neighbour, work]
                assert max(timeline.ends[task] for task in sent) <= spans[stage, work][0]
                received = paces[stage].received if work.phase == "forward" else paces[stage].returned
                assert spans[neighbour, work][1] + received <= spans[stage, work][0]


@given(asked=pipelines())
def test_what_is_in_flight_and_stale_does_not_hang_on_times(asked: tuple[str, list[Pace], int, int]) -> None:
    name, paces, microbatches, minibatches = asked
    slow, fast = (
        paced(SCHEDULES[name], own, microbatches, minibatches) for own in (paces, [Pace()] * len(paces))
    )
    for one, other in zip(ran(slow, run(slow.found.tasks)), ran(fast, run(fast.found.tasks)), strict=True):
        assert (in_flight(one), staleness(one, microbatches)) == (
            in_flight(other),
            staleness(other, microbatches),
        )


@given(asked=pipelines())
def test_a_full_step_is_its_critical_path(asked: tuple[str, list[Pace], int, int]) -> None:
    name, paces, microbatches, _ = asked
    order = SCHEDULES[name]
    lowered = paced(order, paces, microbatches, order.minibatches(len(paces)))
    timeline = run(lowered.found.tasks)
    step = full_step(lowered, timeline)
    path = step.critical_path
    assert sum(step.tasks[index].seconds for index in path) == step.makespan
    assert all(step.starts[index] == step.ends[before] for before, index in pairwise(path))
    ends = [0.0, *step_ends(timeline)]
    assert step.makespan in {after - before for before, after in pairwise(ends)}
    worked = sum(task.kind != "communication" for task in step.tasks)
    assert worked == len(paces) * (2 * microbatches + 1)


def test_a_full_step_is_as_long_as_its_slowest_stage() -> None:
    """Stage 1 receives its errors itself; stage 2 receives over a link beside its backward."""
    paces = [Pace(2, 4, 1, returned=6), Pace(1, 3, 1, received=5, overlap=True)]
    schedule = SCHEDULES["layer-block"]
    lowered = paced(schedule, paces, 1, schedule.minibatches(2))
    step = full_step(lowered, run(lowered.found.tasks))
    # Stage 1: 2 + 6 + 4 + 1; stage 2: max(5, 1 + 3 + 1).
    assert step.makespan == 13
    assert step.busy == {"stage 1": 7, "stage 2": 5, "link 1-2": 5, "link 2-1": 6}
