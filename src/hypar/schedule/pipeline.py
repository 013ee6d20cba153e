"""A pipeline as tasks: the work of each stage in the order of a schedule, and the sending between stages.

A stage does one piece of work at a time; the result for one microbatch is sent to its neighbour, which waits for it. A
step ends when all stages have done their work and sent the results. This module knows nothing of layers or bytes.

The order of the tasks follows from the schedule alone, whatever their durations: a link sends results in turn, and a
stage that spends its own time on receiving does so just before it needs the result, or at the end of the step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.splits import stage_name
from hypar.timeline import Task, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.pipeline_orders import Schedule, Work


STEPS = "steps"
"""The resource that ends steps, which takes no time."""

NEIGHBOUR = {"forward": -1, "backward": 1}
"""The offset of the stage whose result a phase reads: the stage before, or the stage behind."""


class Send(NamedTuple):
    """A transfer that a stage starts after each forward or backward.

    Attributes:
        seconds: its duration.
        resource: the resource that it occupies: a link, or the stage itself.
    """

    seconds: float
    resource: str


class Pace(NamedTuple):
    """The times of one stage for a microbatch and for an update.

    Attributes:
        forward: seconds of the forward.
        backward: seconds of the backward, the gradients included.
        update: seconds of the update.
        ahead: the transfer to the stage behind it after a forward.
        back: the transfer to the stage before it after a backward.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 0.0
    ahead: Send | None = None
    back: Send | None = None

    def send(self, phase: str) -> Send | None:
        """Return the transfer after a phase."""
        return {"forward": self.ahead, "backward": self.back}.get(phase)


class Origin(NamedTuple):
    """The step, stage and work of a task.

    Attributes:
        step: number of the step, from 0.
        stage: number of the stage, from 0; -1 for the end of a step.
        work: the work; None for sending, and for the end of a step.
    """

    step: int
    stage: int = -1
    work: Work | None = None


class Lowered(NamedTuple):
    """A schedule as tasks.

    Attributes:
        tasks: the tasks in the order of the steps, each behind the tasks that it waits for.
        origins: the step, stage and work of each task.
    """

    tasks: tuple[Task, ...]
    origins: tuple[Origin, ...]


def lower(schedule: Schedule, paces: Sequence[Pace], microbatches: int, minibatches: int) -> Lowered:
    """Lower a pipeline to tasks.

    Args:
        schedule: the order of work.
        paces: the times of each stage, first to last.
        microbatches: the number of microbatches of each mini-batch.
        minibatches: the number of mini-batches.
    """
    lowering, count = _Lowering(paces), len(paces)
    orders = [schedule.steps(stage, count, microbatches, minibatches) for stage in range(count)]
    for step, works in enumerate(zip(*orders, strict=True)):
        lowering.open(step, works)
        lowering.close(step)
    return Lowered(tuple(lowering.tasks), tuple(lowering.origins))


@dataclass(slots=True)
class _Lowering:
    """The tasks so far.

    Attributes:
        paces: the times of each stage.
        tasks: the tasks.
        origins: the step, stage and work of each task.
        made: for each work of a stage the task that its reader waits for.
        unsent: transfers whose place among the tasks is just before their reader, which is yet to come.
        last: the last task of each stage.
        sent: all transfers of the step.
    """

    paces: Sequence[Pace]
    tasks: list[Task] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    made: dict[tuple[int, Work], int] = field(default_factory=dict)
    unsent: dict[tuple[int, Work], Send] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)

    def open(self, step: int, works: Sequence[Sequence[Work]]) -> None:
        """Add the work of all stages in a step: each stage goes on as far as its neighbours' results allow."""
        left = [deque(own) for own in works]
        turns = deque(range(len(works)))
        while turns:
            stage = turns.popleft()
            while left[stage] and self._there(stage, left[stage][0]):
                work = left[stage].popleft()
                self._add(Origin(step, stage, work), work)
                reader = stage - NEIGHBOUR.get(work.phase, 0)
                if reader != stage and 0 <= reader < len(works):
                    turns.append(reader)
        assert not any(left)  # noqa: S101 (a schedule has no work that waits for itself)

    def close(self, step: int) -> None:
        """Add the end of a step, for which all stages wait."""
        for key in [*self.unsent]:
            self._send(key)
        after = tuple(sorted({*self.last.values(), *self.sent}))
        end = self._task(Task(f"step {step + 1}", STEPS, 0.0, after, "step"), Origin(step))
        self.last, self.sent = dict.fromkeys(range(len(self.paces)), end), []

    def _source(self, stage: int, work: Work) -> tuple[int, Work] | None:
        other = stage + NEIGHBOUR.get(work.phase, len(self.paces))
        return (other, work) if 0 <= other < len(self.paces) else None

    def _there(self, stage: int, work: Work) -> bool:
        source = self._source(stage, work)
        return source is None or source in self.made

    def _task(self, task: Task, origin: Origin) -> int:
        self.tasks.append(task)
        self.origins.append(origin)
        return len(self.tasks) - 1

    def _add(self, origin: Origin, work: Work) -> None:
        """Add work of a stage behind the transfer of its input, and the transfer of its result."""
        stage, source = origin.stage, self._source(origin.stage, work)
        if source in self.unsent:
            self._send(source)
        after = (self.last[stage],) if stage in self.last else ()
        if source is not None:
            after = (*after, self.made[source])
        seconds = getattr(self.paces[stage], work.phase)
        task = Task(f"{work.phase} {work.item + 1}", stage_name(stage), seconds, after, work.phase)
        self.made[stage, work] = self.last[stage] = self._task(task, origin)
        send = self.paces[stage].send(work.phase)
        if send is not None:
            self.unsent[stage, work] = send
            if send.resource != stage_name(stage - NEIGHBOUR[work.phase]):
                self._send((stage, work))

    def _send(self, key: tuple[int, Work]) -> None:
        """Add the transfer of a result, for which its reader waits."""
        (stage, _), send, index = key, self.unsent.pop(key), self.made[key]
        task = Task(f"send {self.tasks[index].name}", send.resource, send.seconds, (index,), "communication")
        self.made[key] = self._task(task, self.origins[index]._replace(work=None))
        self.sent.append(self.made[key])
        if send.resource == stage_name(stage):
            self.last[stage] = self.made[key]


def ran(lowered: Lowered, timeline: Timeline) -> list[list[Work]]:
    """Return the work of each stage, in the order in which it was done."""
    found: dict[int, list[Work]] = {}
    for index in sorted(range(len(timeline.tasks)), key=timeline.starts.__getitem__):
        _, stage, work = lowered.origins[index]
        if work is not None:
            found.setdefault(stage, []).append(work)
    return [found[stage] for stage in sorted(found)]


def step_ends(timeline: Timeline) -> list[float]:
    """Return the time at which each step ended."""
    return [end for end, task in zip(timeline.ends, timeline.tasks, strict=True) if task.resource == STEPS]


def full_step(lowered: Lowered, timeline: Timeline) -> Timeline:
    """Return the timeline of the first step in which every stage has its full work, shifted to start at 0."""
    counts: dict[int, int] = {}
    for step, _, work in lowered.origins:
        counts[step] = counts.get(step, 0) + (work is not None)
    most = max(counts, key=counts.__getitem__)
    began = [0.0, *step_ends(timeline)][most]
    kept = [index for index, (step, stage, _) in enumerate(lowered.origins) if step == most and stage >= 0]
    place: dict[int | None, int] = {index: new for new, index in enumerate(kept)}
    return Timeline(
        tasks=tuple(timeline.tasks[index] for index in kept),
        starts=tuple(timeline.starts[index] - began for index in kept),
        ends=tuple(timeline.ends[index] - began for index in kept),
        held_by=tuple(place.get(timeline.held_by[index]) for index in kept),
    )
