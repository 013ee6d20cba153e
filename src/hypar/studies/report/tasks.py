"""The tasks of a step that was run, with what each of them does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.plan.splits import WHOLE_ARRAY

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTask:
    """A task of a step that was run.

    Attributes:
        name: its name, as ``conv1 forward``.
        kind: the phase that it computes, ``update``, or ``communication``.
        phase: the phase that it belongs to, also of a transfer; empty if unknown.
        layer: the layer; None for the work of a stage.
        lanes: indices of the groups of devices, or of the stage, that it occupies.
        resource: the resource that runs it.
        level: the level of a transfer, 0 for the outermost; None for computation and between stages.
        num_bytes: bytes that all devices receive; None if unknown.
        start_s: start.
        seconds: duration.
        critical: whether it is on the critical path.
    """

    name: str
    kind: str
    phase: str
    layer: str | None
    lanes: tuple[int, ...]
    resource: str
    level: int | None
    num_bytes: float | None
    start_s: float
    seconds: float
    critical: bool

    @property
    def end_s(self) -> float:
        """Return its end."""
        return self.start_s + self.seconds


def lane_names(ran: ScoredStep) -> tuple[str, ...]:
    """Return the names of the groups of devices, or of the stages; ``all`` for identical devices without stages."""
    if ran.score.groups is None:
        return (WHOLE_ARRAY,)
    return tuple(group.group for group in ran.score.groups)


def step_tasks(ran: ScoredStep) -> tuple[StepTask, ...]:
    """Return the tasks of a step; with stages, the work of each stage on the microbatches of a mini-batch."""
    return _of_stages(ran) if ran.stages is not None else _of_layers(ran)


def _of_layers(ran: ScoredStep) -> tuple[StepTask, ...]:
    critical, step, timeline = {*ran.timeline.critical_path}, ran.step, ran.timeline
    return tuple(
        StepTask(
            name=task.name,
            kind=task.kind,
            phase=task.kind if move is None else move.phase,
            layer=ran.plan.layers[layer],
            lanes=lanes,
            resource=task.resource,
            level=None if move is None else move.level,
            num_bytes=None if move is None else move.total_bytes,
            start_s=timeline.starts[index],
            seconds=task.seconds,
            critical=index in critical,
        )
        for index, (task, layer, move, lanes) in enumerate(
            zip(step.tasks, step.layers, step.moves, step.lanes, strict=True)
        )
    )


def _of_stages(ran: ScoredStep) -> tuple[StepTask, ...]:
    """Return the tasks of a pipeline; a link between stages counts as the stage that it leads to."""
    critical, timeline = {*ran.timeline.critical_path}, ran.timeline
    found = []
    for index, task in enumerate(timeline.tasks):
        number = re.search(r"\d+$", task.resource)
        found.append(
            StepTask(
                name=task.name,
                kind=task.kind,
                phase="" if task.kind == "communication" else task.kind,
                layer=None,
                lanes=(int(number[0]) - 1 if number else 0,),
                resource=task.resource,
                level=None,
                num_bytes=None,
                start_s=timeline.starts[index],
                seconds=task.seconds,
                critical=index in critical,
            )
        )
    return tuple(found)
