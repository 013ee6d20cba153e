"""A pipeline as tasks: the work of each stage in the order of a schedule, and the sending between stages.

A stage does one piece of work at a time; the result for one microbatch is sent to its neighbour, which waits for it. A
step ends when all stages have done their work and sent the results. A pipeline knows nothing of layers or bytes: a part of a
stage adds the tasks of a piece of work.

The order of the tasks follows from the schedule alone, whatever their durations: a link sends results in turn, and a
stage that spends its own time on receiving does so just before it needs the result, or at the end of the step.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.plan.stages import stage_name
from hypar.schedule.pieces import COMMUNICATION, Piece
from hypar.schedule.tasks import Place, TaskList
from hypar.schedule.timeline import Task, Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.schedule.pipeline_orders import Schedule, Work
    from hypar.schedule.tasks import After


STEPS = "steps"
"""The resource that ends steps, which takes no time."""

NEIGHBOUR = {"forward": -1, "backward": 1}
"""The offset of the stage whose result a phase reads: the stage before, or the stage behind."""


class Part(Protocol):
    """A part of a stage, which adds tasks to a list."""

    def issue(self, work: Work, after: After, *, final: bool) -> After:
        """Add the part's work behind the tasks that bring its input; return those that make its result.

        Args:
            work: the work.
            after: the tasks to wait for.
            final: whether it is the last backward of a mini-batch, whose update follows.
        """

    def at_once(self, phase: str) -> bool | None:
        """Return whether what it receives for a phase is sent as soon as it is made, or just before it is read; None if nothing is."""

    def receive(self, work: Work, link: str, after: After) -> After:
        """Add the transfer of what work reads over a link; return the tasks that the work waits for."""


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


class Pipeline:
    """The tasks of a pipeline, issued in the order of a schedule.

    Attributes:
        found: the tasks.
        parts: the parts of the stages in the network's order, in turn of the first stage to the last.
        count: the number of stages.
        origins: the step, stage and work of each task.
        made: for each work of a stage the tasks that its reader waits for.
    """

    def __init__(self, found: TaskList, parts: Sequence[Part], count: int) -> None:
        """Start without work."""
        self.found, self.parts, self.count = found, parts, count
        self.origins: list[Origin] = []
        self.made: dict[tuple[int, Work], After] = {}
        # Transfers whose place among the tasks is just before their reader, which is yet to come.
        self._unsent: dict[tuple[int, Work], tuple[int, Work]] = {}

    def issue(self, schedule: Schedule, microbatches: int, minibatches: int) -> None:
        """Add the tasks of some mini-batches.

        Args:
            schedule: the order of work.
            microbatches: the number of microbatches of each mini-batch.
            minibatches: the number of mini-batches.
        """
        orders = [schedule.steps(stage, self.count, microbatches, minibatches) for stage in range(self.count)]
        for step, works in enumerate(zip(*orders, strict=True)):
            self._open(step, works)
            for made in [*self._unsent]:
                self._send(step, *made)
            self._flush(step)
            first = next(iter(self.found.start), -1) + 1
            after = tuple(range(first, len(self.found.tasks)))
            self.found.end(Task(f"step {step + 1}", STEPS, 0.0, after, "step"))
            self._note(Origin(step))

    def _flush(self, step: int) -> None:
        """Add what stages do together at the end of a step."""

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

    def _part(self, stage: int, work: Work) -> Part:
        return self.parts[work.part * self.count + stage]

    def _reader(self, stage: int, work: Work) -> tuple[int, Work] | None:
        """Return the stage and the work that read a result."""
        return self._beside(stage, work, -NEIGHBOUR.get(work.phase, len(self.parts)))

    def _source(self, stage: int, work: Work) -> tuple[int, Work] | None:
        """Return the stage and the work whose result work reads."""
        return self._beside(stage, work, NEIGHBOUR.get(work.phase, len(self.parts)))

    def _beside(self, stage: int, work: Work, offset: int) -> tuple[int, Work] | None:
        other = work.part * self.count + stage + offset
        if not 0 <= other < len(self.parts):
            return None
        part, stage = divmod(other, self.count)
        return stage, work._replace(part=part)

    def _there(self, stage: int, work: Work) -> bool:
        source = self._source(stage, work)
        return source is None or source in self.made

    def _add(self, step: int, stage: int, work: Work, *, final: bool) -> None:
        """Add work of a stage behind the transfer of its input, and the transfer of its result."""
        source, reader = self._source(stage, work), self._reader(stage, work)
        if source is not None and source in self._unsent:
            self._send(step, *source)
        after = () if source is None else self.made[source]
        self.made[stage, work] = self._part(stage, work).issue(work, after, final=final)
        self._note(Origin(step, stage, work))
        at_once = None if reader is None else self._part(*reader).at_once(work.phase)
        if reader is not None and at_once is not None:
            self._unsent[stage, work] = reader
            if at_once:
                self._send(step, stage, work)

    def _send(self, step: int, stage: int, work: Work) -> None:
        reader, reading = self._unsent.pop((stage, work))
        after, link = (*self.found.start, *self.made[stage, work]), f"link {stage + 1}-{reader + 1}"
        self.made[stage, work] = self._part(reader, reading).receive(reading, link, after)
        self._note(Origin(step, stage))

    def _note(self, origin: Origin) -> None:
        """Record the origin of the tasks that were added last."""
        self.origins += [origin] * (len(self.found.tasks) - len(self.origins))


class Pace(NamedTuple):
    """The times of a part of a stage, each of whose phases is a task.

    Attributes:
        forward: seconds of the forward phase of a microbatch.
        backward: seconds of the backward phase, the gradients included.
        update: seconds of the update.
        received: seconds to receive what the stage before sends, F.
        returned: seconds to receive what the stage behind sends, E.
        behind: seconds of the backward phase for which the stage before does not wait.
        overlap: whether the stage works while it receives.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 0.0
    received: float = 0.0
    returned: float = 0.0
    behind: float = 0.0
    overlap: bool = False


class _PacedPart(NamedTuple):
    """A part of a stage of given times."""

    found: TaskList
    pace: Pace
    stage: int

    def issue(self, work: Work, after: After, *, final: bool) -> After:  # noqa: ARG002
        behind = self.pace.behind if work.phase == "backward" else 0.0
        after = (*self.found.start, *after)
        made = self._task(work, stage_name(self.stage), getattr(self.pace, work.phase) - behind, after)
        if behind:
            self._task(work, stage_name(self.stage), behind, made)
        return made

    def at_once(self, phase: str) -> bool | None:
        return self.pace.overlap if self._arriving(phase) else None

    def receive(self, work: Work, link: str, after: After) -> After:
        return self._task(work, link, self._arriving(work.phase), after, COMMUNICATION)

    def _arriving(self, phase: str) -> float:
        return self.pace.received if phase == "forward" else self.pace.returned

    def _task(self, work: Work, resource: str, seconds: float, after: After, kind: str = "") -> After:
        own, place = (self.stage,), Place(self.stage, self.stage, work.item)
        return (self.found.add(Piece(own, own, resource, seconds, kind or work.phase), after, place),)


def paced(schedule: Schedule, paces: Sequence[Pace], microbatches: int, minibatches: int) -> Pipeline:
    """Return the tasks of a pipeline, each piece of work of a stage a single task.

    Args:
        schedule: the order of work.
        paces: the times of each part of each stage, in the order of the network.
        microbatches: the number of microbatches of each mini-batch.
        minibatches: the number of mini-batches.
    """
    count = len(paces) // schedule.parts
    found = TaskList(not pace.overlap for pace in paces[:count])
    parts = [_PacedPart(found, pace, number % count) for number, pace in enumerate(paces)]
    pipeline = Pipeline(found, parts, count)
    pipeline.issue(schedule, microbatches, minibatches)
    return pipeline


def _shifted(task: Task, place: Mapping[int | None, int]) -> Task:
    """Return a task with new indices of those of its predecessors that are kept."""
    name, resource, seconds, after, kind = task
    return Task(name, resource, seconds, tuple([place[one] for one in after if one in place]), kind)


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
    ends = [end for end, task in zip(timeline.ends, timeline.tasks, strict=True) if task.resource == STEPS]
    began = [0.0, *ends][most]
    kept = [index for index, (step, stage, _) in enumerate(origins) if step == most and stage >= 0]
    place: dict[int | None, int] = {index: new for new, index in enumerate(kept)}
    found = Timeline(
        tasks=tuple([_shifted(timeline.tasks[index], place) for index in kept]),
        starts=tuple(timeline.starts[index] - began for index in kept),
        ends=tuple(timeline.ends[index] - began for index in kept),
        held_by=tuple(place.get(timeline.held_by[index]) for index in kept),
    )
    return found, kept
