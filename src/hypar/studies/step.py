"""A step as rows: its tasks, and its seconds, bytes, joules and memory by layer, phase, level, chunk and stage, and over time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cached_property
from itertools import product, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.machine.numbers import phase_of
from hypar.network.graph import gradients_of
from hypar.network.training import OPTIMIZERS, PHASES
from hypar.planning.replay import run_plan
from hypar.schedule.energy import energy_items, moved_energy, moved_items
from hypar.schedule.memory import course_on, memory_of
from hypar.schedule.moves import BETWEEN_STAGES, PHASE
from hypar.schedule.totals import level_name
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.replay import ScoredStep

Rows = list[dict[str, Any]]

HELD = ("weights", "gradients", "activations", "errors", "buffers")
"""What a device of a stage holds."""


class StepTask(NamedTuple):
    """A task of a step that was run.

    Its ``kind`` is the phase that it computes, ``update``, or ``communication``; its ``phase`` that to which it belongs, also of a
    transfer. ``lanes`` are the indices of the groups of devices, or of the stages, that it occupies; a transfer between stages
    has a layer of the stage that receives it. ``item`` is the microbatch, from 0, None without stages. A transfer alone has a
    ``collective``, a ``level``, 0 for the outermost or ``BETWEEN_STAGES``, and ``num_bytes``, which all devices receive.
    """

    name: str
    kind: str
    phase: str
    layer: str
    lanes: tuple[int, ...]
    item: int | None
    resource: str
    collective: str | None
    level: int | None
    num_bytes: float | None
    start_s: float
    seconds: float
    critical: bool

    @property
    def end_s(self) -> float:
        """Its end."""
        return self.start_s + self.seconds

    @property
    def exchanges(self) -> bool:
        """Whether it exchanges gradients."""
        return self.kind == "communication" and self.phase in {PHASE, self.kind}


class Part(NamedTuple):
    """The part in a step of a layer, or of a level, as ``H1`` or ``stages``.

    ``num_bytes`` are those that all devices receive, of a layer without those from other stages; seconds are of computation
    and of receiving on the critical path, which sum to the step over all layers.
    """

    name: str
    num_bytes: float
    computes_s: float
    receives_s: float


class DeviceMemory(NamedTuple):
    """The memory of a device of one group over a step.

    Attributes:
        group: name of the group; ``all`` for identical devices.
        held: bytes at the peak by name: weights, gradients, optimizer state and buffers, held all along, activations and errors.
        phases: the most bytes of activations and errors during each layer's forward and its backward phase; empty with stages,
            whose microbatches in flight share them.
    """

    group: str
    held: dict[str, float]
    phases: dict[str, tuple[float, float]]

    @property
    def always_bytes(self) -> float:
        """The bytes that are held all along."""
        return math.fsum(own for item, own in self.held.items() if item not in {"activations", "errors"})


class StepRows:
    """A step that was run, as rows."""

    def __init__(self, ran: ScoredStep) -> None:
        self.ran = ran

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups of devices, or of the stages; ``all`` for identical devices without stages."""
        return tuple(group.group for group in self.ran.score.groups or ()) or (WHOLE_ARRAY,)

    @cached_property
    def tasks(self) -> tuple[StepTask, ...]:
        """The tasks in the order in which they are issued."""
        critical, step, starts = {*self.ran.timeline.critical_path}, self.ran.step, self.ran.timeline.starts
        return tuple(
            StepTask(
                name=task.name,
                kind=task.kind,
                phase=task.kind if move is None else move.phase,
                layer=self.ran.plan.layers[layer],
                lanes=lanes,
                item=None if self.ran.stages is None else item,
                resource=task.resource,
                collective=None if move is None else move.collective,
                level=None if move is None else move.level,
                num_bytes=None if move is None else move.total_bytes,
                start_s=starts[index],
                seconds=task.seconds,
                critical=index in critical,
            )
            for index, (task, layer, move, lanes, item) in enumerate(
                zip(step.tasks, step.layers, step.moves, step.lanes, step.items, strict=True)
            )
        )

    @cached_property
    def layers(self) -> tuple[Part, ...]:
        """The part of each layer, in topological order."""
        found = defaultdict[str, list[StepTask]](list)
        for task in self.tasks:
            found[task.layer].append(task)
        return tuple(_part(name, found[name]) for name in self.ran.plan.layers)

    @cached_property
    def levels(self) -> tuple[Part, ...]:
        """The part of each level, the stages first, then from the outermost level inwards."""
        sent = [(level_name(task.level), task) for task in self.tasks if task.level is not None]
        amounts = self.ran.score.communication
        return tuple(
            _part(name, [task for level, task in sent if level == name], amounts[name]) for name in amounts
        )

    @cached_property
    def phases(self) -> Rows:
        """Each phase of each layer on a device, as ``score_layers`` gives them."""
        groups, sent = self.ran.score.groups, defaultdict[tuple[int, str, str], Rows](list)
        for task in self.tasks:
            if task.level is not None:
                own = {"level": task.level, "collective": task.collective, "time_s": task.seconds}
                for lane in task.lanes:
                    sent[lane, task.layer, task.phase].append({**own, "bytes": task.num_bytes})
        found = []
        for lane, work in enumerate(self.ran.step.work):
            machine, group = (
                self.ran.lanes[lane].setting.machine,
                {"group": groups[lane].group} if groups else {},
            )
            for (layer, time), phase in product(zip(self.ran.plan.layers, work.times, strict=True), PHASES):
                own = {} if time is None else phase_of(phase, time, machine)
                moved = sent[lane, layer, phase]
                sums = {"communication_s": sum(each["time_s"] for each in moved), "transfers": moved}
                found.append({**group, "layer": layer, "phase": phase, **own, **sums})
        return found

    @cached_property
    def energy(self) -> dict[str, float] | None:
        """Joules on all devices by layer and, of transfers, by level; None if the machine's file gives no energies.

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
        """Each layer's bytes on a device of the fullest group, or of its stage.

        They are those of its weights, gradients and optimizer state, and those that one microbatch keeps for its backward phase.
        """
        found = {layer: [0.0, 0.0] for layer in self.ran.plan.layers}
        for number in range(len(self.ran.lanes)) if self.ran.stages is not None else (self.fullest,):
            lane, times = self.ran.lanes[number], self.ran.step.work[number].times
            each = lane.setting.element_bytes * (2 + OPTIMIZERS[lane.setting.optimizer])
            for own, time in zip(found.values(), times, strict=True):
                own[0] += 0.0 if time is None else each * time.fullest["weight"]
            for kept in course_on(lane).kept:
                found[lane.graph.layers[kept.layer].name][1] += kept.num_bytes
        return {layer: (own, kept) for layer, (own, kept) in found.items()}

    @cached_property
    def fullest(self) -> int:
        """The index of the group whose memory the score names."""
        held = [group.memory_bytes for group in self.ran.score.groups or ()]
        own = self.ran.score.memory_bytes
        return held.index(own) if own in held else 0

    @cached_property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """The memory of a device of each group, or of each stage, over the step."""
        found = []
        for number, (group, lane) in enumerate(zip(self.groups, self.ran.lanes, strict=True)):
            course, held = course_on(lane), memory_of(lane, self.ran.step, number)
            both = zip(course.forward, course.backward, strict=True)
            phases = {} if self.ran.stages else dict(zip(self.ran.plan.layers, both, strict=True))
            found.append(DeviceMemory(group, held, phases))
        return tuple(found)

    @cached_property
    def stages(self) -> Rows:
        """The number of each ``stage``, from 1, the bytes of ``HELD`` on a device of it, and ``received`` from other stages."""
        if self.ran.stages is None:
            return []
        between = [task for task in self.tasks if task.level == BETWEEN_STAGES]
        return [
            {
                "stage": number + 1,
                **{item: memory.held[item] for item in HELD},
                "received": math.fsum(task.num_bytes or 0.0 for task in between if number in task.lanes),
            }
            for number, memory in enumerate(self.memory)
        ]

    @cached_property
    def chunks(self) -> Rows:
        """The chunks of the plan's gradients in the order of the backward phase; none without chunks.

        A row has its number ``chunk``, from 1; its ``layers``; the ``bytes`` of all that is trained in them; ``ready_s``, when the
        last gradient is there in the first device group to have it; ``start_s`` and ``end_s`` of the exchange, in seconds
        from the begin of the step; ``critical``, whether the critical path waits for it.
        """
        chunks = [] if self.ran.plan.chunks is None else self.ran.plan.chunks.layers
        chunk_of = {layer: number for number, layers in enumerate(chunks) for layer in layers}
        owners = {tie.user: tie.owner for tie in self.ran.graph.ties if tie.user not in chunk_of}
        sizes, critical = Counter[int | None](), self._awaited
        for each in gradients_of(self.ran.graph):
            sizes[chunk_of.get(owners.get(each.layer, each.layer))] += each.num_bytes
        rows = []
        for number, layers in enumerate(chunks):
            own = [task for task in self.tasks if chunk_of.get(task.layer) == number]
            last = {task.lanes: task.end_s for task in own if task.kind == PHASE}
            sent = [task for task in own if task.exchanges]
            rows.append(
                {
                    "chunk": number + 1,
                    "layers": list(layers),
                    "bytes": sizes[number],
                    "ready_s": min(last.values()),
                    "start_s": min(task.start_s for task in sent),
                    "end_s": max(task.end_s for task in sent),
                    "critical": critical is not None and critical.layer in layers,
                }
            )
        return rows

    @property
    def _awaited(self) -> StepTask | None:
        """The first exchange behind the last computation of the backward phase on the critical path."""
        path = [self.tasks[index] for index in self.ran.timeline.critical_path]
        behind = takewhile(lambda task: task.kind not in PHASES, reversed(path))
        return next((task for task in [*behind][::-1] if task.exchanges), None)


def _part(name: str, tasks: Sequence[StepTask], num_bytes: float | None = None) -> Part:
    """Sum tasks; bytes between stages belong to no layer."""
    inside = (task.num_bytes or 0.0 for task in tasks if task.level != BETWEEN_STAGES)
    computes, receives = (
        math.fsum(task.seconds for task in tasks if task.critical and (task.kind == "communication") is sent)
        for sent in (False, True)
    )
    return Part(name, math.fsum(inside) if num_bytes is None else num_bytes, computes, receives)


def score_layers(
    plan: Plan | str | Path,
    *,
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    model: LayerGraph | str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Rows:
    """Score a plan layer by layer; arguments and errors as in ``score_plan``.

    Returns:
        For each phase of each layer on a device: ``time_s`` of computation, ``macs``, ``accesses`` to each memory in words,
        the ``mapping`` that a compute model searches, ``energy`` in joules by component, the ``transfers``, and their seconds
        ``communication_s``. A transfer has its ``level`` from 0, ``collective``, ``time_s``, and the ``bytes`` that all devices
        receive. Joins and pools have transfers alone; on a heterogeneous machine each row names its ``group``.

    Examples:
        >>> import hypar
        >>> rows = score_layers(hypar.plan_model("lenet-c", levels=1, hardware="hmc"))
        >>> sum(each["bytes"] for row in rows if row["phase"] == "gradient" for each in row["transfers"])
        204000.0
    """
    ran = run_plan(plan, hardware=hardware, model=model, changes=changes, convention=convention)
    return StepRows(ran).phases
