"""The time, bytes, energy and memory of each layer and of each level of a step that was run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.network.training import OPTIMIZERS
from hypar.schedule.energy import energy_items, moved_energy, moved_items
from hypar.schedule.memory import course_on
from hypar.schedule.moves import BETWEEN_STAGES
from hypar.schedule.totals import level_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.replay import ScoredStep
    from hypar.studies.report.tasks import StepTask


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerUse:
    """The part of one layer in a step.

    Attributes:
        layer: its name.
        num_bytes: bytes that all devices receive for it, those from other stages excepted.
        computing_s: seconds of computation on the critical path.
        receiving_s: seconds of receiving, likewise.
        energy_j: joules on all devices, without power at rest and transfers between stages; None if the machine's file gives no energies.
        weight_bytes: bytes of its weights, gradients and optimizer state on a device of the fullest group, or of its stage.
        kept_bytes: bytes kept there for its backward phase; None with stages, where microbatches in flight share them.
    """

    layer: str
    num_bytes: float
    computing_s: float
    receiving_s: float
    energy_j: float | None
    weight_bytes: float
    kept_bytes: float | None

    @property
    def seconds(self) -> float:
        """Return the sum of computation and receiving."""
        return self.computing_s + self.receiving_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelUse:
    """The part of one level in a step.

    Attributes:
        level: its name, as ``H1``, or ``stages``.
        num_bytes: bytes that all devices receive there.
        receiving_s: seconds of receiving on the critical path.
        energy_j: joules of these transfers; None if the machine's file gives no energies.
    """

    level: str
    num_bytes: float
    receiving_s: float
    energy_j: float | None


def layer_uses(ran: ScoredStep, tasks: Sequence[StepTask]) -> tuple[LayerUse, ...]:
    """Return the part of each layer in a step, in topological order."""
    names = ran.plan.layers
    received = dict.fromkeys(names, 0.0)
    energy = dict.fromkeys(names, 0.0)
    for layer, num_bytes in _received(ran):
        received[names[layer]] += num_bytes
    for number, lane in enumerate(ran.lanes):
        for layer, _, joules in energy_items(lane, ran.step, number):
            energy[names[layer]] += joules
        for moved in moved_items(lane, ran.step, number):
            if moved.move.level != BETWEEN_STAGES:
                energy[names[moved.layer]] += moved_energy(lane, moved)
    spent = _seconds(names, tasks)
    memory = {name: [0.0, 0.0] for name in names}
    for number in range(len(ran.lanes)) if ran.stages is not None else (fullest_lane(ran),):
        for name, own, kept in _memory(ran, number):
            memory[name][0] += own
            memory[name][1] += kept
    return tuple(
        LayerUse(
            layer=name,
            num_bytes=received[name],
            computing_s=spent[name][0],
            receiving_s=spent[name][1],
            energy_j=None if ran.score.energy is None else energy[name],
            weight_bytes=memory[name][0],
            kept_bytes=None if ran.stages is not None else memory[name][1],
        )
        for name in names
    )


def level_uses(ran: ScoredStep, tasks: Sequence[StepTask]) -> tuple[LevelUse, ...]:
    """Return the part of each level in a step, the stages first, then from the outermost level inwards."""
    seconds: dict[str, list[float]] = {}
    for task in tasks:
        if task.critical and task.level is not None:
            seconds.setdefault(level_name(task.level), []).append(task.seconds)
    joules = _joules(ran)
    return tuple(
        LevelUse(
            level=level,
            num_bytes=num_bytes,
            receiving_s=math.fsum(seconds.get(level, ())),
            energy_j=None if joules is None else joules[level],
        )
        for level, num_bytes in ran.score.communication.items()
    )


def fullest_lane(ran: ScoredStep) -> int:
    """Return the index of the group whose memory the score names."""
    groups = ran.score.groups or ()
    held = [group.memory_bytes for group in groups]
    return held.index(ran.score.memory_bytes) if ran.score.memory_bytes in held else 0


def _received(ran: ScoredStep) -> Iterator[tuple[int, float]]:
    """Yield the layer and the bytes of every transfer, those between stages excepted."""
    for layer, move in zip(ran.step.layers, ran.step.moves, strict=True):
        if move is not None and move.level != BETWEEN_STAGES:
            yield layer, move.total_bytes


def _joules(ran: ScoredStep) -> dict[str, float] | None:
    """Return the joules of the transfers of each level; None if the machine's file gives no energies."""
    if ran.score.energy is None:
        return None
    found = dict.fromkeys(ran.score.communication, 0.0)
    for number, lane in enumerate(ran.lanes):
        for moved in moved_items(lane, ran.step, number):
            found[level_name(moved.move.level)] += moved_energy(lane, moved)
    return found


def _seconds(names: Sequence[str], tasks: Sequence[StepTask]) -> dict[str, list[float]]:
    """Return the seconds of computation and of receiving on the critical path by layer."""
    found = {name: [0.0, 0.0] for name in names}
    for task in tasks:
        if task.critical:
            found[task.layer][task.kind == "communication"] += task.seconds
    return found


def _memory(ran: ScoredStep, number: int) -> Iterator[tuple[str, float, float]]:
    """Yield layers with bytes of their weights, gradients and optimizer state, or of a tensor that is kept."""
    lane = ran.lanes[number]
    each = lane.setting.element_bytes * (2 + OPTIMIZERS[lane.setting.optimizer])
    for name, time in zip(ran.plan.layers, ran.step.work[number].times, strict=True):
        if time is not None:
            yield name, each * time.fullest["weight"], 0.0
    for kept in course_on(lane).kept:
        yield lane.graph.layers[kept.layer].name, 0.0, kept.num_bytes
