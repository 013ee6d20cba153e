"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.training import OPTIMIZERS
from hypar.schedule.lifetimes import course_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.lanes import Lane
    from hypar.schedule.step import Step, Transfers


def memory_of(lane: Lane, step: Step | Transfers, number: int) -> dict[str, float]:
    """Return the bytes on each device of a lane at the fullest moment of a step, with room for the largest transfer.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step, or its transfers.
        number: index of the lane in the step.
    """
    setting, size = lane.setting, lane.setting.element_bytes
    times = step.work[number].times
    weights = size * math.fsum([time.fullest["weight"] for time in times if time is not None])
    buffers = [
        move.subgroup_bytes / move.subgroup_devices
        for move, lanes in zip(step.moves, step.lanes, strict=True)
        if move is not None and number in lanes
    ]
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
        "buffers": max(buffers, default=0.0),
    }


def holds(lanes: Sequence[Lane], step: Step | Transfers) -> bool:
    """Return whether the step fits the memory of every lane's devices."""
    held = (math.fsum(memory_of(lane, step, number).values()) for number, lane in enumerate(lanes))
    return all(lane.setting.machine.fits(own) for lane, own in zip(lanes, held, strict=True))


def held_at_most(graph: ContractedGraph, setting: Setting, largest: float) -> float:
    """Return a bound of the bytes that a device holds, whatever the choices: every tensor whole, at once.

    Of each tensor there are an activation and two errors at most, one that is being added to the other.

    Args:
        graph: the layers of a lane.
        setting: its setting.
        largest: the elements of the largest tensor that is moved. A transfer brings a device at most the shards that it lacks
            of it, the terms and the sum of its own, and rows on two sides: less than four times as many.
    """
    weights = sum(layer.einsum.elements("weight") for layer in graph.layers)
    ops = [op for layer in graph.layers for op in (*layer.ahead, *layer.trail)]
    inputs = sum(layer.einsum.input_elements for layer in graph.layers)
    tensors = sum(op.elements for op in ops) + sum(tensor.elements for tensor in graph.tensors) + inputs
    more = sum(op.more_elements + op.statistics for op in ops)
    elements = (2 + OPTIMIZERS[setting.optimizer]) * weights + 3 * tensors + more + 4 * largest
    return setting.element_bytes * elements + sum(op.more_bytes for op in ops)
