"""Totals over the tasks of a step: communication and memory; ``schedule/energy.py`` has the energy."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import fullest_share
from hypar.machine.setting import degrees
from hypar.network.training import OPTIMIZERS
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

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
