"""A step as rows: its tasks, and its seconds, bytes, joules and memory by layer, by level and over time."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.network.training import OPTIMIZERS
from hypar.schedule.energy import energy_items, moved_energy, moved_items
from hypar.schedule.memory import course_on, memory_of
from hypar.schedule.moves import BETWEEN_STAGES
from hypar.schedule.totals import level_name
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.replay import ScoredStep
    from hypar.schedule.lifetimes import Course

COMPUTATION = frozenset({"forward", "backward", "gradient"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a layer or of a level in a step.

    Attributes:
        name: the layer, or the level as ``H1`` or ``stages``.
        num_bytes: bytes that all devices receive; a layer's without those from other stages.
        computes_s: seconds of computation, of all its tasks.
        receives_s: seconds of receiving, likewise.
        critical_computes_s: seconds of computation on the critical path.
        critical_receives_s: seconds of receiving, likewise.
    """

    name: str
    num_bytes: float
    computes_s: float
    receives_s: float
    critical_computes_s: float
    critical_receives_s: float

    @property
    def seconds(self) -> float:
        """Return its seconds on the critical path; those of all layers sum to the step."""
        return self.critical_computes_s + self.critical_receives_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The memory of a device of one group over a step.

    Attributes:
        group: name of the group; ``all`` for identical devices.
        capacity_bytes: memory of a device; None if the machine's file does not say.
        held: bytes at the peak by name: weights, gradients, optimizer state and buffers, held all along, activations and errors.
        course: the bytes of activations and errors from each time on, from 0 to the end of the backward phase; empty with
            stages, whose microbatches in flight share them.
    """

    group: str
    capacity_bytes: float | None
    held: dict[str, float]
    course: tuple[tuple[float, float], ...]

    @property
    def always_bytes(self) -> float:
        """Return the bytes that are held all along."""
        return math.fsum(own for item, own in self.held.items() if item not in {"activations", "errors"})


@dataclass(frozen=True, kw_only=True)
class StepRows:
    """A step that was run, as rows.

    Attributes:
        ran: the step.
    """

    ran: ScoredStep

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Return the names of the groups of devices, or of the stages; ``all`` for identical devices without stages."""
        return tuple(group.group for group in self.ran.score.groups or ()) or (WHOLE_ARRAY,)

    @cached_property
    def tasks(self) -> tuple[StepTask, ...]:
        """Return the tasks in the order in which they are issued."""
        critical, step, timeline = {*self.ran.timeline.critical_path}, self.ran.step, self.ran.timeline
        return tuple(
            StepTask(
                name=task.name,
                kind=task.kind,
                phase=task.kind if move is None else move.phase,
                layer=self.ran.plan.layers[layer],
                lanes=lanes,
                item=None if self.ran.stages is None else item,
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

    @cached_property
    def layers(self) -> tuple[Part, ...]:
        """Return the part of each layer, in topological order."""
        found = defaultdict[str, list[StepTask]](list)
        for task in self.tasks:
            found[task.layer].append(task)
        return tuple(_part(name, found[name]) for name in self.ran.plan.layers)

    @cached_property
    def levels(self) -> tuple[Part, ...]:
        """Return the part of each level, the stages first, then from the outermost level inwards."""
        found = defaultdict[str, list[StepTask]](list)
        for task in self.tasks:
            if task.level is not None:
                found[level_name(task.level)].append(task)
        sums = self.ran.score.communication
        return tuple(_part(name, found[name], num_bytes) for name, num_bytes in sums.items())

    @cached_property
    def energy(self) -> dict[str, float] | None:
        """Return joules on all devices by layer and, of transfers, by level; None if the machine's file gives no energies.

        A layer's are those without power at rest and transfers between stages.
        """
        if self.ran.score.energy is None:
            return None
        names = self.ran.plan.layers
        found = dict.fromkeys((*names, *self.ran.score.communication), 0.0)
        for number, lane in enumerate(self.ran.lanes):
            for layer, _, joules in energy_items(lane, self.ran.step, number):
                found[names[layer]] += joules
            for moved in moved_items(lane, self.ran.step, number):
                joules = moved_energy(lane, moved)
                found[level_name(moved.move.level)] += joules
                if moved.move.level != BETWEEN_STAGES:
                    found[names[moved.layer]] += joules
        return found

    @cached_property
    def layer_memory(self) -> dict[str, tuple[float, float]]:
        """Return each layer's bytes on a device of the fullest group, or of its stage.

        They are those of its weights, gradients and optimizer state, and those that one microbatch keeps for its backward phase.
        """
        found = dict.fromkeys(self.ran.plan.layers, (0.0, 0.0))
        for number in range(len(self.ran.lanes)) if self.ran.stages is not None else (self.fullest,):
            for name, own, kept in _held(self.ran, number):
                found[name] = found[name][0] + own, found[name][1] + kept
        return found

    @cached_property
    def fullest(self) -> int:
        """Return the index of the group whose memory the score names."""
        held = [group.memory_bytes for group in self.ran.score.groups or ()]
        own = self.ran.score.memory_bytes
        return held.index(own) if own in held else 0

    @cached_property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """Return the memory of a device of each group, or of each stage, over the step."""
        return tuple(
            DeviceMemory(
                group=group,
                capacity_bytes=lane.setting.machine.memory_bytes,
                held=memory_of(lane, self.ran.step, number),
                course=() if self.ran.stages else tuple(self._course(course_on(lane), number)),
            )
            for number, (group, lane) in enumerate(zip(self.groups, self.ran.lanes, strict=True))
        )

    def _course(self, course: Course, number: int) -> Iterator[tuple[float, float]]:
        """Yield the bytes of activations and errors on a device from each time on.

        A layer's forward phase begins with its computation, and so does its backward phase; a layer without computation
        of its own belongs to the phase before it.
        """
        layers = self.ran.plan.layers
        spans = defaultdict[tuple[str, bool], list[StepTask]](list)
        for task in self.tasks:
            if number in task.lanes and task.kind in COMPUTATION:
                spans[task.layer, task.kind == "forward"].append(task)
        time, most = 0.0, 0.0
        phases = [((layer, True), held) for layer, held in zip(layers, course.forward, strict=True)]
        phases += [((layer, False), held) for layer, held in zip(layers, course.backward, strict=True)][::-1]
        for phase, num_bytes in phases:
            start = min((task.start_s for task in spans.get(phase, ())), default=time)
            if start > time:
                yield time, most
                time, most = start, 0.0
            most = max(most, num_bytes)
        yield time, most
        yield max((task.end_s for own in spans.values() for task in own), default=time), 0.0


def _part(name: str, tasks: Sequence[StepTask], num_bytes: float | None = None) -> Part:
    """Sum tasks; bytes between stages belong to no layer."""
    inside = (task.num_bytes or 0.0 for task in tasks if task.level != BETWEEN_STAGES)
    sums = defaultdict[tuple[bool, bool], list[float]](list)
    for task in tasks:
        sums[task.kind == "communication", task.critical].append(task.seconds)
    computes, receives = math.fsum(sums[False, True]), math.fsum(sums[True, True])
    return Part(
        name=name,
        num_bytes=math.fsum(inside) if num_bytes is None else num_bytes,
        computes_s=math.fsum((computes, *sums[False, False])),
        receives_s=math.fsum((receives, *sums[True, False])),
        critical_computes_s=computes,
        critical_receives_s=receives,
    )


def _held(ran: ScoredStep, number: int) -> Iterator[tuple[str, float, float]]:
    """Yield layers with bytes of their weights, gradients and optimizer state, or of a tensor that is kept."""
    lane = ran.lanes[number]
    each = lane.setting.element_bytes * (2 + OPTIMIZERS[lane.setting.optimizer])
    for name, time in zip(ran.plan.layers, ran.step.work[number].times, strict=True):
        if time is not None:
            yield name, each * time.fullest["weight"], 0.0
    for kept in course_on(lane).kept:
        yield lane.graph.layers[kept.layer].name, 0.0, kept.num_bytes
