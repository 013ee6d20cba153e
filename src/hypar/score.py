"""What a machine makes of a plan: the time, energy, bytes and memory of one training step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hypar.hardware import MixedMachine
from hypar.ops.base import PHASES
from hypar.schedule.lanes import Lane
from hypar.schedule.lowering import COMPUTE
from hypar.schedule.setting import OPTIMIZERS, Setting
from hypar.schedule.step import Step, lower_lanes
from hypar.tally import energy_of, memory_of, received_at
from hypar.timeline import Timeline, run
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.graph import ContractedGraph
    from hypar.hardware import Machine
    from hypar.placement import Options


Amount = Annotated[int | float, Field(ge=0, le=1e200)]
Items = dict[str, Amount]


def _known(name: str) -> str:
    """An optimizer that there is."""
    if name not in OPTIMIZERS:
        raise ValueError(", ".join(OPTIMIZERS))
    return name


KINDS = (*PHASES, "update", "communication")
"""What the tasks of a step are."""


class GroupScore(BaseModel):
    """One training step on one group of like devices of a mixed machine, or on one stage.

    Attributes:
        group: its name.
        devices: how many it has.
        computing_s: seconds that they compute.
        communicating_s: seconds that they receive.
        idle_s: seconds that they do neither, but wait for others or for the end.
        memory_bytes: peak on each of them.
        capacity_bytes: memory of one; None where the file does not say.
        fits: whether the peak is within the capacity.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    group: str
    devices: Annotated[int, Field(ge=1)]
    computing_s: Amount
    communicating_s: Amount
    idle_s: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool


class Score(BaseModel):
    """One training step on a machine.

    Attributes:
        hardware: the machine's name, that of its file without the ending.
        hardware_digest: a hash of all that the machine is, sources excepted.
        hardware_changes: what was changed against the file.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        element_bytes: bytes of an element of the network.
        word_bytes: bytes of the machine's words.
        time_s: how long a step takes.
        energy_j: its energy on all devices; None where the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
        capacity_bytes: memory of a device; None where the file does not say.
        fits: whether the peak is within the capacity.
        time: seconds of each phase's computation, of updates and of communication, as if one after another.
        overlapped_s: by how much these are more than ``time_s``.
        critical: seconds of each on the critical path; they sum to ``time_s``.
        busy: seconds that each resource works.
        energy: joules of arithmetic, of accesses to registers, array, buffer and memory, and of words moved.
        communication: bytes at each level, and under ``stages`` those from stage to stage.
        memory: bytes of weights, gradients, optimizer state, activations kept, and transfer buffers.
        groups: of a mixed machine, what the step is to each group, of stages, to each stage; memory above is that of the
            fullest of them, and ``time`` what is on the critical path. None for like devices without stages.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    hardware: str
    hardware_digest: str
    hardware_changes: dict[str, Any] = {}
    optimizer: Annotated[str, AfterValidator(_known)]
    element_bytes: Annotated[int, Field(ge=1)]
    word_bytes: Amount
    time_s: Amount
    energy_j: Amount | None
    communication_bytes: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool
    time: Items
    overlapped_s: Amount
    critical: Items
    busy: Items
    energy: Items | None
    communication: Items
    memory: Items
    groups: list[GroupScore] | None = None

    def to_data(self) -> dict[str, Any]:
        """The score as plain data, without groups where there are none."""
        data = self.model_dump(mode="json")
        return data if self.groups is not None else {key: data[key] for key in data if key != "groups"}


class Totals(NamedTuple):
    """A score without its items.

    Attributes:
        time_s: how long a step takes.
        energy_j: its energy on all devices; None where the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
    """

    time_s: float
    energy_j: float | None
    communication_bytes: float
    memory_bytes: float


def totals(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> Totals:
    """As ``score_step``, the four totals only, for many plans."""
    lane = Lane(graph, choices, setting)
    step = lower_lanes([lane])
    energy = energy_of(lane, step, 0)
    return Totals(
        time_s=run(step.tasks).makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(math.fsum(received_at(step, len(setting.array)).values())),
        memory_bytes=exact_number(math.fsum(memory_of(lane, step, 0).values())),
    )


def totals_of(score: Score | None) -> Totals:
    """The totals of the score of a plan that was made for a machine."""
    assert score is not None  # noqa: S101 (a machine was named, so there is one)
    return Totals(score.time_s, score.energy_j, score.communication_bytes, score.memory_bytes)


def score_step(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> Score:
    """Lower a plan's choices to tasks, run them, and add up.

    Args:
        graph: the layers that are cut.
        choices: for each layer a choice at each level; empty tuples on one device.
        setting: machine, array, element size, optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    lanes = [Lane(graph, choices, setting)]
    step = lower_lanes(lanes)
    return summarise(lanes, step, run(step.tasks), setting.machine)


def summarise(
    lanes: Sequence[Lane], step: Step, timeline: Timeline, machine: Machine | MixedMachine
) -> Score:
    """All of a score, from a step that was run.

    Args:
        lanes: the groups of like devices that ran it.
        step: its tasks.
        timeline: when each ran.
        machine: what the lanes are groups of, or the one's own.
    """
    setting, spent = lanes[0].setting, timeline.by_kind
    levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
    communication = received_at(step, levels)
    received = math.fsum(communication.values())
    memories = [memory_of(lane, step, number) for number, lane in enumerate(lanes)]
    held = [math.fsum(memory.values()) for memory in memories]
    machines = [lane.setting.machine for lane in lanes]
    parts = [own / (each.memory_bytes or math.inf) for own, each in zip(held, machines, strict=True)]
    fullest = parts.index(max(parts))
    capacity = machines[fullest].memory_bytes
    # One lane's items are its own; of several, what is on the critical path is what sums to the time.
    critical = _critical(timeline)
    time = {kind: spent.get(kind, 0.0) for kind in KINDS} if len(lanes) == 1 else critical
    energy = _together([energy_of(lane, step, number) for number, lane in enumerate(lanes)])
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        optimizer=setting.optimizer,
        element_bytes=setting.element_bytes,
        word_bytes=exact_number(setting.machine.content.device.word.value),
        time_s=timeline.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(received),
        memory_bytes=exact_number(held[fullest]),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=all(each.fits(own) for each, own in zip(machines, held, strict=True)),
        time=time,
        overlapped_s=_overlapped(lanes, time, timeline),
        critical=critical,
        busy=_busy(lanes, timeline),
        energy=energy,
        communication={level: exact_number(amount) for level, amount in communication.items()},
        memory={item: exact_number(amount) for item, amount in memories[fullest].items()},
        groups=_groups(lanes, step, timeline, held) if isinstance(machine, MixedMachine) else None,
    )


def _groups(lanes: Sequence[Lane], step: Step, timeline: Timeline, held: Sequence[float]) -> list[GroupScore]:
    """What a step is to each group of like devices."""
    spans: list[list[tuple[float, float, bool]]] = [[] for _ in lanes]
    for start, end, move, kept in zip(timeline.starts, timeline.ends, step.moves, step.lanes, strict=True):
        for number in kept:
            spans[number].append((start, end, move is None))
    found = []
    for lane, own, num_bytes in zip(lanes, spans, held, strict=True):
        capacity = lane.setting.machine.memory_bytes
        found.append(
            GroupScore(
                group=lane.name,
                devices=math.prod(lane.setting.array),
                computing_s=math.fsum(end - start for start, end, computes in own if computes),
                communicating_s=math.fsum(end - start for start, end, computes in own if not computes),
                idle_s=max(0.0, timeline.makespan - _covered(own)),
                memory_bytes=exact_number(num_bytes),
                capacity_bytes=None if capacity is None else exact_number(capacity),
                fits=lane.setting.machine.fits(num_bytes),
            )
        )
    return found


def _covered(spans: Sequence[tuple[float, float, bool]]) -> float:
    """Seconds that some spans cover together."""
    total, until = [], 0.0
    for start, end, _ in sorted(spans):
        total.append(max(0.0, end - max(start, until)))
        until = max(until, end)
    return math.fsum(total)


def _together(energies: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    """The joules of all lanes; None where one's are not known."""
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(energies):
        return None
    places = dict.fromkeys(place for energy in known for place in energy)
    return {place: math.fsum(energy.get(place, 0.0) for energy in known) for place in places}


def _overlapped(lanes: Sequence[Lane], time: dict[str, float], timeline: Timeline) -> float:
    """By how much the work of one lane is longer than the step; of several lanes nothing is said."""
    overlap = len(lanes) == 1 and lanes[0].setting.machine.overlap
    return max(0.0, math.fsum(time.values()) - timeline.makespan) if overlap else 0.0


def _busy(lanes: Sequence[Lane], timeline: Timeline) -> dict[str, float]:
    """Seconds that each resource works; devices come first, though they may have nothing to do."""
    devices = {f"{lane.name} {COMPUTE}".lstrip(): 0.0 for lane in lanes}
    return {**devices, **timeline.busy}


def _critical(timeline: Timeline) -> dict[str, float]:
    """Seconds of each kind of task on the critical path."""
    found = dict.fromkeys(KINDS, 0.0)
    for index in timeline.critical_path:
        task = timeline.tasks[index]
        found[task.kind] += task.seconds
    return found
