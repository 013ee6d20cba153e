"""Totals over the tasks of a step: communication, energy and memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import fullest_share
from hypar.machine.setting import degrees
from hypar.network.training import OPTIMIZERS
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import LayerTime, Machine
    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph, Tensor
    from hypar.network.ops.base import Einsum
    from hypar.schedule.lanes import Lane
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step, Transfers
    from hypar.sharding.placement import Options


def received_at(step: Step, levels: int) -> dict[str, float]:
    """Sum the bytes that all devices receive at each level."""
    found: dict[str, list[float]] = {f"H{level + 1}": [] for level in range(levels)}
    for move in step.moves:
        if move is not None:
            found[f"H{move.level + 1}"].append(move.total_bytes)
    return {level: math.fsum(amounts) for level, amounts in found.items()}


def repeated(move: Move, microbatches: int) -> int:
    """Return how often a transfer runs in a mini-batch: gradients are added up once."""
    return 1 if move.phase == "gradient" else microbatches


def received_by(lane: Lane, step: Step, number: int, microbatches: int = 1) -> float:
    """Sum the bytes that the devices of a lane receive, with its share of transfers to several lanes."""
    devices = math.prod(lane.setting.array)
    moved = zip(step.moves, step.lanes, strict=True)
    return math.fsum(
        repeated(move, microbatches)
        * move.total_bytes
        * (devices / move.subgroup_devices if len(lanes) > 1 else 1)
        for move, lanes in moved
        if move is not None and number in lanes
    )


def energy_of(lane: Lane, step: Step, number: int, microbatches: int = 1) -> dict[str, float] | None:
    """Sum the joules of all devices of a lane: operations and accesses times the energy of each.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step.
        number: index of the lane in the step.
        microbatches: number of microbatches; updates, and adding up gradients, run once.
    """
    setting = lane.setting
    if setting.machine.content.device.energy is None:
        return None
    found = dict.fromkeys(("arithmetic", *_access_energies(setting)), 0.0)
    for _, place, joules in energy_items(lane, step, number, microbatches):
        found[place] += joules
    found["communication"] = moving_energy(setting.machine, received_by(lane, step, number, microbatches))
    return found


def _access_energies(setting: Setting) -> dict[str, float]:
    """Return the joules of an access to each place; empty if the machine's file gives no energies."""
    costs = setting.machine.content.device.energy
    if costs is None:
        return {}
    return {
        "registers": costs.register_access.value if costs.register_access else 0.0,
        "array": costs.array.value if costs.array else 0.0,
        "buffer": costs.buffer.value,
        "memory": costs.memory.value,
    }


def energy_items(
    lane: Lane, step: Step, number: int, microbatches: int = 1
) -> Iterator[tuple[int, str, float]]:
    """Yield each layer's joules of arithmetic and of accesses, place by place; arguments as in ``energy_of``."""
    setting, work = lane.setting, step.work[number]
    costs, each = setting.machine.content.device.energy, _access_energies(setting)
    if costs is None:
        return
    operation = costs.multiply.value + costs.add.value
    words = setting.element_bytes / setting.machine.content.device.word.value
    for layer, (time, devices) in enumerate(zip(work.times, work.working, strict=True)):
        if time is not None:
            macs, accesses = _counted(time)
            yield layer, "arithmetic", devices * (microbatches * macs + time.words["weight"]) * operation
            for place, joules in each.items():
                yield layer, place, devices * words * microbatches * accesses[place] * joules
            updated = setting.update_accesses * time.words["weight"]
            yield layer, "memory", devices * words * updated * costs.memory.value


def moving_energy(machine: Machine, num_bytes: float) -> float:
    """Return the joules of receiving some bytes; 0 if the machine's file gives no energies."""
    content = machine.content
    words = num_bytes / content.device.word.value
    access = content.device.energy.memory.value if content.device.energy else 0.0
    return words * content.assumptions.accesses_per_word_moved.value * access


def _counted(time: LayerTime) -> tuple[float, dict[str, float]]:
    """Return multiply-accumulates and accesses of the three phases on one device."""
    work = time.work.values()
    places = next(iter(work)).accesses
    return 3 * time.macs, {place: math.fsum(done.accesses[place] for done in work) for place in places}


def memory_of(
    lane: Lane, step: Step | Transfers, number: int, outside: Sequence[Tensor] = ()
) -> dict[str, float]:
    """Return the bytes on each device of a lane when the forward phase ends, and the largest transfer.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step, or its transfers.
        number: index of the lane in the step.
        outside: tensors that the lane's layers read from other stages; their producers' indices are not the lane's.
    """
    setting, size = lane.setting, lane.setting.element_bytes
    times = step.work[number].times
    weights = size * math.fsum(time.fullest["weight"] for time in times if time is not None)
    buffers = (
        move.subgroup_bytes / move.subgroup_devices
        for move, lanes in zip(step.moves, step.lanes, strict=True)
        if move is not None and number in lanes
    )
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[setting.optimizer],
        "activations": size
        * math.fsum(kept.elements for kept in kept_tensors(lane.graph, lane.choices, outside)),
        "buffers": max(buffers, default=0.0),
    }


def holds(lanes: Sequence[Lane], step: Step | Transfers) -> bool:
    """Return whether the step fits the memory of every lane's devices."""
    held = (math.fsum(memory_of(lane, step, number).values()) for number, lane in enumerate(lanes))
    return all(lane.setting.machine.fits(own) for lane, own in zip(lanes, held, strict=True))


def held_at_most(graph: ContractedGraph, setting: Setting, largest: float) -> float:
    """Return a bound of the bytes that a device holds, whatever the choices: every tensor whole.

    Args:
        graph: the layers of a lane.
        setting: its setting.
        largest: the elements of the largest tensor that is moved. A transfer brings a device at most the shards that it lacks
            of it, the terms and the sum of its own, and rows on two sides: less than four times as many.
    """
    weights = sum(layer.einsum.elements("weight") for layer in graph.layers)
    kept = sum(layer.einsum.input_elements + layer.einsum.elements("output") for layer in graph.layers)
    kept += sum(tensor.elements for tensor in graph.tensors)
    return setting.element_bytes * ((2 + OPTIMIZERS[setting.optimizer]) * weights + kept + 4 * largest)


class Kept(NamedTuple):
    """A tensor that a device keeps for the backward phase.

    Attributes:
        layer: the first layer that reads it, or that makes it if no layer does, as its backward phase comes last.
        elements: its elements on the fullest device.
    """

    layer: int
    elements: float


def kept_tensors(
    graph: ContractedGraph, choices: Sequence[Options], outside: Sequence[Tensor] = ()
) -> tuple[Kept, ...]:
    """Return the tensors that the fullest device keeps for the backward phase.

    These are the inputs of weighted layers, and outputs that a pool reduces. A tensor that several layers read in the same
    shards is kept once.
    """
    kept: dict[object, Kept] = {}
    tensors = (*graph.tensors, *outside)
    read, fed = {tensor.producer for tensor in tensors}, {tensor.consumer for tensor in tensors}
    for tensor in tensors:
        index = tensor.consumer
        layer, shards = graph.layers[index], degrees(choices[index])
        if not (layer.join or layer.empty):
            key = (tensor.producer, tensor.elements, _shards(layer.einsum, shards))
            first = min(index, kept[key].layer) if key in kept else index
            kept[key] = Kept(first, tensor.elements * fullest_share(layer.einsum, shards, "input"))
    for index, layer in enumerate(graph.layers):
        shards, made = degrees(choices[index]), layer.einsum.elements("output")
        if layer.empty:
            continue
        if index not in fed:
            own = layer.einsum.input_elements * fullest_share(layer.einsum, shards, "input")
            kept["input", index] = Kept(index, own)
        reduced = not (layer.join or math.isclose(made, layer.output_elements))
        if reduced or index not in read:
            kept["output", index] = Kept(index, made * fullest_share(layer.einsum, shards, "output"))
    return tuple(kept.values())


@lru_cache(maxsize=16384)
def _shards(einsum: Einsum, shards: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    counts = zip(CUTTABLE, shards, strict=True)
    return tuple((einsum.input[dim], count) for dim, count in counts if dim in einsum.input and count > 1)
