"""A pipeline as tasks: the work of each stage in the order of a schedule, and the sending between stages.

A stage does one piece of work at a time; the result for one microbatch is sent to its neighbour, which waits for it. A
step ends when all stages have done their work and sent the results. This module knows nothing of layers or bytes: a
lowering adds the tasks of a piece of work, one with given seconds here.

The order of the tasks follows from the schedule alone, whatever their durations: a link sends results in turn, and a
stage that spends its own time on receiving does so just before it needs the result, or at the end of the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.stages import stage_name
from hypar.schedule.timeline import Task, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.pipeline_orders import Schedule, Work
    from hypar.schedule.tasks import After


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
        behind: seconds of the backward for which that transfer does not wait.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 0.0
    ahead: Send | None = None
    back: Send | None = None
    behind: float = 0.0

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
    """Lower a pipeline, each piece of work of a stage a single task.

    Args:
        schedule: the order of work.
        paces: the times of each part of each stage, in the order of the network.
        microbatches: the number of microbatches of each mini-batch.
        minibatches: the number of mini-batches.
    """
    lowering = _Paced(paces, len(paces) // schedule.parts)
    lowering.issue(schedule, microbatches, minibatches)
    return Lowered(tuple(lowering.tasks), tuple(lowering.origins))


class PipelineLowering(ABC):
    """The tasks of a pipeline so far, issued in the order of a schedule.

    Attributes:
        count: the number of stages.
        ends: the number of parts of all stages.
        tasks: the tasks.
        origins: the step, stage and work of each task.
        made: for each work of a stage the tasks that its reader waits for.
        unsent: transfers whose place among the tasks is just before their reader, which is yet to come.
    """

    def __init__(self, count: int) -> None:
        """Start without tasks."""
        self.count = self.ends = count
        self.tasks: list[Task] = []
        self.origins: list[Origin] = []
        self.made: dict[tuple[int, Work], After] = {}
        self.unsent: dict[tuple[int, Work], tuple[int, Work]] = {}

    @abstractmethod
    def work(self, stage: int, work: Work, after: After, *, final: bool) -> After:
        """Add a stage's work behind the tasks that bring its input; return those that make its result.

        Args:
            stage: number of the stage.
            work: the work.
            after: the tasks to wait for.
            final: whether it is the last backward of a mini-batch, whose update follows.
        """

    @abstractmethod
    def sends(self, stage: int, work: Work, reader: int, reading: Work) -> bool | None:
        """Return whether a result is sent as soon as it is made, or just before it is read; None if it is not sent.

        Args:
            stage: number of the stage that makes it.
            work: the work that makes it.
            reader: number of the stage that reads it.
            reading: the work that reads it.
        """

    @abstractmethod
    def send(self, stage: int, work: Work, reader: int, reading: Work, after: After) -> After:
        """Add the transfer of a result; return the tasks that its reader waits for; arguments as in ``sends``."""

    @abstractmethod
    def end(self, step: int) -> None:
        """Add the end of a step, for which all stages wait."""

    def issue(self, schedule: Schedule, microbatches: int, minibatches: int) -> None:
        """Add the tasks of some mini-batches; arguments as in ``lower``."""
        self.ends = self.count * schedule.parts
        orders = [schedule.steps(stage, self.count, microbatches, minibatches) for stage in range(self.count)]
        for step, works in enumerate(zip(*orders, strict=True)):
            self._open(step, works)
            for made in [*self.unsent]:
                self._send(step, *made)
            self.end(step)
            self._note(Origin(step))

    def _open(self, step: int, works: Sequence[Sequence[Work]]) -> None:
        """Add the work of all stages in a step: each stage goes on as far as its neighbours' results allow."""
        left = [deque(own) for own in works]
        turns = deque(range(self.count))
        while turns:
            stage = turns.popleft()
            while left[stage] and self._there(stage, left[stage][0]):
                work = left[stage].popleft()
                self._add(step, stage, work, final=bool(left[stage]) and left[stage][0].phase == "update")
                reader = self._reader(stage, work)
                if reader is not None:
                    turns.append(reader[0])
        assert not any(left)  # noqa: S101 (a schedule has no work that waits for itself)

    def number(self, stage: int, work: Work) -> int:
        """Return the number of the part that work is for, among those of all stages in the network's order."""
        return work.part * self.count + stage

    def _reader(self, stage: int, work: Work) -> tuple[int, Work] | None:
        """Return the stage and the work that read a result."""
        return self._beside(stage, work, -NEIGHBOUR.get(work.phase, self.ends))

    def _source(self, stage: int, work: Work) -> tuple[int, Work] | None:
        """Return the stage and the work whose result work reads."""
        return self._beside(stage, work, NEIGHBOUR.get(work.phase, self.ends))

    def _beside(self, stage: int, work: Work, offset: int) -> tuple[int, Work] | None:
        other = self.number(stage, work) + offset
        if not 0 <= other < self.ends:
            return None
        part, stage = divmod(other, self.count)
        return stage, work._replace(part=part)

    def _there(self, stage: int, work: Work) -> bool:
        source = self._source(stage, work)
        return source is None or source in self.made

    def _add(self, step: int, stage: int, work: Work, *, final: bool) -> None:
        """Add work of a stage behind the transfer of its input, and the transfer of its result."""
        source, reader = self._source(stage, work), self._reader(stage, work)
        if source is not None and source in self.unsent:
            self._send(step, *source)
        after = () if source is None else self.made[source]
        self.made[stage, work] = self.work(stage, work, after, final=final)
        self._note(Origin(step, stage, work))
        at_once = None if reader is None else self.sends(stage, work, *reader)
        if reader is not None and at_once is not None:
            self.unsent[stage, work] = reader
            if at_once:
                self._send(step, stage, work)

    def _send(self, step: int, stage: int, work: Work) -> None:
        reader = self.unsent.pop((stage, work))
        self.made[stage, work] = self.send(stage, work, *reader, self.made[stage, work])
        self._note(Origin(step, stage))

    def _note(self, origin: Origin) -> None:
        """Record the origin of the tasks that were added last."""
        self.origins += [origin] * (len(self.tasks) - len(self.origins))


class _Paced(PipelineLowering):
    """The lowering of stages whose work takes single tasks.

    Attributes:
        paces: the times of each part of each stage.
        last: the last task of each stage.
        sent: all transfers of the step.
    """

    def __init__(self, paces: Sequence[Pace], count: int) -> None:
        super().__init__(count)
        self.paces = paces
        self.last: dict[int, int] = {}
        self.sent: list[int] = []

    def _task(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def work(self, stage: int, work: Work, after: After, *, final: bool) -> After:  # noqa: ARG002
        before = (self.last[stage],) if stage in self.last else ()
        pace = self.paces[self.number(stage, work)]
        seconds, name = getattr(pace, work.phase), f"{work.phase} {work.item + 1}"
        behind = pace.behind if work.phase == "backward" else 0.0
        made = self._task(Task(name, stage_name(stage), seconds - behind, (*before, *after), work.phase))
        self.last[stage] = made
        if behind:
            rest = Task(f"gradient {work.item + 1}", stage_name(stage), behind, (made,), work.phase)
            self.last[stage] = self._task(rest)
        return (made,)

    def sends(self, stage: int, work: Work, reader: int, reading: Work) -> bool | None:  # noqa: ARG002
        send = self.paces[self.number(stage, work)].send(work.phase)
        return None if send is None else send.resource != stage_name(reader)

    def send(self, stage: int, work: Work, reader: int, reading: Work, after: After) -> After:  # noqa: ARG002
        send = self.paces[self.number(stage, work)].send(work.phase)
        assert send is not None  # noqa: S101 (it is sent)
        name = f"send {work.phase} {work.item + 1}"
        done = self._task(Task(name, send.resource, send.seconds, after, "communication"))
        self.sent.append(done)
        if send.resource == stage_name(stage):
            self.last[stage] = done
        return (done,)

    def end(self, step: int) -> None:
        after = tuple(sorted({*self.last.values(), *self.sent}))
        done = self._task(Task(f"step {step + 1}", STEPS, 0.0, after, "step"))
        self.last, self.sent = dict.fromkeys(range(self.count), done), []


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
    return full_tasks(lowered.origins, timeline)[0]


def full_tasks(origins: Sequence[Origin], timeline: Timeline) -> tuple[Timeline, list[int]]:
    """Return the timeline of the first step in which every stage has its full work, shifted to start at 0.

    Args:
        origins: the step, stage and work of each task.
        timeline: when each task ran.

    Returns:
        The timeline, and the indices of its tasks among all.
    """
    counts: dict[int, int] = {}
    for step, _, work in origins:
        counts[step] = counts.get(step, 0) + (work is not None)
    most = max(counts, key=counts.__getitem__)
    began = [0.0, *step_ends(timeline)][most]
    kept = [index for index, (step, stage, _) in enumerate(origins) if step == most and stage >= 0]
    place: dict[int | None, int] = {index: new for new, index in enumerate(kept)}
    found = Timeline(
        tasks=tuple(
            timeline.tasks[index]._replace(
                after=tuple(place[before] for before in timeline.tasks[index].after if before in place)
            )
            for index in kept
        ),
        starts=tuple(timeline.starts[index] - began for index in kept),
        ends=tuple(timeline.ends[index] - began for index in kept),
        held_by=tuple(place.get(timeline.held_by[index]) for index in kept),
    )
    return found, kept
