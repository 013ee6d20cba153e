"""The second narrow waist: tasks on resources, and the one engine that runs them.

A task takes some seconds of one resource and starts when its predecessors have ended. A resource does one
task at a time, in the order in which the tasks are listed. Every start is then a maximum of sums of durations, with the
same terms whatever the durations are, so no task starts later because another takes less time. (An engine that starts
whatever is ready has no such guarantee: Graham, Bounds on Multiprocessing Timing Anomalies, 1969.) Nothing here knows
of layers, bytes or machines. Cost: linear in tasks and precedences.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import ProblemError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Task(NamedTuple):
    """Something that takes time.

    Attributes:
        name: what a trace shows.
        resource: what does it, one task at a time.
        seconds: how long it takes.
        after: indices of the tasks that end before it starts, all of them listed before it.
        kind: the heading under which its time is summed.
    """

    name: str
    resource: str
    seconds: float
    after: tuple[int, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Timeline:
    """When every task ran.

    Attributes:
        tasks: as they were given, which is the order in which each resource does its own.
        starts: start of each, in seconds.
        ends: end of each, in seconds.
        held_by: for each task the one whose end let it start, by precedence or by freeing the resource.
    """

    tasks: tuple[Task, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    held_by: tuple[int | None, ...]

    def __repr__(self) -> str:
        """Size, short enough for a prompt."""
        return f"<Timeline of {len(self.tasks)} tasks, {self.makespan:.6g} s>"

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return max(self.ends, default=0.0)

    @property
    def critical_path(self) -> tuple[int, ...]:
        """Tasks, one after another without a pause, that take as long as the whole."""
        path: list[int] = []
        step = max(range(len(self.ends)), key=self.ends.__getitem__) if self.ends else None
        while step is not None:
            path.append(step)
            step = self.held_by[step]
        return tuple(reversed(path))

    @property
    def busy(self) -> dict[str, float]:
        """Seconds that each resource works, in the order in which the tasks name them."""
        found: dict[str, float] = {}
        for task in self.tasks:
            found[task.resource] = found.get(task.resource, 0.0) + task.seconds
        return found

    @property
    def by_kind(self) -> dict[str, float]:
        """Seconds of work of each kind, on all resources together."""
        found: dict[str, list[float]] = {}
        for task in self.tasks:
            found.setdefault(task.kind, []).append(task.seconds)
        return {kind: math.fsum(amounts) for kind, amounts in found.items()}

    def to_chrome_trace(self) -> str:
        """JSON that Perfetto and ``chrome://tracing`` open: a row for each resource, in microseconds.

        Source: Trace Event Format (Google, 2016), complete events ``X`` and metadata events ``M``.
        """
        rows = {name: row for row, name in enumerate(self.busy)}
        named = [
            {"ph": "M", "pid": 0, "tid": row, "name": "thread_name", "args": {"name": name}}
            for name, row in rows.items()
        ]
        order = [
            {"ph": "M", "pid": 0, "tid": row, "name": "thread_sort_index", "args": {"sort_index": row}}
            for row in rows.values()
        ]
        events = [
            {"ph": "X", "pid": 0, "tid": rows[task.resource], "name": task.name, "cat": task.kind or "task",
             "ts": start * 1e6, "dur": task.seconds * 1e6}
            for task, start in zip(self.tasks, self.starts, strict=True)
        ]  # fmt: skip
        lines = ",\n".join(json.dumps(event) for event in (*named, *order, *events))
        return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'


def run(tasks: Sequence[Task]) -> Timeline:
    """Run tasks to the end.

    Raises:
        ProblemError: a time that is no number or negative, or a predecessor that is not listed before its task.
    """
    starts: list[float] = []
    ends: list[float] = []
    held_by: list[int | None] = []
    last: dict[str, int] = {}
    for index, (name, resource, seconds, after, _) in enumerate(tasks):
        if not 0 <= seconds < math.inf:
            raise ProblemError(f"task {name!r}: found {seconds} seconds; allowed: a number from 0")
        start, holder = 0.0, None
        for before in after:
            if not 0 <= before < index:
                raise ProblemError(_not_before(tasks, index, before))
            if ends[before] > start or holder is None:
                start, holder = ends[before], before
        earlier = last.get(resource)
        if earlier is not None and ends[earlier] > start:
            start, holder = ends[earlier], earlier
        last[resource] = index
        starts.append(start)
        ends.append(start + seconds)
        held_by.append(holder)
    return Timeline(tasks=tuple(tasks), starts=tuple(starts), ends=tuple(ends), held_by=tuple(held_by))


def _not_before(tasks: Sequence[Task], index: int, before: int) -> str:
    """Return the message about a predecessor that cannot have ended when its task is due."""
    found = f"task {tasks[index].name!r}: waits for task {before} of {len(tasks)}"
    if not 0 <= before < len(tasks):
        return found
    return f"{found}, {tasks[before].name!r}, which is not listed before it"
