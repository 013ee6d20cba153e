"""The divisions of a layer's tensors over devices, by its choice at each level and its shares at uneven splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.network.nodes import kept_with_graph
from hypar.schedule.lifetimes import Made, Moved, Reading, nodes_of
from hypar.schedule.shards import WHOLE_DIM, Amount, Reach, Shards, at_work, cut_of, lacking, within
from hypar.sharding.levels import TINY
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from hypar.network.nodes import FusedOp, PlanGraph, Tensor
    from hypar.ops.nest import Nest
    from hypar.schedule.lanes import Share
    from hypar.schedule.lifetimes import Array, Node
    from hypar.schedule.liveness import Bytes
    from hypar.sharding.placement import Choice, Options

_WHOLE: frozenset[str] = frozenset()
_BUT_CHANNELS = frozenset({"batch", "height", "width"})

Shares = Sequence["Share"]
"""The shares of a layer at the uneven splits above."""


class Division(NamedTuple):
    """A division of a layer's input or output over devices.

    Attributes:
        tensor: ``input`` or ``output``, or ``sums``, the output as its only reader divides it.
        whole: dims that are not divided, as ops before have contracted them.
        scale: a factor of the share of a device.
        channels: of a concatenation the channels of each tensor, which devices divide one by one; nothing for another layer.
    """

    tensor: str
    whole: frozenset[str]
    scale: float
    channels: tuple[int, ...] = ()


class Onward(NamedTuple):
    """The only reader of a layer's output, to whose shards sums go.

    Attributes:
        nest: its dims.
        operand: its tensor that it is.
        chosen: its choice at each level.
        above: its shares at the uneven splits above.
    """

    nest: Nest
    operand: str
    chosen: Options
    above: Shares


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tensors:
    """The tensors of nodes that are alike, and their divisions.

    Attributes:
        trail: the node's ops.
        reads: for each tensor that the node reads of other nodes its elements, and its division.
        outputs: for each op of its trail the division of its tensor.
        sums: likewise of sums that go straight to the only reader; nothing without these.
        channels: the division of numbers for each channel; None if no op keeps any.
        samples: the division of the first tensor that it reads.
        ahead: the division of the network's input.
    """

    trail: tuple[FusedOp, ...]
    reads: tuple[tuple[int, Division], ...]
    outputs: tuple[Division, ...]
    sums: tuple[Division, ...]
    channels: Division | None
    samples: Division
    ahead: Division


@kept_with_graph
def _tensors(graph: PlanGraph, outside: tuple[Tensor, ...], *, fused: bool) -> tuple[_Tensors, ...]:
    """Return the tensors of each node; by ``fused`` with sums for the only reader. Nodes that are alike share one object."""
    readers = _only_readers(graph) if fused else {}
    found = [_of_node(node, sums=node.layer in readers) for node in nodes_of(graph, outside)]
    shared: dict[tuple[Any, ...], _Tensors] = {}
    return tuple(shared.setdefault(tuple(own.values()), _Tensors(**own)) for own in found)


def _of_node(node: Node, *, sums: bool) -> dict[str, Any]:
    own, (trail, ahead) = node.node.nest, (node.node.trail, node.node.ahead)
    joined, whole = _channels(node), Division("input", _WHOLE, 1.0)
    each = [whole._replace(channels=(own,)) for own in joined] or [whole] * len(node.reads)
    scale = own.elements("output") / trail[0].elements
    made = tuple(Division("output", op.contracted, scale, joined) for op in trail)
    lies = tuple(division._replace(tensor="sums") for division in made) if sums else ()
    channels = (lies or made)[0]._replace(whole=_BUT_CHANNELS, scale=1.0)
    before = own.input_elements / ahead[-1].elements if ahead else 1.0
    return {
        "trail": trail,
        "reads": tuple((tensor.elements, at) for tensor, at in zip(node.reads, each, strict=True)),
        "outputs": made,
        "sums": lies,
        "channels": channels if any(op.saved.statistics for op in trail) else None,
        "samples": each[0] if each else whole,
        "ahead": whole._replace(scale=before),
    }


def _channels(node: Node) -> tuple[int, ...]:
    """Return the channels of each tensor that a node concatenates; nothing for another node."""
    if not node.node.join:
        return ()
    whole = node.node.nest.sizes.get("channels", 0)
    found = tuple(dict(tensor.content.shape).get("channels", whole) for tensor in node.reads)
    return found if any(own < whole for own in found) else ()


@kept_with_graph
def _only_readers(graph: PlanGraph) -> dict[int, Tensor]:
    """Return the tensor between each layer that may leave terms and the only layer that reads its output."""
    readers = Counter([*(tensor.producer for tensor in graph.tensors), *graph.sent])
    return {
        tensor.producer: tensor
        for tensor in graph.tensors
        if readers[tensor.producer] == 1 and graph.layers[tensor.producer].nest.multiplies
    }


class _Laid(NamedTuple):
    """The tensors of a node on its devices, each with its shards and its bytes.

    Attributes:
        terms: what its own op makes.
        made: what each op of its trail makes, as others read it.
        read: what it reads of other nodes.
        kept: the bytes that each op of its trail keeps besides.
        samples: the shards in which it reads the samples.
        sampled: the fraction of these.
    """

    terms: tuple[Shards, Bytes]
    made: list[tuple[Shards, Bytes]]
    read: list[tuple[Shards, Bytes]]
    kept: list[Bytes | None]
    samples: Shards
    sampled: Amount


@lru_cache(maxsize=16384)
def _laid(
    element_bytes: float,
    nest: Nest,
    tensors: _Tensors,
    chosen: Options,
    above: Shares,
    array: tuple[int, ...],
    onward: Onward | None,
) -> _Laid:
    """Return the tensors of a node as its devices have them."""

    def at(division: Division) -> tuple[Shards, Amount]:
        return placed(nest, division, chosen, above, array, onward)

    def sized(elements: int, division: Division) -> tuple[Shards, Bytes]:
        shards, share = at(division)
        return shards, element_bytes * elements * share

    trail, left = tensors.trail, tensors.sums or tensors.outputs
    made = [sized(op.elements, division) for op, division in zip(trail, left, strict=True)]
    statistics = 0.0 if tensors.channels is None else at(tensors.channels)[1]
    return _Laid(
        terms=sized(trail[0].elements, tensors.outputs[0]) if tensors.sums else made[0],
        made=made,
        read=[sized(*own) for own in tensors.reads],
        kept=[
            _more(element_bytes, op, at(division)[1], statistics)
            for op, division in zip(trail, (tensors.outputs[0], *left[1:]), strict=True)
        ],
        samples=at(tensors.samples)[0],
        sampled=at(tensors.ahead)[1],
    )


def _more(element_bytes: float, op: FusedOp, share: Amount, statistics: Amount) -> Bytes | None:
    """Return the bytes that an op keeps besides its tensors; None if there are none."""
    saved, found = op.saved, None
    if saved.elements or saved.mask_bytes:
        found = (element_bytes * saved.elements + saved.mask_bytes) * share
    if saved.statistics:
        found = (0.0 if found is None else found) + element_bytes * saved.statistics * statistics
    return found


class Divided:
    """What devices have of the tensors of nodes by closed forms: on each device where shards are unlike, else on the fullest.

    Devices hold unlike shards where they divide a grid or are idle, or where shards have several sizes.
    """

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
            array: the ways of each level; nothing if every choice has a shard for each of them.
            idle: the nodes for which the devices do not work.
            fused: whether sums go straight to the devices that read them next.
        """
        self.graph, self.choices, self.bytes = graph, choices, float(element_bytes)
        self.above, self.array, self.idle, self.fused = above, array, idle, fused
        self.nodes = nodes_of(graph, tuple(outside))
        self.tensors = _tensors(graph, tuple(outside), fused=fused)
        self.lacking: list[Bytes] = []
        self._known: dict[int, _Laid] = {}

    def _of(self, layer: int) -> _Laid:
        """Return the tensors of a node."""
        if layer not in self._known:
            nest, tensors, onward = self.graph.layers[layer].nest, self.tensors[layer], None
            if tensors.sums:
                reader = _only_readers(self.graph)[layer]
                chosen, above = self.choices[reader.consumer], self._above(reader.consumer)
                onward = Onward(self.graph.layers[reader.consumer].nest, reader.operand, chosen, above)
            own, above = self.choices[layer], self._above(layer)
            self._known[layer] = _laid(self.bytes, nest, tensors, own, above, self.array, onward)
        return self._known[layer]

    def _above(self, layer: int) -> Shares:
        return self.above[layer] if self.above else ()

    def made(self, node: Node, number: int) -> Made:
        """Return the tensors of an op of a node."""
        laid, source, summed, gathered = self._of(node.layer), node.node.trail[number].source, None, None
        if source is not None:
            own = laid.made[number][1], laid.kept[number]
            return Made(*own, None, None, [Reading(laid.made[source][1], None)])
        (terms, size), (sums, left) = laid.terms, laid.made[0]
        if self.tensors[node.layer].sums:
            summed = Moved(left, inside=True)
            gathered = None if sums == terms else Moved(size, inside=False)
            if len(self.array) + len(self._above(node.layer)) == 1:
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
            for choice in self.choices[node.layer]
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
    division: Division,
    chosen: Options,
    above: Shares,
    array: tuple[int, ...] = (),
    onward: Onward | None = None,
) -> tuple[Shards, Amount]:
    """Return a division of a layer's input or output; ops behind the layer may have contracted dims of it.

    Returns:
        The tensor's dims that are divided, each with its shards; the fraction of the tensor on a device, times the scale of the
        division.
    """
    tensor = "output" if division.tensor == "sums" else division.tensor
    names, share, shards = nest.names.get(tensor, {}), at_work(chosen, array), []
    for dim in nest.counted:
        if names.get(dim, "") not in {"", *division.whole}:
            pairs, splits = [(choice, dim) for choice in chosen], [(own, dim) for own in above]
            (each, reach), left = _sizes(nest, division, dim), 1.0
            if onward is not None and division.tensor == "sums":
                pairs, splits, left = _onward(nest, chosen, above, array, onward, dim)
                each = (math.ceil(nest.sizes[dim] * left - TINY),)
                left = each[0] / (nest.sizes[dim] or 1)
            parts = tuple([ends if cut == at else WHOLE_DIM for (cut, ends), at in splits])
            cut, fraction = cut_of(names[dim], tuple(pairs), array, parts, each, reach)
            if cut is not None:
                shards.append((names[dim], cut))
                share = share * fraction * left
    return tuple(shards), division.scale * share


def _sizes(nest: Nest, division: Division, dim: str) -> tuple[tuple[float, ...], Reach | None]:
    """Return the indices of a dim, those of each tensor of a concatenation, and the rows that windows read beyond shards."""
    size, channels = nest.sizes[dim], division.channels
    window = nest.windows.get(dim) if division.tensor == "input" else None
    if size and window is not None and window.halo:
        return (size,), Reach(window, nest.input_sizes[dim])
    return (channels if channels and nest.names[division.tensor][dim] == "channels" else (size,)), None


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
