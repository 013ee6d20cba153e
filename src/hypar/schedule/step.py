"""A training step as tasks: what each is for, and what it is called in a trace.

Identical devices do the same at the same time, so one of them and its links stand for a lane of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hypar.schedule.costed import COMMUNICATION, OUTWARD
from hypar.schedule.moves import BETWEEN_STAGES, PHASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.moves import Move
    from hypar.schedule.tasks import Place, TaskList
    from hypar.schedule.timeline import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        places: for each task the layer and the microbatch that it is for.
    """

    tasks: tuple[Task, ...]
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    places: tuple[Place, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """For each task the layer that it belongs to."""
        return tuple([place.layer for place in self.places])

    def names(self, lanes: Sequence[str], layers: Sequence[str], *, staged: bool = False) -> tuple[str, ...]:
        """Return the name of each task in a trace, as ``conv1 gradient all_reduce H1``.

        Args:
            lanes: the names of the lanes, empty for the only one.
            layers: the names of the layers.
            staged: whether there are stages, so that names say the microbatch.
        """
        found = []
        for task, move, own, place in zip(self.tasks, self.moves, self.lanes, self.places, strict=True):
            group = task.resource.removesuffix(OUTWARD)
            group = lanes[own[0]] if group == task.resource else group
            of = f"{group}: " if group else ""
            if move is None or move.level != BETWEEN_STAGES:
                of += (
                    layers[place.first] + (f" to {layers[place.layer]}" * (place.first != place.layer)) + " "
                )
            number = f" #{place.item + 1}" if staged else ""
            found.append(f"{of}{_what(task, move)}{number}")
        return tuple(found)


def _what(task: Task, move: Move | None) -> str:
    """Return what a task does, as its name says."""
    if move is None:
        return "synchronisation" if task.kind == COMMUNICATION else task.kind
    if move.level == BETWEEN_STAGES:
        return f"{move.phase} from other stages"
    return f"{move.phase} {move.collective} H{move.level + 1}"


def step_of(found: TaskList, tasks: tuple[Task, ...], kept: Sequence[int] | None = None) -> Step:
    """Return the step of a list of tasks, or of some of them.

    Args:
        found: the list.
        tasks: the tasks of the step.
        kept: their indices in the list; None for all.
    """

    def of(every: Sequence[T]) -> tuple[T, ...]:
        return tuple(every) if kept is None else tuple([every[task] for task in kept])

    return Step(tasks=tasks, moves=of(found.moves), lanes=of(found.groups), places=of(found.places))


def exchanging(step: Step) -> tuple[int, ...]:
    """Return the layers that exchange gradients, in the order of the backward phase."""
    moved = zip(step.layers, step.moves, strict=True)
    return tuple(sorted({layer for layer, move in moved if move and move.phase == PHASE}, reverse=True))
