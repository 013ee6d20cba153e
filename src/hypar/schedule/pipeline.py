"""A pipeline as tasks: the work of each stage in the order of a schedule, and the sending between stages.

A stage does one thing at a time; what it has done for one microbatch is sent to its neighbour, which waits for that. A
step ends when all stages have done their work of it and sent the results. Nothing here knows of layers or bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hypar.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.orders import Schedule, Work

STEPS = "steps"
"""The resource that ends steps, which takes no time."""

NEIGHBOUR = {"forward": -1, "backward": 1}
"""Where a phase gets from what it reads: the stage before, or the stage behind."""


class Send(NamedTuple):
    """What a stage sends after each forward or backward.

    Attributes:
        seconds: how long it takes.
        resource: what it keeps busy: a link, or the stage itself.
    """

    seconds: float
    resource: str


class Pace(NamedTuple):
    """How long one stage takes for one microbatch, and for an update.

    Attributes:
        forward: seconds.
        backward: seconds, those of the gradients included.
        update: seconds.
        ahead: what it sends to the stage behind it after a forward.
        back: what it sends to the stage before it after a backward.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 0.0
    ahead: Send | None = None
    back: Send | None = None

    def send(self, phase: str) -> Send | None:
        """What is sent after a phase."""
        return {"forward": self.ahead, "backward": self.back}.get(phase)


class Origin(NamedTuple):
    """What a task belongs to.

    Attributes:
        step: from 0.
        stage: from 0; -1 for the end of a step.
        work: None for sending, and for the end of a step.
    """

    step: int
    stage: int = -1
    work: Work | None = None


class Lowered(NamedTuple):
    """A schedule as tasks.

    Attributes:
        tasks: in the order of the steps.
        origins: what each belongs to.
    """

    tasks: tuple[Task, ...]
    origins: tuple[Origin, ...]


def stage_name(stage: int) -> str:
    """The resource that a stage is; people count from 1."""
    return f"stage {stage + 1}"


def lower(schedule: Schedule, paces: Sequence[Pace], microbatches: int, minibatches: int) -> Lowered:
    """The tasks of a pipeline that takes some mini-batches.

    Args:
        schedule: the order of work.
        paces: how long each stage takes, first to last.
        microbatches: of each mini-batch.
        minibatches: how many.
    """
    lowering, count = _Lowering(paces), len(paces)
    orders = [schedule.steps(stage, count, microbatches, minibatches) for stage in range(count)]
    for step, works in enumerate(zip(*orders, strict=True)):
        for stage, own in enumerate(works):
            for work in own:
                lowering.add(Origin(step, stage, work), work)
        lowering.close(step)
    return lowering.finished()


@dataclass(slots=True)
class _Lowering:
    """The tasks so far; what a task waits for in another stage is looked up at the end."""

    paces: Sequence[Pace]
    tasks: list[Task] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    awaits: dict[int, tuple[int, Work]] = field(default_factory=dict)
    ready: dict[tuple[int, Work], int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)

    def task(self, task: Task, origin: Origin) -> int:
        """One task; returns its index."""
        self.tasks.append(task)
        self.origins.append(origin)
        return len(self.tasks) - 1

    def add(self, origin: Origin, work: Work) -> None:
        """Some work of a stage, and the sending of its result."""
        stage, text = origin.stage, f"{work.phase} {work.item + 1}"
        after = (self.last[stage],) if stage in self.last else ()
        seconds = getattr(self.paces[stage], work.phase)
        index = self.task(Task(text, stage_name(stage), seconds, after, work.phase), origin)
        self.last[stage] = index
        other = stage + NEIGHBOUR.get(work.phase, len(self.paces))
        if 0 <= other < len(self.paces):
            self.awaits[index] = (other, work)
        self.ready[stage, work] = self._sent(index, origin, text)

    def _sent(self, index: int, origin: Origin, text: str) -> int:
        """The sending of what a task has made, if it is sent; returns what its reader waits for."""
        phase = self.tasks[index].kind
        send = self.paces[origin.stage].send(phase)
        if send is None:
            return index
        task = Task(f"send {text}", send.resource, send.seconds, (index,), "communication")
        self.sent.append(self.task(task, origin._replace(work=None)))
        if send.resource == stage_name(origin.stage):
            self.last[origin.stage] = self.sent[-1]
        return self.sent[-1]

    def close(self, step: int) -> None:
        """The end of a step, for which all wait."""
        after = tuple(sorted({*self.last.values(), *self.sent}))
        end = self.task(Task(f"step {step + 1}", STEPS, 0.0, after, "step"), Origin(step))
        self.last, self.sent = dict.fromkeys(range(len(self.paces)), end), []

    def finished(self) -> Lowered:
        """All tasks, each waiting for what it needs of other stages too."""
        for index, key in self.awaits.items():
            task = self.tasks[index]
            self.tasks[index] = task._replace(after=(*task.after, self.ready[key]))
        return Lowered(tuple(self.tasks), tuple(self.origins))
