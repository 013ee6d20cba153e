"""The divisions of a layer's tensors over devices, by its choice at each level and its shares at uneven splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.nodes import kept_with_graph
from hypar.schedule.lifetimes import Made, Moved, Reading, nodes_of
from hypar.schedule.shards import (
    WHOLE_DIM,
    Amount,
    Kinds,
    Reach,
    Shards,
    at_work,
    cut_of,
    kinds_of,
    lacking,
    of_kinds,
    within,
)
from hypar.sharding.amounts.transfers import dims_of
from hypar.sharding.levels import TINY
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from hypar.network.nodes import FusedOp, PlanGraph, Tensor
    from hypar.ops.nest import Nest
    from hypar.schedule.lanes import Share
    from hypar.schedule.lifetimes import Array, Node
    from hypar.schedule.liveness import Bytes
    from hypar.sharding.placement import Choice, Options

_BUT_CHANNELS = frozenset({"batch", "height", "width"})

Shares = Sequence["Share"]
"""The shares of a layer at the uneven splits above."""


class Onward(NamedTuple):
    """The only reader of a layer's output, to whose shards sums go: its dims, its tensor that it is, its choices and its shares."""

    nest: Nest
    operand: str
    chosen: Options
    above: Shares


@dataclass(frozen=True, eq=False, slots=True)
class _Alike:
    """The tensors of nodes that are alike: those of one of them."""

    node: Node


@kept_with_graph
def _alike(graph: PlanGraph, outside: tuple[Tensor, ...]) -> tuple[_Alike, ...]:
    """Return what each node is like."""
    known: dict[object, _Alike] = {}
    found = []
    for node in nodes_of(graph, outside):
        reads = tuple([(one.elements, one.content.shape) for one in node.reads])
        key = node.node.nest, node.node.trail, node.node.ahead, reads
        found.append(known.setdefault(key, _Alike(node)))
    return tuple(found)


@kept_with_graph
def _only_readers(graph: PlanGraph) -> dict[int, Tensor]:
    """Return the tensor between each layer that may leave terms and the only layer that reads its output."""
    readers = Counter([*(tensor.producer for tensor in graph.tensors), *graph.sent])
    return {
        tensor.producer: tensor
        for tensor in graph.tensors
        if readers[tensor.producer] == 1 and graph.layers[tensor.producer].nest.multiplies
    }


def _channels(node: Node) -> tuple[int, ...]:
    """Return the channels of each tensor that a node concatenates; nothing for another node."""
    if not node.node.join:
        return ()
    whole = node.node.nest.sizes.get("channels", 0)
    found = tuple(dict(tensor.content.shape).get("channels", whole) for tensor in node.reads)
    return found if any(own < whole for own in found) else ()


Sized = tuple[Shards, "Bytes"]
"""The shards of a tensor, and its bytes."""


class _Laid(NamedTuple):
    """The tensors of a node on its devices.

    Attributes:
        terms: what its own op makes; as ``made`` without sums that go straight to the only reader.
        made: what each op of its trail makes, as others read it.
        read: what it reads of other nodes.
        kept: the bytes that each op of its trail keeps besides.
        samples: the shards in which it reads the samples.
        sampled: the fraction of these.
    """

    terms: Sized
    made: list[Sized]
    read: list[Sized]
    kept: list[Bytes | None]
    samples: Shards
    sampled: Amount

    @property
    def amounts(self) -> list[Amount]:
        """All that devices have."""
        sizes = [size for _, size in (self.terms, *self.made, *self.read)]
        return [*sizes, *(own for own in self.kept if own is not None), self.sampled]

    def of_kinds(self, kinds: Kinds) -> _Laid:
        """Return what the devices of each kind have."""
        made, read = ([(own, of_kinds(size, kinds)) for own, size in each] for each in (self.made, self.read))
        kept = [None if own is None else of_kinds(own, kinds) for own in self.kept]
        terms = self.terms[0], of_kinds(self.terms[1], kinds)
        return _Laid(terms, made, read, kept, self.samples, of_kinds(self.sampled, kinds))


def _more(element_bytes: float, op: FusedOp, share: Amount, statistics: Amount) -> Bytes | None:
    """Return the bytes that an op keeps besides its tensors; None if there are none."""
    saved, found = op.saved, None
    if saved.elements or saved.mask_bytes:
        found = (element_bytes * saved.elements + saved.mask_bytes) * share
    if saved.statistics:
        found = (0.0 if found is None else found) + element_bytes * saved.statistics * statistics
    return found


@lru_cache(maxsize=16384)
def _laid(
    size: float, alike: _Alike, chosen: Options, above: Shares, array: tuple[int, ...], onward: Onward | None
) -> _Laid:
    """Return the tensors of nodes that are alike, of elements of some bytes, by their choices and shares."""
    node = alike.node
    nest, trail, joined = node.node.nest, node.node.trail, _channels(node)
    place = partial(placed, nest, chosen, above, array)
    scale = nest.elements("output") / trail[0].elements
    terms, *_ = made = [place("output", op.contracted, joined) for op in trail]
    left = [place("output", op.contracted, joined, onward) for op in trail] if onward else made
    found = [
        (shards, size * op.elements * (scale * share))
        for op, (shards, share) in zip(trail, left, strict=True)
    ]
    _, statistics = place("output", _BUT_CHANNELS, joined, onward)
    reads = [place("input", channels=(own,)) for own in joined] or [place("input")] * (len(node.reads) or 1)
    ahead = nest.input_elements / node.node.ahead[-1].elements if node.node.ahead else 1.0
    each = zip(trail, [terms, *left[1:]], strict=True)
    return _Laid(
        terms=(terms[0], size * trail[0].elements * (scale * terms[1])) if onward else found[0],
        made=found,
        read=[
            (shards, size * tensor.elements * share)
            for tensor, (shards, share) in zip(node.reads, reads, strict=False)
        ],
        kept=[_more(size, op, scale * share, statistics) for op, (_, share) in each],
        samples=reads[0][0],
        sampled=ahead * place("input")[1],
    )


class Divided:
    """What devices have of the tensors of nodes by closed forms."""

    def __init__(
        self,
        graph: PlanGraph,
        choices: Sequence[Options],
        element_bytes: int,
        outside: Sequence[Tensor] = (),
        above: Sequence[Shares] = (),
        array: tuple[int, ...] = (),
        idle: frozenset[int] = frozenset(),
        *,
        fused: bool = False,
    ) -> None:
        """Take the plan of some devices.

        Args:
            graph: the nodes.
            choices: for each node a choice at each level.
            element_bytes: bytes of an element.
            outside: the tensors that the nodes share with other stages, as ``nodes_of`` has them.
            above: for each node the shares of the uneven splits above; nothing if there are none.
            array: the ways of each level.
            idle: the nodes for which the devices do not work.
            fused: whether sums go straight to the devices that read them next.
        """
        self.graph, self.bytes, self.array = graph, float(element_bytes), array
        self.plans = [*zip(choices, above or repeat(()), strict=False)]
        self.idle, self.fused, self.readers = idle, fused, _only_readers(graph) if fused else {}
        self.nodes, self.alike = nodes_of(graph, tuple(outside)), _alike(graph, tuple(outside))
        self.lacking: list[Bytes] = []
        self._known: dict[int, _Laid] = {}

    def _of(self, layer: int) -> _Laid:
        """Return the tensors of a node."""
        if layer not in self._known:
            onward, reader = None, self.readers.get(layer)
            if reader is not None:
                onward = Onward(
                    self.graph.layers[reader.consumer].nest, reader.operand, *self.plans[reader.consumer]
                )
            self._known[layer] = _laid(self.bytes, self.alike[layer], *self.plans[layer], self.array, onward)
        return self._known[layer]

    def of_kinds(self, more: Amount) -> Amount:
        """Count of the devices that have as much of everything, and of one more amount, one alone; return that amount."""
        every = [self._of(layer) for layer in range(len(self.nodes))]
        distinct = {id(laid): laid for laid in every}
        kinds = kinds_of([more, *(own for laid in distinct.values() for own in laid.amounts)])
        alike = {key: laid.of_kinds(kinds) for key, laid in distinct.items()}
        self._known = {layer: alike[id(laid)] for layer, laid in enumerate(every)}
        return of_kinds(more, kinds)

    def made(self, node: Node, number: int) -> Made:
        """Return the tensors of an op of a node."""
        laid, source, summed, gathered = self._of(node.layer), node.node.trail[number].source, None, None
        if source is not None:
            own = laid.made[number][1], laid.kept[number]
            return Made(*own, None, None, [Reading(laid.made[source][1], None)])
        (terms, size), (sums, left) = laid.terms, laid.made[0]
        if node.layer in self.readers:
            summed = Moved(left, inside=True)
            gathered = None if sums == terms else Moved(size, inside=False)
            if len(self.array) + len(self.plans[node.layer][1]) == 1:
                # Below a single split all of its error that a device lacks arrives at once.
                self.lacking.append(size - left)
        reads = [self._reading(node, *each) for each in zip(node.reads, laid.read, strict=True)]
        return Made(size, laid.kept[0], summed, gathered, reads)

    def _reading(self, node: Node, tensor: Tensor, read: tuple[Shards, Bytes]) -> Reading:
        """Return a tensor as a node reads it, and its error in the shards of those that have made it.

        Nothing moves where all devices have theirs, idle ones included, and by ``fused`` no terms are left to be added up.
        """
        shards, size = read
        if tensor.producer < 0 or tensor.producer in self.idle:
            return Reading(size, None)
        made, before = self._of(tensor.producer).made[tensor.number]
        if made == shards:
            return Reading(size, None)
        self.lacking += [size * lacking(shards, made), before * lacking(made, shards)]
        inside = within(made, shards)
        stays = inside and not self._sums(node, tensor) and not _lacks(size, before)
        return Reading(size, within(shards, made), () if stays else (Moved(before, inside),))

    def ahead(self, node: Node, op: FusedOp) -> tuple[Shards, Bytes, Bytes | None]:
        """Return the shards in which a node reads the samples, the bytes of an op ahead of it, and of what that keeps."""
        laid = self._of(node.layer)
        kept = _more(self.bytes, op, laid.sampled, laid.sampled)
        return laid.samples, self.bytes * op.elements * laid.sampled, kept

    def arriving(self, node: Node, tensor: Tensor) -> Bytes:
        """Return the bytes of a tensor as it was made, of which another stage sends the error."""
        return self._of(node.layer).made[tensor.number][1]

    def _sums(self, node: Node, tensor: Tensor) -> bool:
        """Return whether the errors that a node sends are terms, which are added up on their way."""
        return self.fused and any(
            tensor.operand in partial_results(node.node.nest, dim)
            for choice in self.plans[node.layer][0]
            for dim in choice.divided
        )

    def together(self, arrays: Sequence[Array]) -> Bytes:
        """Return the bytes of unlike shards of a tensor."""
        return sum(dict(map(self._array, arrays)).values(), 0.0)

    def _array(self, array: Array) -> tuple[Shards, Bytes]:
        """Return the shards of an array, and its bytes."""
        kind, layer, number = array
        laid, node = self._of(layer), self.nodes[layer]
        if kind != "samples":
            return (laid.made if kind == "made" else laid.read)[number]
        (op,) = [op for op in node.node.ahead if op.target == number]
        return self.ahead(node, op)[:2]


def _lacks(size: Bytes, made: Bytes) -> bool:
    """Return whether a device that has some of a tensor has nothing of another one."""
    return not isinstance(size, float) and bool(np.any((size == 0.0) & np.not_equal(made, 0.0)))


@lru_cache(maxsize=16384)
def placed(
    nest: Nest,
    chosen: Options,
    above: Shares,
    array: tuple[int, ...],
    tensor: str,
    whole: frozenset[str] = frozenset(),
    channels: tuple[int, ...] = (),
    onward: Onward | None = None,
) -> tuple[Shards, Amount]:
    """Return how a layer's tensor is divided.

    Args:
        nest: the layer.
        chosen: its choice at each level.
        above: its shares at the uneven splits above.
        array: the ways of each level.
        tensor: ``input``, ``weight`` or ``output``.
        whole: the dims that are not divided, as ops behind the layer have contracted them.
        channels: of a concatenation those of each tensor, which devices divide one by one; nothing for another layer.
        onward: the only reader of an output whose sums lie as that divides it; None as the layer makes it.

    Returns:
        The tensor's dims that are divided, each with its shards; the fraction of the tensor on a device.
    """
    names, share, shards = dims_of(nest, tensor), at_work(chosen, array), []
    for dim in nest.counted:
        if names.get(dim, "") not in {"", *whole}:
            pairs, splits, left = [(choice, dim) for choice in chosen], [(own, dim) for own in above], 1.0
            each: tuple[float, ...] = (nest.sizes[dim],)
            reach = None
            if onward is not None:
                pairs, splits, left = _onward(nest, chosen, above, array, onward, dim)
                each = (math.ceil(nest.sizes[dim] * left - TINY),)
                left = each[0] / (nest.sizes[dim] or 1)
            elif channels and names[dim] == "channels":
                each = channels
            elif tensor == "input" and each[0] and dim in nest.windows and nest.windows[dim].halo:
                reach = Reach(nest.windows[dim], nest.input_sizes[dim])
            parts = tuple([ends if cut == at else WHOLE_DIM for (cut, ends), at in splits])
            integral = all(isinstance(size, int) for size in each)
            cut, fraction = cut_of(names[dim], tuple(pairs), array, parts, each, reach, integral=integral)
            if cut is not None:
                shards.append((names[dim], cut))
                share = share * fraction * left
    return tuple(shards), share


def _onward(
    nest: Nest, chosen: Options, above: Shares, array: tuple[int, ...], onward: Onward, dim: str
) -> tuple[list[tuple[Choice, str]], list[tuple[Share, str]], float]:
    """Return how a dim of sums is divided, and what is left of it by splits that leave terms.

    At levels and splits that leave terms it is divided as the reader divides it, elsewhere as the sums are made.
    """
    read, name = onward.nest, nest.names["output"][dim]
    other = {own: at for at, own in read.names[onward.operand].items()}.get(name, "")
    levels = [
        (reads, other)
        if _leaves_terms(nest, made.divided)
        and len(reads.divided) == 1
        and made.devices(ways) == reads.devices(ways) == ways
        else (made, dim)
        for made, reads, ways in zip(chosen, onward.chosen, array, strict=True)
    ]
    splits, left = [], 1.0
    for own, theirs in zip(above, onward.above, strict=True):
        goes = own[0] is not None and _leaves_terms(nest, (own[0],)) and theirs[0] is not None
        splits.append((theirs, other) if goes else (own, dim))
        if goes and theirs[0] == other:
            left *= theirs[1][1] - theirs[1][0]
    return levels, splits, left


def _leaves_terms(nest: Nest, dims: Sequence[str]) -> bool:
    """Return whether a division of some dims, and of no others, leaves terms of the output."""
    return bool(dims) and all("output" in partial_results(nest, dim) for dim in dims)
