"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.machine.machine import fullest_share
from hypar.machine.setting import degrees
from hypar.network.contraction import kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.schedule.lifetimes import course_of
from hypar.schedule.moves import BETWEEN_STAGES, PHASE, excess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.lanes import Lane
    from hypar.schedule.lifetimes import Course
    from hypar.schedule.moves import Move
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
    parts = lane.place.parts or (lane,)
    all_run, above_run = lane.executed is lane, all(part.run is None for part in parts)
    buffers = [
        _brought(move, lanes.index(number))
        for move, lanes in zip(step.moves, step.lanes, strict=True)
        if move is not None and number in lanes and move.level != BETWEEN_STAGES
        if all_run or move.phase == PHASE or (above_run and move.level < lane.depth)
    ]
    buffers += [part.run.brought for part in parts if part.run is not None]
    weights = [own for part in parts for own in (_timed(part) if part.shares is None else _weights(part))]
    return _held(lane, math.fsum(weights), max([*buffers, *(_received(part.executed) for part in parts)]))


def _brought(move: Move, at: int) -> float:
    """Return the bytes of a transfer on the fullest device of one of its lanes."""
    return move.device_bytes * move.fuller[at] if move.fuller else move.device_bytes


def _held(lane: Lane, elements: float, brought: float) -> dict[str, float]:
    """Return the bytes on each device of a lane at the fullest moment of a step.

    Args:
        lane: the lane.
        elements: its weights.
        brought: the bytes of the largest transfer that does not come from other stages.
    """
    setting, parts = lane.setting, lane.place.parts or (lane,)
    weights = setting.element_bytes * elements
    courses = [_course(part) for part in parts]
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
        "buffers": max([brought, *(course.entering for course in courses)]),
    }


def _timed(lane: Lane) -> Iterator[float]:
    """Yield the elements of each layer's weight on the fullest device, as its computation is timed."""
    times = zip(lane.work.times, lane.own_weights, strict=True)
    return (own * time.fullest["weight"] for time, own in times if time is not None)


def _weights(lane: Lane) -> Iterator[float]:
    """Yield the same of a lane whose computation is not timed, or is timed by shares that are not of whole elements."""
    whole = lane.graph if lane.shares is None else lane.shares.graph
    layers = zip(lane.graph.layers, whole.layers, lane.choices, lane.own_weights, strict=True)
    for layer, held, chosen, own in layers:
        if layer.timed and not layer.empty:
            einsum = held.einsum
            share = fullest_share(einsum, degrees(chosen, einsum.counted), "weight")
            yield own * einsum.elements("weight") * share


def _course(lane: Lane) -> Course:
    """Return the activations and errors on a device of a lane; shares of uneven splits are of whole elements."""
    graph, ends = (lane.graph, ()) if lane.shares is None else lane.shares
    size, outside = lane.setting.element_bytes, lane.place.outside
    return course_of(graph, lane.choices, size, outside, above=ends, idle=_idle(lane.graph))


@kept_with_graph
def _idle(graph: ContractedGraph) -> frozenset[int]:
    """Return the layers of which uneven splits have left nothing."""
    return frozenset(index for index, layer in enumerate(graph.layers) if layer.empty)


def _received(lane: Lane) -> float:
    """Return the bytes that the fullest device receives for the largest transfer between two layers, or inside one.

    A device lacks most where it needs most, or where it has least of what others have most of.
    """
    layers, choices = lane.graph.layers, lane.choices
    whole = layers if lane.shares is None else lane.shares.graph.layers
    found = [0.0]
    for tensor, moves in zip(lane.graph.tensors, lane.outer, strict=True):
        if moves:
            made, read = (
                excess(layers[end].einsum, whole[end].einsum, choices[end])
                for end in (tensor.producer, tensor.consumer)
            )
            both = made["output"] * read["input"]
            found += [both * move.device_bytes for move in moves]
    found += [move.device_bytes for moves in lane.inner for move in moves]
    return max(found)


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
    return math.fsum(_held(lane, math.fsum(_weights(lane)), brought).values())


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
