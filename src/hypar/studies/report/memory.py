"""The memory of a device over a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.schedule.memory import course_on, memory_of
from hypar.studies.report.tasks import lane_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.replay import ScoredStep
    from hypar.schedule.lifetimes import Course
    from hypar.studies.report.tasks import StepTask

BACKWARD = frozenset({"backward", "gradient"})

Spans = dict[tuple[str, bool], tuple[float, float]]
"""Start and end of a layer's computation, by its name and whether the phase is the forward one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory of a device of one group over a step.

    Attributes:
        group: name of the group; ``all`` for identical devices.
        capacity_bytes: memory of a device; None if the machine's file does not say.
        peak_bytes: the peak.
        always: bytes held all along: weights, gradients, optimizer state and buffers, by name.
        course: the bytes of activations and errors from each time on, from 0 to the end of the backward phase.
    """

    group: str
    capacity_bytes: float | None
    peak_bytes: float
    always: dict[str, float]
    course: tuple[tuple[float, float], ...]


def memory_uses(ran: ScoredStep, tasks: Sequence[StepTask]) -> tuple[MemoryUse, ...]:
    """Return the memory of a device of each group over a step; empty with stages."""
    if ran.stages is not None:
        return ()
    found = []
    for number, (group, lane) in enumerate(zip(lane_names(ran), ran.lanes, strict=True)):
        held = memory_of(lane, ran.step, number)
        course = course_on(lane)
        found.append(
            MemoryUse(
                group=group,
                capacity_bytes=lane.setting.machine.memory_bytes,
                peak_bytes=math.fsum(held.values()),
                always={item: own for item, own in held.items() if item not in {"activations", "errors"}},
                course=tuple(_course(course, ran.plan.layers, _spans(tasks, number))),
            )
        )
    return tuple(found)


def _course(course: Course, layers: Sequence[str], spans: Spans) -> Iterator[tuple[float, float]]:
    """Yield the bytes of activations and errors on a device from each time on.

    A layer's forward phase begins with its computation, and so does its backward phase; a layer without computation
    of its own belongs to the phase before it.
    """
    phases = [
        *zip(layers, course.forward, strict=True),
        *zip(layers[::-1], course.backward[::-1], strict=True),
    ]
    time, most = 0.0, 0.0
    for number, (layer, num_bytes) in enumerate(phases):
        start = spans.get((layer, number < len(layers)), (time, time))[0]
        if start > time:
            yield time, most
            time, most = start, 0.0
        most = max(most, num_bytes)
    yield time, most
    yield max((end for _, end in spans.values()), default=time), 0.0


def _spans(tasks: Sequence[StepTask], number: int) -> Spans:
    """Return when a group's computation of each layer starts and ends in the forward and in the backward phase."""
    found: Spans = {}
    for task in tasks:
        if number not in task.lanes or task.kind not in {"forward", *BACKWARD}:
            continue
        key = task.layer, task.kind == "forward"
        start, end = found.get(key, (task.start_s, task.end_s))
        found[key] = min(start, task.start_s), max(end, task.end_s)
    return found
