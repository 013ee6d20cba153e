"""The engine against hand-made schedules and properties that any schedule has."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.errors import ProblemError
from hypar.schedule.timeline import Task, run

SECONDS = st.integers(0, 8).map(float)


@st.composite
def task_graphs(draw: st.DrawFn) -> list[Task]:
    """Up to twelve tasks on up to three resources, each after some of those before it."""
    tasks = []
    for index in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, index - 1))) if index else set()
        resource = draw(st.sampled_from("abc"))
        tasks.append(Task(resource, draw(SECONDS), tuple(sorted(after)), draw(st.sampled_from("xy"))))
    return tasks


def test_a_hand_made_schedule() -> None:
    tasks = [
        Task("link", 2),
        Task("chip", 3, (0,)),
        Task("chip", 4),
        Task("link", 1, (1, 2)),
    ]
    timeline = run(tasks)
    # The chip waits for the work, which is listed first, though the other is ready before it.
    assert list(timeline.starts) == [0, 2, 5, 9]
    assert timeline.makespan == 10
    assert list(timeline.critical_path) == [0, 1, 2, 3]
    assert timeline.busy == {"link": 3, "chip": 7}


@given(tasks=task_graphs(), data=st.data())
def test_no_task_starts_later_because_others_take_less_time(tasks: list[Task], data: st.DataObject) -> None:
    shorter = [
        task._replace(seconds=data.draw(st.integers(0, int(task.seconds)).map(float))) for task in tasks
    ]
    starts = zip(run(shorter).starts, run(tasks).starts, strict=True)
    assert all(early <= late for early, late in starts)


@given(tasks=task_graphs())
def test_a_schedule_keeps_precedence_and_resources(tasks: list[Task]) -> None:
    timeline = run(tasks)
    spans: dict[str, list[tuple[float, float]]] = {}
    for task, start, end in zip(tasks, timeline.starts, timeline.ends, strict=True):
        assert all(timeline.ends[before] <= start for before in task.after)
        assert end == start + task.seconds
        spans.setdefault(task.resource, []).append((start, end))
    for of_resource in spans.values():
        of_resource.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(of_resource))
    assert timeline.makespan >= max(timeline.busy.values())
    assert timeline == run(tasks)


@given(tasks=task_graphs())
def test_the_critical_path_is_as_long_as_the_whole(tasks: list[Task]) -> None:
    timeline = run(tasks)
    path = timeline.critical_path
    assert sum(tasks[index].seconds for index in path) == timeline.makespan
    assert all(timeline.ends[a] == timeline.starts[b] for a, b in pairwise(path))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([Task("r", -1.0)], "found -1.0 seconds"),
        ([Task("r", math.nan)], "found nan seconds"),
        ([Task("r", 1.0, (-1,))], "waits for task -1"),
        (
            [Task("r", 1.0, (1,)), Task("r", 1.0, (0,))],
            "task 0: waits for task 1, which is not listed before it",
        ),
    ],
)
def test_what_cannot_run_is_refused(tasks: list[Task], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        run(tasks)
