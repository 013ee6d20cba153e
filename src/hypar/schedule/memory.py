"""The memory of a device: weights, gradients, optimizer state, activations, errors and transfers.

A transfer has a buffer for the elements that arrive at once, at a level of the array. What several devices of a part lack of a copy comes
to the part once, to each of them as much of it; the rest they get of each other. Of sums each part that has terms, or needs sums, gets
the same: terms leave all parts but that of an owner, and sums come to all others that need them; the devices of a part share it by the
sums that they need, or else by the terms that they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import pairwise, repeat, zip_longest
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.network.nodes import PlanGraph, Tensor, computed_again, kept_in_shards
from hypar.network.training import AS_USUAL, Formats
from hypar.program.fragments import Fragment, following, gathered_again, gradient_of, rest_of
from hypar.program.holding import Holding, Transfer, grids
from hypar.schedule.lanes import Ends, Lane
from hypar.schedule.lifetimes import Arrays, Bytes, Course, StepOp
from hypar.schedule.record import Buckets, Gather
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.layout import Grid
from hypar.sharding.placement import WHOLE, Options

MANY = 2**14
"""Samples of a mini-batch above which those that devices have together count as one."""

Amount = NDArray[np.float64]
"""Elements on each device, or in each part of a level, ``[*devices]``, with one entry on an axis on which all have as many."""

Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Held:
    """What the devices of a lane hold over a step.

    Attributes:
        weights: the elements of weights, of their gradients and of those that devices update, on the devices of each kind, ``[kinds]``.
        gradients: for each layer with a weight, by its index in the network, the elements of its gradient that arrive at each level.
        arrays: the arrays of the layers of some ``parts``, with a ``buffer`` for the most bytes that arrive at once,
            ``[kinds]``.
    """

    weights: tuple[NDArray[np.float64], ...]
    gradients: Mapping[int, Sequence[Amount]]
    arrays: Arrays
    parts: int
    buffer: NDArray[np.float64]

    @cached_property
    def course(self) -> Course:
        """Their activations and errors."""
        own = self.arrays.course(self.parts)
        return own._replace(entering=np.maximum(own.entering, self.buffer))


def memory_of(lane: Lane, buckets: Buckets = ()) -> dict[str, float]:
    """Return the bytes on the fullest device of a lane at the fullest moment of a step, with room for the largest transfer.

    The layers of a bucket, by their index in the network, exchange their gradients together; without any each does alone.
    """
    held, device = _fullest(lane)
    course, formats = held.course, lane.setting.formats
    weights, gradients, updated = (float(own[device]) for own in held.weights)
    waiting, most = (_on(amount, device) for amount in course.held(lane.place.moments))
    each = ([held.gradients.get(at, ()) for at in bucket] for bucket in buckets or zip(held.gradients))
    exchanged = formats.gradient * max([float(largest_together(own).max()) for own in each], default=0.0)
    return {
        "weights": formats.weight * weights,
        "gradients": formats.gradient * gradients,
        "optimizer": formats.kept(lane.setting.optimizer) * updated,
        "activations": waiting,
        "errors": max(0.0, most - waiting),
        "buffers": max(float(course.entering[device]), exchanged),
    }


def gathers_of(lane: Lane) -> tuple[Gather, ...]:
    """Return the tensors of which the devices of a lane keep shards."""
    if lane.setting.training.recompute == AS_USUAL.recompute:
        return ()
    found = dict[tuple[int, int], list[int]]()
    index, own = {layer.name: at for at, layer in enumerate(lane.graph.layers)}, _held(lane).arrays
    for layer in [op.layer for op in own.ops]:
        for _, reader, number in gathered_again(layer.name, layer.inputs, own.fragments, own.shards):
            found.setdefault((index[reader], number), []).append(index[layer.name])
    edges = {(own.consumer, own.at): edge for edge, own in enumerate(lane.graph.tensors)}
    return tuple([(edges[own], tuple(readers)) for own, readers in found.items()])


def layers_of(lane: Lane) -> list[tuple[float, float]]:
    """Return for each layer the most bytes of activations and errors in its forward and its backward phase, on the fullest device."""
    held, device = _fullest(lane)
    return [(_on(forward, device), _on(backward, device)) for forward, backward in held.course.nodes]


def _on(amount: Bytes, device: int) -> float:
    """Return the bytes on one device; where devices differ, fractions of bytes are the noise of shares."""
    own = float(amount[device])
    return own if (amount == own).all() else round(own, 3)


def _fullest(lane: Lane) -> tuple[Held, int]:
    """Return what the devices of a lane hold, and the kind of the fullest of these."""
    held, formats = _held(lane), lane.setting.formats
    sizes = formats.weight, formats.gradient, formats.kept(lane.setting.optimizer)
    arrays = np.maximum(*held.course.held(lane.place.moments)) + held.course.entering
    return held, int((sum(map(mul, sizes, held.weights), 0.0) + arrays).argmax())


class _Part(NamedTuple):
    """A part of a stage: its nodes, with a choice at each level, and their shares at the splits above; others as of ``StagePlace``."""

    graph: PlanGraph
    choices: tuple[Options, ...]
    above: Ends
    first: int
    outside: tuple[Tensor, ...]
    tied: tuple[tuple[int, int], ...]
    rests: tuple[tuple[int, int], ...]


def layers_in_order(lane: Lane) -> tuple[StepOp, ...]:
    """Return the layers of a lane, of all parts of its stage, in the order in which they run."""
    return _ops(_parts(lane))


def _parts(lane: Lane) -> tuple[_Part, ...]:
    parts = []
    for own in lane.place.parts or (lane,):
        at, rests = own.place, (*own.rests.items(),)
        parts.append(_Part(own.graph, (*own.choices,), own.ends, at.first, at.outside, at.tied, rests))
    return tuple(parts)


def _held(lane: Lane) -> Held:
    setting = lane.setting
    convention = MOVED if setting.convention == PAPER else setting.convention
    return _held_by(_parts(lane), setting.array, (convention, setting.training.recompute, setting.formats))


@lru_cache(maxsize=1024)
def _held_by(parts: tuple[_Part, ...], array: tuple[int, ...], by: tuple[str, str, Formats]) -> Held:
    convention, recompute, formats = by
    nodes = [node for part in parts for node in part.graph.layers]
    choices = [own for part in parts for own in part.choices]
    above, ops = [own for part in parts for own in part.above], _ops(parts)
    *layouts, whole = grids([*choices, (WHOLE,) * len(array)], above, array)
    chosen = dict(zip([node.name for node in nodes], layouts, strict=True))
    gone = [op.layer.name for op in ops for _ in op.sent]
    unit = _samples_alike(parts, array)
    every = [*{op.name: op for node in nodes for op in node.ops}.values()]
    if unit > 1:
        every = [replace(op, nest=op.layer.nest(op.nest.sizes["batch"] // unit)) for op in every]
    fragments = following(every, chosen, whole, convention, sent=gone)
    kept, gradients, weights = np.zeros((3, 1)), {}, dict[tuple[str, str], Amount]()
    transfers = (one for own in {*fragments.values()} for one in own.transfers)
    moved = reduce(np.maximum, [largest_together([arriving(one, whole)]) for one in transfers], np.zeros(1))
    most = unit * formats.activation * moved
    for part in parts:
        rests, tied = dict(part.rests), dict(part.tied)
        for at, users in _weights(part.graph, fragments):
            gradient, zero = gradient_of(users, tied=at in tied), rests.get(at, 0)
            alone = some = whole.inside(gradient.need.elements.astype(float))
            added = arriving(gradient, whole)
            if zero and (rest := rest_of(users)):
                if rest.even:
                    some, added = alone / rest.count, tuple([own / 2 for own in added])
                else:
                    some = whole.inside(rest.holding.elements.astype(float))
                    added = arriving(rest.summed, whole)
                gathered = added if rest.even else arriving(rest.gathered, whole)
                most = np.maximum(most, formats.weight * largest_together([gathered]))
                name = part.graph.layers[at].name
                held = (("gradient", gradient.have), ("weight", gradient.need))
                for kind, own in held[: zero - 1]:
                    weights[name, kind] = (getattr(formats, kind) * own.elements).astype(float)
            each = np.broadcast_arrays(*kept, *[some if zero > stage else alone for stage in (2, 1, 0)])
            kept = np.array(each[:3]) + np.array(each[3:])
            gradients[part.first + at] = added
            if others := tied.get(at):
                # Another stage has terms of all that these devices have.
                axes = tuple(range(len(whole.ways)))
                came = gradient.need.within(axes).elements * _share(gradient, axes, gradient.copies.parts)
                gradients[part.first + at] += (others * came,)
    again, shards = (of(nodes, recompute) for of in (computed_again, kept_in_shards))
    ways = weights, again, shards, unit
    arrays = Arrays(ops, fragments, formats, None, *ways, more=[*kept, most], inside=whole.inside)
    weighed, buffer = tuple([arrays.of(own).astype(float) for own in kept]), arrays.of(most)
    return Held(weighed, gradients, arrays, len(parts), buffer)


def _ops(parts: Sequence[_Part]) -> tuple[StepOp, ...]:
    """Return the layers of nodes at work in the order in which they run, without those before all nodes that nothing trains."""
    found, readers = dict[str, StepOp](), _readers(parts)
    for number, part in enumerate(parts):
        each = zip(part.graph.layers, part.above or repeat(()), strict=False)
        for at, (node, above) in enumerate(each, part.first):
            idle = node.empty or any(own.ends[own.own] is None for own in above)
            for own in () if idle else node.ops:
                trains = own.owner is not None or own.nest.trained or not found.keys().isdisjoint(own.inputs)
                if trains and own.name not in found:
                    sent = () if own.views else tuple(readers.get((at, own.number), ()))
                    found[own.name] = StepOp(own, at, number, sent)
    return tuple(found.values())


def _readers(parts: Sequence[_Part]) -> dict[tuple[int, int], list[tuple[tuple[int, int], int]]]:
    """Return the readers in other stages, as of ``StepOp``, of each tensor, by the index of its node and its number there."""
    found: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    spans = [range(part.first, part.first + len(part.graph.layers)) for part in parts]
    sent = ((part.first, own) for part in parts for own in part.outside if own.producer >= 0)
    apart = ((at, own) for at, own in sent if not any(at + own.consumer in span for span in spans))
    for number, (at, own) in enumerate(apart):
        behind = sum(span.start < at + own.consumer for span in spans[1:])
        found.setdefault((at + own.producer, own.number), []).append(((-at - own.consumer, number), behind))
    return found


def _samples_alike(parts: Sequence[_Part], array: Sequence[int]) -> int:
    """Return of how many samples devices have all or none, so that these count as one, where a mini-batch has very many.

    What is not divided evenly is then rounded to so many samples, a five-hundredth of what a device has at most.
    """
    batch = parts[0].graph.layers[0].ops[-1].nest.sizes["batch"]
    levels = zip(array, zip(*[own for part in parts for own in part.choices], strict=True), strict=True)
    shards = math.prod(ways for ways, each in levels if any("batch" in choice.divided for choice in {*each}))
    if batch <= MANY:
        return 1
    if batch % shards or any(share.dim == "batch" for part in parts for own in part.above for share in own):
        most = max(1, batch // (512 * shards))
        return next(count for count in range(most, 0, -1) if not batch % count)
    return int(batch // shards)


def _weights(
    graph: PlanGraph, fragments: Mapping[str, Fragment]
) -> Iterator[tuple[int, tuple[Fragment, ...]]]:
    """Yield each weight of some layers that has an element, of one that several use once: the layer's index, and the users, it first."""
    users: dict[int, list[int]] = {}
    for tie in graph.ties:
        users.setdefault(tie.producer, []).append(tie.consumer)
    used = {at for own in users.values() for at in own}
    for at, node in enumerate(graph.layers):
        if at not in used and node.weighted:
            yield at, tuple([fragments[graph.layers[one].name] for one in (at, *users.get(at, ()))])


def holds(lanes: Iterable[Lane], buckets: Buckets = ()) -> bool:
    """Return whether a step fits the memory of every lane's devices; arguments as of ``memory_of``."""
    return all(lane.setting.machine.fits(held_by(lane, buckets)) for lane in lanes)


def held_by(lane: Lane, buckets: Buckets = ()) -> float:
    """Return the bytes on the fullest device of a lane; arguments as of ``memory_of``."""
    return math.fsum(memory_of(lane, buckets).values())


# What arrives at once


@lru_cache(maxsize=2048)
def arriving(own: Transfer, array: Grid) -> tuple[Amount, ...]:
    """Return the elements of a transfer that arrive on each device of an array at each split above and each level, outermost first."""
    levels = [tuple(range(*ends)) for ends in pairwise((0, *array.stops))]
    if own.kind != "copy":
        found = [*_summed(own, levels)][::-1]
    else:
        # What no device has comes from other stages.
        found = [*_copied(own, levels, array.ways)] if own.have.elements.any() else []
    return tuple(map(array.inside, found))


def largest_together(transfers: Iterable[Sequence[Amount]]) -> Amount:
    """Return the most elements that arrive on each device at a level of several transfers together; 0 of none."""
    each = zip_longest(*transfers, fillvalue=np.zeros(1))
    return reduce(np.maximum, [np.asarray(sum(own)) for own in each], np.zeros(1))


def _copied(own: Transfer, levels: Sequence[Axes], ways: tuple[int, ...]) -> Iterator[Amount]:
    before = np.zeros(1)
    for level in levels:
        inner = tuple(range(level[-1] + 1, len(ways)))
        there, every = own.have.within(inner), own.need.within(inner)
        lacks = own.need.elements - own.need.both(there).elements
        distinct = every.elements - every.both(there).elements
        now = lacks * (distinct / np.maximum(_sum(lacks, inner, ways), 1))
        yield now - before
        before = now


def _summed(own: Transfer, levels: Sequence[Axes]) -> Iterator[Amount]:
    parts: tuple[int, ...] = own.copies.parts
    has, needs, inner = own.have, own.need, Axes()
    if has is not needs:
        has = has.both(needs.within(tuple(range(len(parts)))))
    for level in reversed(levels):
        if any(parts[at] > 1 for at in level):
            working = np.maximum(_sum(has.elements + needs.elements > 0, level, parts), 1)
            crossing = _crossing(has, needs, level, parts, back=own.kind == "return")
            yield crossing / working * _share(own, inner, parts)
        else:
            yield np.zeros(1)
        some = has.within(level)
        has, needs, inner = some, some if needs is has else needs.within(level), (*level, *inner)


def _crossing(has: Holding, needs: Holding, level: Axes, parts: Axes, *, back: bool) -> Amount:
    """Return the elements that parts of a level get of others of their group, or ``back``, of those that rest there."""

    def counted(own: Holding) -> tuple[Amount, Amount]:
        """Return the elements of all parts in all, and those that some part has."""
        total = _sum(own.elements, level, parts)
        return total, np.minimum(total, own.within(level).elements)

    had, some = counted(has)
    if has is needs:
        return np.zeros(1) if back else 2 * (had - some)
    inside, kept = counted(has.both(needs))
    meets = has.within(level).both(needs.within(level)).elements
    if back:
        return had - inside - some + meets
    needed, wanted = counted(needs)
    return had - some + needed - wanted + meets - kept


def _share(own: Transfer, inner: Axes, parts: Axes) -> Amount:
    """Return the share of each device in what comes to its part: by the sums that it needs, or the terms that it has."""
    need, have = own.need.elements, own.have.elements
    needed, had = (_sum(each, inner, parts) for each in (need, have))
    return np.where(needed > 0, need / np.maximum(needed, 1), have / np.maximum(had, 1))


def _sum(amount: NDArray[Any], axes: Axes, counts: Axes) -> Amount:
    """Return the sum along some axes, of as many as are counted where all have as much."""
    alike = math.prod([counts[at] for at in axes if amount.shape[at] == 1])
    return np.asarray(amount.sum(axis=axes, keepdims=True) * float(alike))
