"""A training step as tasks: forward and backward phase, gradients, updates.

Identical devices do the same at the same time, so one of them and its links stand for a lane of them. Lanes wait for each
other only for transfers between them. Which task waits for which follows from the record of the ops; in which order they are
issued depends on no duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.costed import COMMUNICATION, OUTWARD, PartCosts
from hypar.schedule.lanes import Lane, LaneWork
from hypar.schedule.moves import BETWEEN_STAGES, PHASE
from hypar.schedule.tasks import PartTasks, TaskList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.schedule.lanes import Crossing
    from hypar.schedule.moves import Move
    from hypar.schedule.record import Buckets
    from hypar.schedule.tasks import Place
    from hypar.schedule.timeline import Task
    from hypar.sharding.placement import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        places: for each task the layer and the microbatch that it is for.
        work: the computation of each lane.
    """

    tasks: tuple[Task, ...]
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    places: tuple[Place, ...]
    work: tuple[LaneWork, ...]

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


class Transfers(NamedTuple):
    """The transfers and the computation of a step, in no order.

    Attributes:
        moves: the transfers.
        lanes: for each of them the lanes that it occupies.
        work: the computation of each lane.
    """

    moves: tuple[Move, ...]
    lanes: tuple[tuple[int, ...], ...]
    work: tuple[LaneWork, ...]


def lower(graph: PlanGraph, choices: Sequence[Options], setting: Setting) -> Step:
    """Lower one training step on identical devices to tasks.

    Args:
        graph: the layers that are cut.
        choices: for each layer a choice at each level.
        setting: machine, array, optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    return lower_lanes([Lane(graph, choices, setting)])


def lower_lanes(
    lanes: Sequence[Lane], crossings: Sequence[Crossing] = (), chunks: Buckets | None = None
) -> Step:
    """Lower one training step on several groups of identical devices to tasks.

    Args:
        lanes: the groups, whose layers are shards of the same layers.
        crossings: the transfers at the uneven splits between them, outer splits first.
        chunks: the layers that exchange their gradients together; without chunks each layer exchanges its own.

    Raises:
        HardwareError: an array does not fit its machine.
    """
    found = TaskList((not lane.setting.machine.overlap for lane in lanes), alone=True)
    part = PartTasks(found, PartCosts(lanes, crossings), chunks)
    for phase in ("forward", "backward"):
        part.phase(phase, 0)
    return step_of(found, [lane.work for lane in lanes])


def step_of(found: TaskList, work: Sequence[LaneWork], kept: Sequence[int] | None = None) -> Step:
    """Return the step of a list of tasks, or of some of them, and of the computation of each lane."""
    at = range(len(found.tasks)) if kept is None else kept
    return Step(
        tasks=tuple([found.tasks[task] for task in at]),
        moves=tuple([found.moves[task] for task in at]),
        lanes=tuple([found.groups[task] for task in at]),
        places=tuple([found.places[task] for task in at]),
        work=tuple(work),
    )


def transfers_of(lanes: Sequence[Lane], crossings: Sequence[Crossing] = ()) -> Transfers:
    """Return the transfers that ``lower_lanes`` makes tasks of, each layer exchanging its own gradients."""
    found: list[tuple[Move, tuple[int, ...]]] = [
        (move, (number,))
        for number, lane in enumerate(lanes)
        for moves in chain(lane.inner, lane.outer)
        for move in moves
    ]
    for crossing in crossings:
        for amount in chain.from_iterable((*crossing.inside, *crossing.between)):
            for group, receiver in enumerate(crossing.receivers):
                move = crossing.move(amount, group)
                found += [] if move is None else [(move, receiver.lanes)]
    moves, of = tuple(zip(*found, strict=True)) or ((), ())
    return Transfers(moves, of, tuple(lane.work for lane in lanes))


def exchanging(step: Step) -> tuple[int, ...]:
    """Return the layers that exchange gradients, in the order of the backward phase."""
    moved = zip(step.layers, step.moves, strict=True)
    return tuple(sorted({layer for layer, move in moved if move and move.phase == PHASE}, reverse=True))
