"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.nodes import PlanGraph, PlanNode, Tensor, kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.program.fragments import Fragment, following, fragment_of, gradient_of
from hypar.program.layout import grids
from hypar.schedule.buffers import arriving, largest, largest_together, shared
from hypar.schedule.lifetimes import Arrays, Course, Sent, StepOp, ops_of
from hypar.schedule.liveness import larger
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import WHOLE, Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.program.steps import Transfer
    from hypar.schedule.buffers import Amount
    from hypar.schedule.lanes import Ends, Lane
    from hypar.schedule.record import Buckets


MANY = 2**14
"""Samples of a mini-batch above which those that devices have together count as one."""


class Held(NamedTuple):
    """What the devices of a lane hold over a step.

    Attributes:
        weights: the elements of weights on the devices of each kind, ``[kinds]``.
        courses: the kinds of devices whose arrays lie in the same buffers, with their activations and errors.
        gradients: for each layer with a weight, by its index in the network, the bytes of its gradient that arrive at each level.
        most: the most bytes that arrive of the gradient of one layer.
    """

    weights: NDArray[np.float64]
    courses: Sequence[tuple[NDArray[np.intp], Course]]
    gradients: Mapping[int, Sequence[Amount]]
    most: float


def memory_of(lane: Lane, buckets: Buckets = ()) -> dict[str, float]:
    """Return the bytes on the fullest device of a lane at the fullest moment of a step, with room for the largest transfer.

    Args:
        lane: the devices and their work for a microbatch.
        buckets: the layers that exchange their gradients together, by their index in the network; without any each does alone.
    """
    (course, elements), held = _fullest(lane), _held(lane)
    weights = lane.setting.element_bytes * elements
    waiting, most = map(float, course.held(lane.place.moments))
    together = [largest_together([held.gradients.get(at, ()) for at in bucket]) for bucket in buckets]
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[lane.setting.optimizer],
        "activations": waiting,
        "errors": max(0.0, most - waiting),
        "buffers": max([course.entering, *(together or [held.most])]),
    }


def course_on(lane: Lane) -> Course:
    """Return the activations and errors on the fullest device of a lane over a step, as a run holds them."""
    return _fullest(lane)[0]


def _fullest(lane: Lane) -> tuple[Course, float]:
    """Return the activations and errors on the fullest device of a lane, and the elements of its weights."""
    size, held, found = lane.setting.element_bytes, _held(lane), []
    each = size * (2 + OPTIMIZERS[lane.setting.optimizer])
    for kinds, course in held.courses:
        own = held.weights[kinds]
        total = np.broadcast_to(each * own + larger(*course.held(lane.place.moments)), len(kinds))
        device = int(total.argmax())
        found.append((float(total[device]), course.on(device), float(own[device])))
    _, course, elements = max(found, key=itemgetter(0))
    return course, elements


def _held(lane: Lane) -> Held:
    """Return what the devices of a lane hold; of a stage in parts with the layers of all parts."""
    parts, setting = lane.place.parts or (lane,), lane.setting
    return _held_by(
        parts[0].graph,
        tuple([part.graph for part in parts[1:]]),
        tuple([(part.place.first, part.place.outside, part.place.tied) for part in parts]),
        tuple([own for part in parts for own in part.choices]),
        tuple([own for part in parts for own in part.ends]),
        setting.array,
        MOVED if setting.convention == PAPER else setting.convention,
        setting.element_bytes,
    )


@kept_with_graph
def _held_by(
    graph: PlanGraph,
    others: tuple[PlanGraph, ...],
    places: tuple[tuple[int, tuple[Tensor, ...], tuple[tuple[int, int], ...]], ...],
    choices: tuple[Options, ...],
    above: Ends,
    array: tuple[int, ...],
    convention: str,
    element_bytes: int,
) -> Held:
    """Return what devices hold.

    Args:
        graph: the nodes of the first part of a stage.
        others: those of the further parts.
        places: of each part the index of its first node in the network, the tensors that it shares with other stages, and the nodes
            whose weight other stages have as well.
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
    weights, gradients = np.zeros(1, np.int64), {}
    for part, (first, _, tied) in zip(graphs, places, strict=True):
        for at, gradient in _gradients(part, fragments):
            weights = weights + whole.inside(gradient.need.elements)
            stages = [others * shared(gradient) for layer, others in tied if layer == at]
            gradients[first + at] = [element_bytes * own for own in (*arriving(gradient, whole), *stages)]
    each = (moved for own in fragments.values() for one in own.transfers for moved in arriving(one, whole))
    most = unit * element_bytes * largest([*each])
    arrays = Arrays(ops, fragments, element_bytes, unit=unit, more=[weights], inside=whole.inside)
    courses = [
        (kinds, course._replace(entering=max(course.entering, most)))
        for kinds, course in arrays.courses(len(graphs))
    ]
    alone = max(map(largest, gradients.values()), default=0.0)
    return Held(arrays.kinds.of(weights).astype(float), courses, gradients, alone)


def _ops(
    graphs: Sequence[PlanGraph],
    places: Sequence[tuple[int, tuple[Tensor, ...], tuple[tuple[int, int], ...]]],
    nodes: tuple[PlanNode, ...],
    above: Ends,
) -> tuple[StepOp, ...]:
    """Return the layers of the parts of a stage for which the devices work, in their order; arguments as of ``_held_by``."""
    starts = [*accumulate((len(own.layers) for own in graphs), initial=0)][:-1]
    spans = [range(first, first + len(own.layers)) for own, (first, *_) in zip(graphs, places, strict=True)]
    sent = tuple(
        Sent(start + own.producer, own.number, first + own.consumer)
        for start, (first, outside, _) in zip(starts, places, strict=True)
        for own in outside
        if own.producer >= 0 and not any(first + own.consumer in span for span in spans)
    )
    none = [any(share.ends[share.own] is None for share in own) for own in above] or [False] * len(nodes)
    idle = frozenset(
        at for at, (node, left) in enumerate(zip(nodes, none, strict=True)) if node.empty or left
    )
    return ops_of(nodes, sent, tuple(zip(starts, [first for first, *_ in places], strict=True)), idle)


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
    if batch % parts or any(share.dim == "batch" for own in above for share in own):
        most = max(1, batch // (512 * parts))
        return next(count for count in range(most, 0, -1) if not batch % count)
    return int(batch // parts)


def _gradients(graph: PlanGraph, fragments: Mapping[str, Fragment]) -> Iterator[tuple[int, Transfer]]:
    """Yield how the gradient of each weight of some layers that have an element is added up; of one that several use once."""
    users: dict[int, list[int]] = {}
    for tie in graph.ties:
        users.setdefault(tie.producer, []).append(tie.consumer)
    used = {at for own in users.values() for at in own}
    for at, node in enumerate(graph.layers):
        if at not in used and node.weighted:
            names = [graph.layers[one].name for one in (at, *users.get(at, ()))]
            yield at, gradient_of(tuple([fragments[name] for name in names]))


def holds(lanes: Iterable[Lane], buckets: Buckets = ()) -> bool:
    """Return whether a step fits the memory of every lane's devices; arguments as of ``memory_of``."""
    return all(lane.setting.machine.fits(math.fsum(memory_of(lane, buckets).values())) for lane in lanes)
