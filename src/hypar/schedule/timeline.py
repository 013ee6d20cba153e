"""The task graph: tasks on resources, and the one engine that runs them.

A task takes some seconds of one resource and starts when its predecessors have ended. A resource runs one task at a time,
in the order of the list. Every start is then a maximum of sums of durations with fixed terms, so no task starts later
because another takes less time. (An engine that starts any ready task has no such guarantee: Graham, Bounds on
Multiprocessing Timing Anomalies, 1969.) The module knows no layers, bytes or machines. Cost: linear in tasks and precedences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypar.errors import ProblemError


class Task(NamedTuple):
    """A task that takes some seconds of a resource after others, listed before it; its kind is for sums of time."""

    resource: str
    seconds: float
    after: tuple[int, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The start and the end of every task, in seconds; tasks are as given, which is their order on each resource.

    ``held_by`` is the task whose end allowed a task to start, as a predecessor or by freeing the resource.
    """

    tasks: tuple[Task, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    held_by: tuple[int | None, ...]

    @property
    def makespan(self) -> float:
        """End of the last task."""
        return max(self.ends, default=0.0)

    @property
    def critical_path(self) -> tuple[int, ...]:
        """Consecutive tasks without a pause that last as long as the whole."""
        path: list[int] = []
        step = self.ends.index(self.makespan) if self.ends else None
        while step is not None:
            path.append(step)
            step = self.held_by[step]
        return tuple(reversed(path))

    @property
    def busy(self) -> dict[str, float]:
        """Seconds of work of each resource, in the order of its first task."""
        found: dict[str, float] = {}
        for resource, seconds, _, _ in self.tasks:
            found[resource] = found.get(resource, 0.0) + seconds
        return found


def run(tasks: Sequence[Task]) -> Timeline:
    """Run tasks to the end.

    Raises ``ProblemError`` for a duration that is negative or not finite, or a predecessor that is not before.
    """
    starts, ends, held_by = list[float](), list[float](), list[int | None]()
    last: dict[str, int] = {}
    for index, (resource, seconds, after, _) in enumerate(tasks):
        if not 0 <= seconds < math.inf:
            raise ProblemError(f"task {index}: found {seconds} seconds; allowed: a number from 0")
        start, holder = 0.0, None
        for before in after:
            if not 0 <= before < index:
                raise ProblemError(f"task {index}: waits for task {before}, which is not listed before it")
            end = ends[before]
            if end > start or holder is None:
                start, holder = end, before
        earlier = last.get(resource)
        if earlier is not None and ends[earlier] > start:
            start, holder = ends[earlier], earlier
        last[resource] = index
        starts.append(start)
        ends.append(start + seconds)
        held_by.append(holder)
    return Timeline(tasks=tuple(tasks), starts=tuple(starts), ends=tuple(ends), held_by=tuple(held_by))
