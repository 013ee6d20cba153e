"""A span of layers as a stage with cuts: its time for a mini-batch, and its devices' memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.timeline import Task, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.searches.base import Answer
    from hypar.planning.stages.entering import Entering
    from hypar.schedule.lanes import Lane
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step


class Cuts(NamedTuple):
    """The cuts of a span.

    Attributes:
        answer: the result of the search.
        lane: its layers for a microbatch, their choices, and their setting.
        step: the tasks of a microbatch.
        phases: the durations of these tasks.
        memory: bytes on each device, including one microbatch's activations.
    """

    answer: Answer
    lane: Lane
    step: Step
    phases: Phases
    memory: dict[str, float]


class CutSpan(NamedTuple):
    """A span of layers as a stage.

    Attributes:
        cuts: its cuts.
        received: a microbatch's F that other stages send.
        returned: its E that they send.
    """

    cuts: Cuts
    received: Entering
    returned: Entering

    @property
    def step(self) -> Step:
        """The tasks of a microbatch; those that hand on tensors of other stages stand behind the others."""
        step, lane = self.cuts.step, self.cuts.lane
        arrivals = (*self.received.arrivals, *self.returned.arrivals)
        handed = [(arrival.layer, move) for arrival in arrivals for move in arrival.moves]
        links = lane.setting.machine.links(lane.setting.array) if handed else ()
        tasks = []
        for layer, move in handed:
            name = f"{lane.graph.layers[layer].name} {move.phase} {move.collective} H{move.level + 1}"
            tasks.append(Task(name, links[move.level].resource, move.seconds, (), "communication"))
        return replace(
            step,
            tasks=(*step.tasks, *tasks),
            layers=(*step.layers, *(layer for layer, _ in handed)),
            moves=(*step.moves, *(move for _, move in handed)),
            lanes=(*step.lanes, *[(0,)] * len(handed)),
        )

    def seconds(self, microbatches: int) -> float:
        """Return its busy time for a mini-batch without waiting; with overlap, at least the time of its links."""
        phases = self.cuts.phases
        computing = microbatches * (phases.forward + phases.backward) + phases.once
        if self.cuts.lane.setting.machine.overlap:
            return max(computing, microbatches * max(self.received.seconds, self.returned.seconds))
        return computing + microbatches * (self.received.seconds + self.returned.seconds)

    def held(self, in_flight: int) -> dict[str, float]:
        """Return the bytes on each device with microbatches in flight, and a buffer for the largest transfer."""
        memory, devices = self.cuts.memory, math.prod(self.cuts.lane.setting.array)
        received = max(self.received.num_bytes, self.returned.num_bytes)
        buffer = max(memory["buffers"], received / devices)
        return {**memory, "activations": in_flight * memory["activations"], "buffers": buffer}


class Phases(NamedTuple):
    """The durations of a stage's phases, without transfers from other stages.

    Attributes:
        forward: seconds for the forward phase of a microbatch.
        backward: seconds for the backward phase of a microbatch, with its gradients.
        once: seconds for exchanging gradients and updating, after the last microbatch of a mini-batch.
    """

    forward: float
    backward: float
    once: float


def phases_of(step: Step, *, overlap: bool) -> Phases:
    """Return the phases of a microbatch's step.

    With overlap the engine gives their durations, each from its own beginning: gradients are exchanged during the last
    backward phase. A phase then gets no longer because another gets shorter.
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
    """Return the seconds of each kind of task in each phase of a microbatch's step, as if run one after another."""
    found: dict[str, dict[str, float]] = {phase: {} for phase in Phases._fields}
    for task, move in zip(step.tasks, step.moves, strict=True):
        items = found[_phase(task, move)]
        items[task.kind] = items.get(task.kind, 0.0) + task.seconds
    return found


def _phase(task: Task, move: Move | None) -> str:
    # Communication without a transfer is the stall of the devices for an exchange of gradients.
    exchanges = task.kind == "communication" if move is None else move.phase == "gradient"
    if task.kind == "update" or exchanges:
        return "once"
    return "forward" if (task.kind if move is None else move.phase) == "forward" else "backward"


def _makespan(tasks: Sequence[Task], kept: Sequence[bool]) -> float:
    """Return the duration of the kept tasks if the others have already ended."""
    index = {old: new for new, old in enumerate(old for old, keep in enumerate(kept) if keep)}
    return run(
        [
            tasks[old]._replace(after=tuple(index[before] for before in tasks[old].after if before in index))
            for old in index
        ]
    ).makespan
