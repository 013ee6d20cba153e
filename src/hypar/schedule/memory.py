"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.layer import OPTIMIZERS
from hypar.network.nodes import PlanGraph, PlanNode, Tensor, kept_with_graph
from hypar.program.fragments import Fragment, following, fragment_of, gradient_of
from hypar.program.layouts import grids
from hypar.schedule.buffers import arriving, largest, largest_together, most_arriving, shared
from hypar.schedule.lifetimes import Arrays, Course, Sent, StepOp, ops_of
from hypar.schedule.liveness import Bytes, larger
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import WHOLE, Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.program.steps import Transfer
    from hypar.schedule.buffers import Amount
    from hypar.schedule.lanes import Ends, Lane
    from hypar.schedule.record import Buckets
    from hypar.sharding.layout import GroupShare


MANY = 2**14
"""Samples of a mini-batch above which those that devices have together count as one."""


class Held(NamedTuple):
    """What the devices of a lane hold over a step.

    Attributes:
        weights: the elements of weights on the devices of each kind, ``[kinds]``.
        courses: the kinds of devices whose arrays lie in the same buffers, with their activations and errors.
        gradients: for each layer with a weight, by its index in the network, the elements of its gradient that arrive at each level.
        most: the most elements that arrive of the gradient of one layer.
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
    held = _held(lane)
    course, device, elements = _fullest(lane, held)
    size = lane.setting.element_bytes
    weights = size * elements
    waiting, most = (_on(amount, device) for amount in course.held(lane.place.moments))
    together = [largest_together([held.gradients.get(at, ()) for at in bucket]) for bucket in buckets]
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights * OPTIMIZERS[lane.setting.optimizer],
        "activations": waiting,
        "errors": max(0.0, most - waiting),
        "buffers": max([course.entering, *(size * own for own in together or [held.most])]),
    }


def layers_of(lane: Lane) -> list[tuple[float, float]]:
    """Return for each layer the most bytes of activations and errors in its forward and its backward phase, on the fullest device."""
    course, device, _ = _fullest(lane, _held(lane))
    return [(_on(forward, device), _on(backward, device)) for forward, backward in course.most]


def _on(amount: Bytes, device: int) -> float:
    """Return the bytes on one device; fractions of bytes are the noise of shares."""
    return amount if isinstance(amount, float) else round(float(amount[device]), 3)


def _fullest(lane: Lane, held: Held) -> tuple[Course, int, float]:
    """Return the activations and errors on devices of a lane, the number of the fullest of these, and the elements of its weights."""
    found = []
    each = lane.setting.element_bytes * (2 + OPTIMIZERS[lane.setting.optimizer])
    for kinds, course in held.courses:
        weights = held.weights[kinds]
        total = np.broadcast_to(each * weights + larger(*course.held(lane.place.moments)), len(kinds))
        device = int(total.argmax())
        found.append((float(total[device]), (course, device, float(weights[device]))))
    return max(found, key=itemgetter(0))[1]


class _Part(NamedTuple):
    """A part of a stage: its nodes, with a choice at each level, and their shares at the splits above; others as of ``StagePlace``."""

    graph: PlanGraph
    choices: tuple[Options, ...]
    above: Ends
    first: int
    outside: tuple[Tensor, ...]
    tied: tuple[tuple[int, int], ...]


def _held(lane: Lane) -> Held:
    setting = lane.setting
    each = ((own, own.place) for own in lane.place.parts or (lane,))
    parts = tuple(
        [_Part(own.graph, tuple(own.choices), own.ends, at.first, at.outside, at.tied) for own, at in each]
    )
    convention = MOVED if setting.convention == PAPER else setting.convention
    return _held_by(parts[0].graph, parts, setting.array, convention, setting.element_bytes)


_arriving = lru_cache(maxsize=512)(arriving)
"""Returns what arrives of a gradient, kept: equal weights share theirs, and few occur."""


@kept_with_graph
def _held_by(
    _: PlanGraph, parts: tuple[_Part, ...], array: tuple[int, ...], convention: str, element_bytes: int
) -> Held:
    nodes = [node for part in parts for node in part.graph.layers]
    choices = [own for part in parts for own in part.choices]
    above, ops = [own for part in parts for own in part.above], _ops(parts)
    *layouts, whole = grids([*choices, (WHOLE,) * len(array)], above, array)
    chosen = dict(zip([node.name for node in nodes], layouts, strict=True))
    gone = [op.layer.name for op in ops for _ in op.sent]
    unit = _samples_alike(nodes, choices, above, array)
    every = [*{op.name: op for node in nodes for op in node.ops}.values()]
    if unit > 1:
        every = [op._replace(nest=op.layer.nest(op.nest.sizes["batch"] // unit)) for op in every]
    fragments = following(every, chosen, whole, convention, sent=gone, make=fragment_of)
    weights, gradients = np.zeros(1, np.int64), {}
    for part in parts:
        for at, gradient in _gradients(part.graph, fragments):
            weights = weights + whole.inside(gradient.need.elements)
            stages = [others * shared(gradient) for layer, others in part.tied if layer == at]
            gradients[part.first + at] = (*_arriving(gradient, whole), *stages)
    each = (most_arriving(one, whole) for own in fragments.values() for one in own.transfers)
    most = unit * element_bytes * max(each, default=0.0)
    arrays = Arrays(ops, fragments, element_bytes, unit=unit, more=[weights], inside=whole.inside)
    courses = [
        (kinds, course._replace(entering=max(course.entering, most)))
        for kinds, course in arrays.courses(len(parts))
    ]
    alone = max(map(largest, gradients.values()), default=0.0)
    return Held(arrays.kinds.of(weights).astype(float), courses, gradients, alone)


def _ops(parts: Sequence[_Part]) -> tuple[StepOp, ...]:
    spans = [range(part.first, part.first + len(part.graph.layers)) for part in parts]
    sent = tuple(
        Sent(part.first + own.producer, own.number, part.first + own.consumer)
        for part in parts
        for own in part.outside
        if own.producer >= 0 and not any(part.first + own.consumer in span for span in spans)
    )
    each = [
        own
        for part, span in zip(parts, spans, strict=True)
        for own in zip(span, part.graph.layers, part.above or repeat(()), strict=False)
    ]
    idle = [at for at, node, above in each if node.empty or any(own.ends[own.own] is None for own in above)]
    return ops_of(tuple([(part.first, part.graph.layers) for part in parts]), sent, frozenset(idle))


def _samples_alike(
    nodes: Sequence[PlanNode],
    choices: Sequence[Options],
    above: Iterable[Sequence[GroupShare]],
    array: Sequence[int],
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
