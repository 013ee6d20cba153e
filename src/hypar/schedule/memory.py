"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from hypar.machine.work import fullest_share
from hypar.network.nodes import PlanGraph, PlanNode, Tensor, kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.program.fragments import Fragment, following, fragment_of, weight_of
from hypar.program.holding import Holding
from hypar.program.layout import grids
from hypar.schedule.lifetimes import Arrays, Course, Sent, StepOp, ops_of
from hypar.schedule.liveness import larger
from hypar.schedule.pieces import BETWEEN_STAGES, PHASE, Piece, excess
from hypar.sharding.collectives import SUMMED
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import WHOLE, Options, degrees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.ops.nest import Nest
    from hypar.program.steps import Transfer
    from hypar.schedule.lanes import Ends, Lane
    from hypar.schedule.stages import Step


MANY = 2**14
"""Samples of a mini-batch above which those that devices have together count as one."""


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
    parts, setting, found = lane.place.parts or (lane,), lane.setting, []
    weights, courses = _courses(
        parts[0].graph,
        tuple([part.graph for part in parts[1:]]),
        tuple([(part.place.first, part.place.outside) for part in parts]),
        tuple([own for part in parts for own in part.choices]),
        tuple([own for part in parts for own in part.ends]),
        setting.array,
        MOVED if setting.convention == PAPER else setting.convention,
        setting.element_bytes,
    )
    each = setting.element_bytes * (2 + OPTIMIZERS[setting.optimizer])
    for kinds, course in courses:
        total = np.broadcast_to(each * weights[kinds] + larger(*course.held(lane.place.moments)), len(kinds))
        device = int(total.argmax())
        found.append((float(total[device]), course.on(device), float(weights[kinds[device]])))
    _, course, elements = max(found, key=itemgetter(0))
    return course, elements


@kept_with_graph
def _courses(
    graph: PlanGraph,
    others: tuple[PlanGraph, ...],
    places: tuple[tuple[int, tuple[Tensor, ...]], ...],
    choices: tuple[Options, ...],
    above: Ends,
    array: tuple[int, ...],
    convention: str,
    element_bytes: int,
) -> tuple[NDArray[np.float64], list[tuple[NDArray[np.intp], Course]]]:
    """Return the elements of the weights on the devices of each kind, and their activations and errors.

    Args:
        graph: the nodes of the first part of a stage.
        others: those of the further parts.
        places: of each part the index of its first node in the network, and the tensors that it shares with other stages.
        choices: of each node of all parts a choice at each level.
        above: its shares at the uneven splits above; nothing if there are none.
        array: the ways of each level.
        convention: what becomes of partial sums.
        element_bytes: bytes of an element.
    """
    graphs = (graph, *others)
    nodes = tuple(node for own in graphs for node in own.layers)
    ops = _ops(graphs, places, nodes, above)
    *layouts, whole = grids([*choices, (WHOLE,) * len(array)], above, array)
    chosen = dict(zip([node.name for node in nodes], layouts, strict=True))
    gone = [op.layer.name for op in ops for _ in op.sent]
    unit = _samples_alike(nodes, choices, above, array)
    every = [*{op.name: op for node in nodes for op in node.ops}.values()]
    if unit > 1:
        every = [op._replace(nest=op.layer.nest(op.nest.sizes["batch"] // unit)) for op in every]
    fragments = following(every, chosen, whole, convention, sent=gone, make=fragment_of)
    weights = sum(
        [own.elements for each in graphs for own in _weights(each, fragments)], np.zeros(1, np.int64)
    )
    arrays = Arrays(ops, fragments, element_bytes, unit=unit, more=[weights])
    each = (own for one in fragments.values() for own in one.transfers)
    arriving = max([0.0, *(unit * element_bytes * _arriving(own, whole.ways) for own in each)])
    courses = [
        (kinds, course._replace(entering=max(course.entering, arriving)))
        for kinds, course in arrays.courses(len(graphs))
    ]
    return arrays.kinds.of(weights).astype(float), courses


def _ops(
    graphs: Sequence[PlanGraph],
    places: Sequence[tuple[int, tuple[Tensor, ...]]],
    nodes: tuple[PlanNode, ...],
    above: Ends,
) -> tuple[StepOp, ...]:
    """Return the layers of the parts of a stage for which the devices work, in their order; arguments as of ``_courses``."""
    starts = [*accumulate((len(own.layers) for own in graphs), initial=0)][:-1]
    spans = [range(first, first + len(own.layers)) for own, (first, _) in zip(graphs, places, strict=True)]
    sent = tuple(
        Sent(start + own.producer, own.number, first + own.consumer)
        for start, (first, outside) in zip(starts, places, strict=True)
        for own in outside
        if own.producer >= 0 and not any(first + own.consumer in span for span in spans)
    )
    none = [any(start == end for _, (start, end) in own) for own in above] or [False] * len(nodes)
    idle = frozenset(
        at for at, (node, left) in enumerate(zip(nodes, none, strict=True)) if node.empty or left
    )
    return ops_of(nodes, sent, tuple(zip(starts, [first for first, _ in places], strict=True)), idle)


def _samples_alike(
    nodes: Sequence[PlanNode], choices: Sequence[Options], above: Ends, array: Sequence[int]
) -> int:
    """Return of how many samples devices have all or none, so that these count as one, where a mini-batch has very many.

    What is not divided evenly is then rounded to so many samples, a five-hundredth of what a device has at most.
    """
    batch = nodes[0].ops[-1].nest.sizes["batch"]
    levels = zip(array, zip(*choices, strict=True), strict=True)
    parts = math.prod(ways for ways, each in levels if any("batch" in choice.divided for choice in {*each}))
    if batch <= MANY:
        return 1
    if batch % parts or any(dim == "batch" for own in above for dim, _ in own):
        most = max(1, batch // (512 * parts))
        return next(count for count in range(most, 0, -1) if not batch % count)
    return int(batch // parts)


def _weights(graph: PlanGraph, fragments: Mapping[str, Fragment]) -> Iterator[Holding]:
    """Yield who holds what of each weight of some layers that have an element; of one that several use once."""
    users: dict[int, list[int]] = {}
    for tie in graph.ties:
        users.setdefault(tie.producer, []).append(tie.consumer)
    used = {at for own in users.values() for at in own}
    for at, node in enumerate(graph.layers):
        if at not in used and node.weighted:
            names = [graph.layers[one].name for one in (at, *users.get(at, ()))]
            yield weight_of(tuple([fragments[name] for name in names]))


@lru_cache(maxsize=4096)
def _arriving(own: Transfer, ways: tuple[int, ...]) -> float:
    """Return the most elements of a copy that arrive on a device at a level.

    What several devices of a part lack comes to the part once, and to each of them as much of it; the rest they get of each other.
    """
    most, before = 0.0, np.zeros(1)
    for level in range(len(ways) if own.kind == "copy" and own.have.meets(own.need) else 0):
        inner = tuple(range(level + 1, len(ways)))
        there, every = (
            Holding(tuple(np.asarray(dim.any(axis=inner, keepdims=True)) for dim in each.members))
            for each in (own.have, own.need)
        )
        lacks = own.need.elements - own.need.shared(there)
        alike = math.prod(ways[at] for at in inner if lacks.shape[at] == 1)
        distinct = every.elements - every.shared(there)
        now = lacks * (distinct / np.maximum(alike * lacks.sum(axis=inner, keepdims=True), 1))
        most, before = max(most, float((now - before).max())), now
    return most


def course_on(lane: Lane) -> Course:
    """Return the activations and errors on the fullest device of a lane over a step, as a run holds them."""
    return _fullest(lane)[0]


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
