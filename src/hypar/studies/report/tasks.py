"""The tasks of a step that was run, with what each of them does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTask:
    """A task of a step that was run.

    Attributes:
        name: its name, as ``conv1 forward``.
        kind: the phase that it computes, ``update``, or ``communication``.
        phase: the phase that it belongs to, also of a transfer.
        layer: the layer; of a transfer between stages one of the stage that receives it.
        lanes: indices of the groups of devices, or of the stages, that it occupies.
        item: the microbatch that it works on, from 0; None without stages.
        resource: the resource that runs it.
        level: the level of a transfer, 0 for the outermost, or ``BETWEEN_STAGES``; None for computation.
        num_bytes: bytes that all devices receive; None for computation.
        start_s: start.
        seconds: duration.
        critical: whether it is on the critical path.
    """

    name: str
    kind: str
    phase: str
    layer: str
    lanes: tuple[int, ...]
    item: int | None
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
    """Return the tasks of a step."""
    critical, step, timeline = {*ran.timeline.critical_path}, ran.step, ran.timeline
    return tuple(
        StepTask(
            name=task.name,
            kind=task.kind,
            phase=task.kind if move is None else move.phase,
            layer=ran.plan.layers[layer],
            lanes=lanes,
            item=None if ran.stages is None else item,
            resource=task.resource,
            level=None if move is None else move.level,
            num_bytes=None if move is None else move.total_bytes,
            start_s=timeline.starts[index],
            seconds=task.seconds,
            critical=index in critical,
        )
        for index, (task, layer, move, lanes, item) in enumerate(
            zip(step.tasks, step.layers, step.moves, step.lanes, step.items, strict=True)
        )
    )
