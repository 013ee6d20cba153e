"""How long the phases of a stage take: what a microbatch takes, and what comes once a mini-batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step
    from hypar.timeline import Task


class Phases(NamedTuple):
    """Seconds of a stage, what it gets from other stages aside.

    Attributes:
        forward: of a microbatch.
        backward: of one, with its gradients.
        once: of adding up gradients and updating, behind the last microbatch of a mini-batch.
    """

    forward: float
    backward: float
    once: float


def phases_of(step: Step, *, overlap: bool) -> Phases:
    """The phases of a microbatch's step.

    With overlap they are as long as the engine has them, each from its own beginning: gradients are added up beside the
    last backward phase. A phase then gets no longer because another gets shorter.
    """
    kinds = [_phase(task, move) for task, move in zip(step.tasks, step.moves, strict=True)]
    if not overlap:
        spent: dict[str, list[float]] = {phase: [] for phase in Phases._fields}
        for phase, task in zip(kinds, step.tasks, strict=True):
            spent[phase].append(task.seconds)
        return Phases(*(math.fsum(seconds) for seconds in spent.values()))
    forward, backward, behind = (
        _makespan(step.tasks, [phase in some for phase in kinds])
        for some in (("forward",), ("backward",), ("backward", "once"))
    )
    return Phases(forward, backward, max(0.0, behind - backward))


def items_of(step: Step) -> dict[str, dict[str, float]]:
    """For each phase the seconds of each kind of task in a microbatch's step, as if one after another."""
    found: dict[str, dict[str, float]] = {phase: {} for phase in Phases._fields}
    for task, move in zip(step.tasks, step.moves, strict=True):
        items = found[_phase(task, move)]
        items[task.kind] = items.get(task.kind, 0.0) + task.seconds
    return found


def _phase(task: Task, move: Move | None) -> str:
    """The phase that a task is of."""
    if task.kind == "update" or (move is not None and move.phase == "gradient"):
        return "once"
    return "forward" if (task.kind if move is None else move.phase) == "forward" else "backward"


def _makespan(tasks: Sequence[Task], kept: Sequence[bool]) -> float:
    """How long some of the tasks take, once the others have ended."""
    index = {old: new for new, old in enumerate(old for old, keep in enumerate(kept) if keep)}
    return run(
        [
            tasks[old]._replace(after=tuple(index[before] for before in tasks[old].after if before in index))
            for old in index
        ]
    ).makespan
