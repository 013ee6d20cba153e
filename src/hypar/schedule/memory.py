"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.machine.machine import fullest_share
from hypar.machine.setting import degrees
from hypar.network.training import OPTIMIZERS
from hypar.schedule.lifetimes import course_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.lanes import Lane
    from hypar.schedule.step import Step, Transfers

BROUGHT = 4
"""The most that a transfer brings a device, in whole tensors: the shards that it lacks, terms, its sum, rows on two sides."""


def memory_of(lane: Lane, step: Step | Transfers, number: int) -> dict[str, float]:
    """Return the bytes on each device of a lane at the fullest moment of a step, with room for the largest transfer.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step, or its transfers.
        number: index of the lane in the step.
    """
    times = step.work[number].times
    buffers = [
        move.subgroup_bytes / move.subgroup_devices
        for move, lanes in zip(step.moves, step.lanes, strict=True)
        if move is not None and number in lanes
    ]
    weights = math.fsum([time.fullest["weight"] for time in times if time is not None])
    return _held(lane, weights, max(buffers, default=0.0))


def _held(lane: Lane, elements: float, buffers: float) -> dict[str, float]:
    """Return the bytes on each device of a lane at the fullest moment of a step, given its weights and its largest transfer."""
    setting, size = lane.setting, lane.setting.element_bytes
    weights = size * elements
    courses = [
        course_of(part.graph, part.choices, size, part.place.outside) for part in lane.place.parts or (lane,)
    ]
    moments = lane.place.moments or ((lane.place.in_flight,),)
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[setting.optimizer],
        "activations": max(
            math.fsum(count * course.activations for count, course in zip(moment, courses, strict=True))
            for moment in moments
        ),
        "errors": max(max(0.0, course.peak - course.activations) for course in courses),
        "buffers": buffers,
    }


def holds(lanes: Sequence[Lane], step: Step | Transfers) -> bool:
    """Return whether the step fits the memory of every lane's devices."""
    held = (math.fsum(memory_of(lane, step, number).values()) for number, lane in enumerate(lanes))
    return all(lane.setting.machine.fits(own) for lane, own in zip(lanes, held, strict=True))


def held_besides(lane: Lane, largest: float) -> float:
    """Return a bound of the bytes that a device of a lane holds, whatever it is brought: its transfers are not counted.

    Args:
        lane: the lane.
        largest: the elements of the largest tensor that is moved.
    """
    brought = BROUGHT * largest * lane.setting.element_bytes
    return math.fsum(_held(lane, _weights(lane), brought).values())


def _weights(lane: Lane) -> float:
    """Return the elements of weights on the fullest device of a lane, whose computation is not timed for it."""
    return math.fsum(
        layer.einsum.elements("weight")
        * fullest_share(layer.einsum, degrees(choices, layer.einsum.counted), "weight")
        for layer, choices in zip(lane.graph.layers, lane.choices, strict=True)
        if layer.timed and not layer.empty
    )


def held_at_most(graph: ContractedGraph, setting: Setting, largest: float) -> float:
    """Return a bound of the bytes that a device holds, whatever the choices: every tensor whole, at once.

    Of each tensor there are an activation and two errors at most, one that is being added to the other.

    Args:
        graph: the layers of a lane.
        setting: its setting.
        largest: the elements of the largest tensor that is moved.
    """
    weights = sum(layer.einsum.elements("weight") for layer in graph.layers)
    ops = [op for layer in graph.layers for op in (*layer.ahead, *layer.trail)]
    inputs = sum(layer.einsum.input_elements for layer in graph.layers)
    tensors = sum(op.elements for op in ops) + sum(tensor.elements for tensor in graph.tensors) + inputs
    more = sum(op.more_elements + op.statistics for op in ops)
    elements = (2 + OPTIMIZERS[setting.optimizer]) * weights + 3 * tensors + more + BROUGHT * largest
    return setting.element_bytes * elements + sum(op.more_bytes for op in ops)
