"""A training step as tasks: what each is for, and what it is called in a trace.

Identical devices do the same at the same time, so one of them and its links stand for a lane of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.schedule.costed import COMMUNICATION, OUTWARD
from hypar.schedule.moves import BETWEEN_STAGES, PHASE, level_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.moves import Move
    from hypar.schedule.tasks import Place, TaskList
    from hypar.schedule.timeline import Task, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step that was run.

    Attributes:
        timeline: when each task ran.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        places: for each task the layer and the microbatch that it is for.
    """

    timeline: Timeline
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    places: tuple[Place, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in an order in which they can run."""
        return self.timeline.tasks

    @property
    def layers(self) -> tuple[int, ...]:
        """For each task the layer that it belongs to."""
        return tuple([place.layer for place in self.places])

    def received(self, levels: int, *, stages: bool = False) -> dict[str, float]:
        """Sum the bytes that all devices receive at each level, and between stages if there are any."""
        found: dict[int, list[float]] = {
            level: [] for level in range(BETWEEN_STAGES if stages else 0, levels)
        }
        for move in self.moves:
            if move is not None:
                found[move.level].append(move.total_bytes)
        return {level_name(level): math.fsum(amounts) for level, amounts in found.items()}

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


def step_of(found: TaskList, timeline: Timeline) -> Step:
    """Return the step of a list of tasks that was run."""
    return Step(
        timeline=timeline,
        moves=tuple([piece.move for piece in found.pieces]),
        lanes=tuple([piece.groups for piece in found.pieces]),
        places=tuple(found.places),
    )


def exchanging(step: Step) -> tuple[int, ...]:
    """Return the layers that exchange gradients, in the order of the backward phase."""
    moved = zip(step.layers, step.moves, strict=True)
    return tuple(sorted({layer for layer, move in moved if move and move.phase == PHASE}, reverse=True))
