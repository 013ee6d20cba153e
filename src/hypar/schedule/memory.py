"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import numpy as np

from hypar.machine.work import fullest_share
from hypar.network.nodes import PlanGraph, kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.schedule.divisions import Divided, placed
from hypar.schedule.lifetimes import Span, course_by, of_stage
from hypar.schedule.liveness import larger, largest, on_device
from hypar.schedule.pieces import BETWEEN_STAGES, PHASE, excess
from hypar.schedule.shards import missing
from hypar.sharding.collectives import SUMMED
from hypar.sharding.conventions import FUSED
from hypar.sharding.placement import degrees

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.network.nodes import Tensor
    from hypar.ops.nest import Nest
    from hypar.schedule.lanes import Ends, Lane, Share
    from hypar.schedule.lifetimes import Course
    from hypar.schedule.pieces import Piece
    from hypar.schedule.shards import Amount, Shards
    from hypar.schedule.step import Step
    from hypar.sharding.placement import Options


def memory_of(lane: Lane, pieces: Iterable[Piece], number: int) -> dict[str, float]:
    """Return the bytes on each device of a lane at the fullest moment of a step, with room for the largest transfer.

    Args:
        lane: the devices and their work for a microbatch.
        pieces: the pieces of a step.
        number: the number of the lane among its device groups.
    """
    parts = lane.place.parts or (lane,)
    run = all(part.executed is part for part in parts)
    buffers = [
        piece.device_bytes[piece.groups.index(number)]
        for piece in pieces
        if piece.collective and number in piece.groups
        if piece.phase == PHASE or (run and piece.level != BETWEEN_STAGES)
    ]
    return _held(lane, max([0.0, *buffers, *map(_received, parts)]))


def _held(lane: Lane, brought: float) -> dict[str, float]:
    """Return the bytes on the fullest device of a lane at the fullest moment of a step.

    Args:
        lane: the lane.
        brought: the bytes of the largest transfer that does not come from other stages.
    """
    setting = lane.setting
    course, elements = _fullest(lane)
    weights = setting.element_bytes * elements
    waiting, most = map(float, course.held(lane.place.moments))
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[setting.optimizer],
        "activations": waiting,
        "errors": max(0.0, most - waiting),
        "buffers": max(brought, course.entering),
    }


def _fullest(lane: Lane) -> tuple[Course, float]:
    """Return the activations and errors on the fullest device of a lane, and the elements of its weights."""
    weights, course = _course(lane, _weights(lane.place.parts or (lane,)))
    each = lane.setting.element_bytes * (2 + OPTIMIZERS[lane.setting.optimizer])
    device = int(np.argmax(each * weights + larger(*course.held(lane.place.moments))))
    return course.on(device), on_device(weights, device)


def _weights(parts: Sequence[Lane]) -> Amount:
    """Return the elements of all weights of some lanes of the same devices."""
    found: list[Amount] = []
    for lane in (part.executed for part in parts):
        ties = {} if lane.ends else {tie.consumer: tie.producer for tie in lane.graph.ties}
        held: list[Shards] = []
        for layer, chosen in zip(lane.graph.layers, lane.choices, strict=True):
            shards, share = placed(layer.nest, chosen, (), lane.setting.array, "weight")
            if len(held) in ties:
                # Of a weight that several layers use a device has each element once, but below uneven splits.
                share = missing(shards, held[ties[len(held)]])
            held.append(shards)
            if layer.timed and not layer.empty:
                elements = layer.nest.elements("weight") * share
                found.append(elements if isinstance(elements, float) else np.round(elements))
    return sum(found, 0.0)


def course_on(lane: Lane) -> Course:
    """Return the activations and errors on the fullest device of a lane over a step, as a run holds them."""
    return _fullest(lane)[0]


def _course(lane: Lane, weights: Amount) -> tuple[Amount, Course]:
    """Return the weights on the devices of each kind of a lane, and their activations and errors."""
    own = lane.executed
    graph, outside, ends, setting = own.graph, own.place.outside, own.ends, own.setting
    parts: tuple[Span, ...] = ()
    if own.place.parts:
        graph, outside, ends, parts = _in_parts([part.executed for part in own.place.parts])
    idle = _idle(graph, ends)
    fused, size = setting.convention == FUSED, setting.element_bytes
    divided = Divided(graph, own.choices, size, outside, ends, setting.array, idle, fused=fused)
    weights = divided.of_kinds(weights)
    course = course_by(divided.nodes, divided, parts, idle)
    lacking = float(np.max(largest(divided.lacking)))
    return weights, course._replace(entering=max(course.entering, lacking))


def _in_parts(
    lanes: Sequence[Lane],
) -> tuple[PlanGraph, tuple[Tensor, ...], tuple[tuple[Share, ...], ...], tuple[Span, ...]]:
    """Return the layers of the parts of a stage as one graph, the tensors that it shares with other stages, the shares, and the parts.

    A tensor between two parts is one of the graph, as the later part reads it.
    """
    graphs = [lane.graph for lane in lanes]
    layers = tuple(layer for graph in graphs for layer in graph.layers)
    firsts = accumulate((len(graph.layers) for graph in graphs), initial=0)
    parts = tuple(Span(first, lane.place.first) for lane, first in zip(lanes, firsts, strict=False))
    own = {
        part.first + layer: part.layer + layer
        for part, graph in zip(parts, graphs, strict=True)
        for layer in range(len(graph.layers))
    }
    tensors = [
        replace(tensor, producer=first + tensor.producer, consumer=first + tensor.consumer)
        for lane, graph in zip(lanes, graphs, strict=True)
        for first in [lane.place.first]
        for tensor in (*graph.tensors, *lane.place.outside)
        if not (tensor.consumer >= len(graph.layers) and first + tensor.consumer in own)
    ]
    shares = tuple(share for lane in lanes for share in lane.ends)
    return *of_stage(layers, own, tensors), shares, parts


@kept_with_graph
def _idle(graph: PlanGraph, ends: Ends) -> frozenset[int]:
    """Return the layers of which uneven splits have left no element."""
    none = [any(start == end for _, (start, end) in own) for own in ends] or repeat(False)
    return frozenset(
        index
        for index, (layer, left) in enumerate(zip(graph.layers, none, strict=False))
        if layer.empty or left
    )


def _received(part: Lane) -> float:
    """Return the bytes that the fullest device receives in a run for the largest transfer but for gradients of several layers.

    A device lacks most where it needs most, or where it has least of what others have most of; it receives no more than the
    tensor as it makes or reads it.
    """
    lane, found = part.executed, [0.0]
    size, layers, choices = lane.setting.element_bytes, lane.graph.layers, lane.choices
    for tensor, pieces in zip(lane.graph.tensors, lane.outer, strict=True):
        if pieces:
            ends = [(layers[end].nest, choices[end]) for end in (tensor.producer, tensor.consumer)]
            made, read = (excess(*end) for end in ends)
            both, shards = made["output"] * read["input"], [math.inf] * 2
            if both > 1:
                named = zip(ends, ("output", tensor.operand), strict=True)
                shards = [size * _largest_shard(*end, name) for end, name in named]
            found += [_on_fullest(piece, both, shards) for piece in pieces]
    found += [piece.device_bytes[0] for pieces in lane.inner for piece in pieces]
    if part.ran is not None:
        number, counted = part.ran
        crossed = (rounds for inside, between in counted()[1] for rounds in (*inside, *between))
        every = (piece for rounds in crossed for pieces in rounds for piece in pieces)
        own = (piece for piece in every if piece.phase != PHASE and number in piece.groups)
        found += [piece.device_bytes[piece.groups.index(number)] for piece in own]
    return max(found)


def _on_fullest(piece: Piece, more: float, shards: Sequence[float]) -> float:
    """Return the bytes of a transfer on the device that receives most.

    Args:
        piece: the transfer, with the bytes that devices receive on average.
        more: how much more the fullest device may have than that.
        shards: the bytes of the fullest device as the tensor is made, and as it is read.
    """
    most = max(shards) if piece.collective in SUMMED else shards[piece.phase == "forward"]
    (average,) = piece.device_bytes
    return min(more * average, max(most, average))


@lru_cache(maxsize=16384)
def _largest_shard(nest: Nest, chosen: Options, tensor: str) -> float:
    """Return the elements of a layer's input or output on the fullest device."""
    elements = nest.input_elements if tensor == "input" else nest.elements(tensor)
    return float(elements * fullest_share(nest, degrees(chosen, nest.counted), tensor))


def holds(lanes: Sequence[Lane], step: Step) -> bool:
    """Return whether the step fits the memory of every lane's devices."""
    held = (math.fsum(memory_of(lane, step.pieces, number).values()) for number, lane in enumerate(lanes))
    return all(lane.setting.machine.fits(own) for lane, own in zip(lanes, held, strict=True))


def held_with(lane: Lane, brought: float = 0.0) -> float:
    """Return the bytes on each device of a lane at the fullest moment of a step; arguments as above."""
    return math.fsum(_held(lane, brought).values())
