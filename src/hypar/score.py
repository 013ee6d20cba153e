"""What a machine makes of a plan: the time, energy, bytes and memory of one training step."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hypar.hardware import fullest_share
from hypar.ops.base import PHASES
from hypar.schedule.setting import OPTIMIZERS, Setting, degrees
from hypar.schedule.step import COMPUTE, Step, lower
from hypar.timeline import Timeline, run
from hypar.units import exact_number
from hypar.words import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.graph import ContractedGraph
    from hypar.hardware import LayerTime
    from hypar.ops.base import Einsum
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
        communication: bytes at each level.
        memory: bytes of weights, gradients, optimizer state, activations kept, and transfer buffers.
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
    step = lower(graph, choices, setting)
    received = math.fsum(_received(step, setting).values())
    energy = _energy(step, setting, received)
    return Totals(
        time_s=run(step.tasks).makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(received),
        memory_bytes=exact_number(math.fsum(_memory(graph, choices, setting, step).values())),
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
    step = lower(graph, choices, setting)
    return summarise(graph, choices, setting, step, run(step.tasks))


def summarise(
    graph: ContractedGraph, choices: Sequence[Options], setting: Setting, step: Step, timeline: Timeline
) -> Score:
    """All of a score, from a step that was run."""
    machine = setting.machine
    spent = timeline.by_kind
    time = {kind: spent.get(kind, 0.0) for kind in KINDS}
    communication = _received(step, setting)
    received = math.fsum(communication.values())
    memory = _memory(graph, choices, setting, step)
    energy = _energy(step, setting, received)
    held, capacity = math.fsum(memory.values()), machine.memory_bytes
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        optimizer=setting.optimizer,
        element_bytes=setting.element_bytes,
        word_bytes=exact_number(machine.content.device.word.value),
        time_s=timeline.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(received),
        memory_bytes=exact_number(held),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=machine.fits(held),
        time=time,
        overlapped_s=max(0.0, math.fsum(time.values()) - timeline.makespan) if machine.overlap else 0.0,
        critical=_critical(timeline),
        busy={COMPUTE: 0.0, **timeline.busy},
        energy=energy,
        communication={level: exact_number(amount) for level, amount in communication.items()},
        memory={item: exact_number(amount) for item, amount in memory.items()},
    )


def _received(step: Step, setting: Setting) -> dict[str, float]:
    """Bytes that all devices receive at each level."""
    found: dict[str, list[float]] = {f"H{level + 1}": [] for level in range(len(setting.array))}
    for move in step.moves:
        if move is not None:
            found[f"H{move.level + 1}"].append(move.total_bytes)
    return {level: math.fsum(amounts) for level, amounts in found.items()}


def _critical(timeline: Timeline) -> dict[str, float]:
    """Seconds of each kind of task on the critical path."""
    found = dict.fromkeys(KINDS, 0.0)
    for index in timeline.critical_path:
        task = timeline.tasks[index]
        found[task.kind] += task.seconds
    return found


def _energy(step: Step, setting: Setting, received: float) -> dict[str, float] | None:
    """Joules of all devices: operations and accesses times what one takes."""
    costs = setting.machine.content.device.energy
    if costs is None:
        return None
    operation = costs.multiply.value + costs.add.value
    each = {
        "registers": costs.register_access.value if costs.register_access else 0.0,
        "array": costs.array.value if costs.array else 0.0,
        "buffer": costs.buffer.value,
        "memory": costs.memory.value,
    }
    words = setting.element_bytes / setting.machine.content.device.word.value
    found = {"arithmetic": 0.0, **dict.fromkeys(each, 0.0)}
    for time, devices in zip(step.times, step.working, strict=True):
        if time is not None:
            macs, accesses = _counted(time)
            found["arithmetic"] += devices * (macs + time.words["weight"]) * operation
            for place, joules in each.items():
                found[place] += devices * words * accesses[place] * joules
            updated = setting.update_accesses * time.words["weight"]
            found["memory"] += devices * words * updated * costs.memory.value
    moved = received / setting.machine.content.device.word.value
    per_word = setting.machine.content.assumptions.accesses_per_word_moved.value
    found["communication"] = moved * per_word * costs.memory.value
    return found


def _counted(time: LayerTime) -> tuple[float, dict[str, float]]:
    """Multiply-accumulates and accesses of the three phases on one device."""
    work = time.work.values()
    places = next(iter(work)).accesses
    return 3 * time.macs, {place: math.fsum(done.accesses[place] for done in work) for place in places}


def _memory(
    graph: ContractedGraph, choices: Sequence[Options], setting: Setting, step: Step
) -> dict[str, float]:
    """Bytes on each device when the forward phase ends, and the largest transfer."""
    size = setting.element_bytes
    weights = size * math.fsum(time.fullest["weight"] for time in step.times if time is not None)
    buffers = (
        move.part_bytes / math.prod(setting.array[move.level + 1 :])
        for move in step.moves
        if move is not None
    )
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[setting.optimizer],
        "activations": size * _kept(graph, choices),
        "buffers": max(buffers, default=0.0),
    }


def _kept(graph: ContractedGraph, choices: Sequence[Options]) -> float:
    """Elements kept on the fullest device for the backward phase.

    What weighted layers read, and outputs that a pool reduces. A tensor that several layers read in the same
    shards is kept once.
    """
    kept: dict[object, float] = {}
    read = set()
    for tensor in graph.tensors:
        read.add(tensor.producer)
        layer, pieces = graph.layers[tensor.consumer], degrees(choices[tensor.consumer])
        if not layer.join:
            key = (tensor.producer, tensor.elements, _shards(layer.einsum, pieces))
            kept[key] = tensor.elements * fullest_share(layer.einsum, pieces, "input")
    fed = {tensor.consumer for tensor in graph.tensors}
    for index, layer in enumerate(graph.layers):
        pieces, made = degrees(choices[index]), layer.einsum.elements("output")
        if index not in fed:
            kept["input", index] = layer.einsum.input_elements * fullest_share(layer.einsum, pieces, "input")
        if (made != layer.output_elements and not layer.join) or index not in read:
            kept["output", index] = made * fullest_share(layer.einsum, pieces, "output")
    return math.fsum(kept.values())


@lru_cache(maxsize=16384)
def _shards(einsum: Einsum, pieces: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Into how many pieces each dim of F_in is divided."""
    counts = zip(CUTTABLE, pieces, strict=True)
    return tuple((einsum.input[dim], count) for dim, count in counts if dim in einsum.input and count > 1)
