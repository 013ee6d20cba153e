"""A smaller network with the same cuts: sizes divided by powers of two, and a smaller mini-batch.

Every dim that a plan cuts into equal pieces is cut into equal pieces again. Channels that must agree, as those of the
inputs of an addition, are divided alike, and so is a named dim wherever it occurs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypar.errors import ModelError
from hypar.network.graph import LayerGraph
from hypar.network.layer import Layer
from hypar.ops.base import Op
from hypar.ops.dims import atom_of
from hypar.plan.plan import Plan

Degrees = dict[str, dict[str, int]]

LEAST_CHANNELS, LEAST_IMAGE, LEAST_SAMPLES, LEAST_NAMED = 8, 16, 4, 4
"""Channels, rows and columns of the input, samples of a microbatch, and elements of a named dim that are left at least."""

MOST_HALVINGS, IMAGE, CHANNEL_FIELDS = 40, ("height", "width"), ("out_channels", "out_features", "channels")
"""How often a size is halved at most, the dims of an image, and the fields of ops that say how many channels they make."""


def shrunk(plan: Plan, graph: LayerGraph, microbatches: int, batch: int | None) -> LayerGraph:
    """Return the smallest network of a plan with even cuts that dividing by powers of two gives; of a mini-batch, if it is given."""
    degrees = even_degrees(plan)
    samples = _samples(degrees, graph.batch // microbatches) * microbatches if batch is None else batch
    return _Halved(graph, degrees).network().with_batch(samples)


def even_degrees(plan: Plan) -> Degrees:
    """Return the number of equal pieces of each layer's dims; 1 of dims that uneven shares cut."""
    found: Degrees = {layer: {} for layer in plan.layers}
    for group in plan.groups:
        for layer, own in found.items():
            if group.idle or any(layer not in split.choices for split in group.splits):
                continue
            uneven = {dim for split, _ in group.above for dim in split.choice(layer).divided}
            cuts = [dict(split.choice(layer).degrees) for split in group.splits]
            for dim in dict.fromkeys(dim for degrees in cuts for dim in degrees):
                degree = 1 if dim in uneven else math.prod(degrees.get(dim, 1) for degrees in cuts)
                own[dim] = math.lcm(own.get(dim, 1), degree)
    return found


def _samples(degrees: Degrees, samples: int) -> int:
    cuts = [own.get("batch", 1) for own in degrees.values()]
    ways = math.lcm(*cuts)
    even = any(samples % own == 0 for own in cuts)
    while samples % 2 == 0 and samples // 2 >= max(LEAST_SAMPLES, ways):
        if even and (samples // 2) % ways:
            break
        samples //= 2
    return samples


def named_dims(graph: LayerGraph) -> dict[str, int]:
    """Return the named dims whose sizes ops state, with the largest of their sizes."""
    found: dict[str, int] = {}
    for dim, size in (own for layer in graph.layers for sizes in _stated(layer.op).values() for own in sizes):
        found[dim] = max(size, found.get(dim, 1))
    return found


def _stated(op: Op) -> dict[str, tuple[tuple[str, int], ...]]:
    return {name: sizes for name in op.sized if (sizes := getattr(op, name))}


class _Halved:
    """A network and how often each of its sizes may still be halved.

    The sizes of a network of named dims are these; otherwise they are its image (``""``) and its channels. ``sources`` has
    for each layer those whose ops say how many channels it has, ``ties`` for each of these the first one of those whose
    channels are divided alike, which names the size.
    """

    def __init__(self, graph: LayerGraph, degrees: Degrees) -> None:
        self.graph, self.degrees, self.named = graph, degrees, named_dims(graph)
        self.sources: dict[str, frozenset[str]] = {}
        self.ties: dict[str, str] = {}
        for layer in graph.layers:
            self._add(layer)
        self.halvings = Counter(self._most_named() if self.named else self._most())

    def network(self) -> LayerGraph:
        """Return the smallest valid network whose cuts are even where they were."""
        whole = {layer.name: layer for layer in self.graph.layers}
        while True:
            try:
                small = self.graph.with_ops({layer.name: self._op(layer) for layer in self.graph.layers})
                refused = [name for layer in small.layers for name in self._uneven(whole[layer.name], layer)]
            except ModelError as error:
                refused = self._of_layer(whole[error.where])
            halved = next(filter(self.halvings.get, refused), None)
            if halved is None:
                return small
            self.halvings[halved] -= 1

    def _add(self, layer: Layer) -> None:
        read = [self.sources[name] for name in layer.inputs]
        if any(hasattr(layer.op, name) for name in CHANNEL_FIELDS):
            self.sources[layer.name], self.ties[layer.name] = frozenset({layer.name}), layer.name
            tied = {layer.name, *read[0]} if _depthwise(layer) else set()
        else:
            self.sources[layer.name] = frozenset().union(*read)
            tied = set() if layer.nest(1).concatenates or len(read) < 2 else {*self.sources[layer.name]}
        old = {self.ties[name] for name in tied}
        self.ties |= {name: min(old) for name, tie in self.ties.items() if tie in old}

    def _most_named(self) -> dict[str, int]:
        """Return how often each named dim may be halved, rounding up; positions along which a convolution slides stay."""
        nests = [own.nest(1) for own in self.graph.layers]
        slid = [own.whole & {axis for read in own.inputs for axis in read.windows} for own in nests]
        stays = frozenset().union(*slid)
        return {dim: 0 if dim in stays else _most(size, LEAST_NAMED) for dim, size in self.named.items()}

    def _most(self) -> dict[str, int]:
        """Return how often an image may be halved, rounding up, and channels, in equal parts."""
        inputs = [layer.shape for layer in self.graph.layers if not layer.inputs]
        sides = [shape[dim] for shape in inputs for dim in IMAGE if "height" in shape]
        found = {"": _most(min(sides, default=1), LEAST_IMAGE)}
        for layer in self.graph.layers:
            if tie := self.ties.get(layer.name):
                size = layer.shape["channels"]
                even = (size & -size).bit_length() - 1
                found[tie] = min(found.get(tie, MOST_HALVINGS), _most(size, LEAST_CHANNELS), even)
        return found

    def _op(self, layer: Layer) -> Op:
        changes: dict[str, Any] = {
            name: tuple((dim, _divided(size, self.halvings[dim])) for dim, size in sizes)
            for name, sizes in _stated(layer.op).items()
        }
        if layer.name in self.ties and (times := self.halvings[self.ties[layer.name]]):
            fields = [name for name in CHANNEL_FIELDS if hasattr(layer.op, name)]
            for name in [*fields, *["groups"] * _depthwise(layer)]:
                changes[name] = getattr(layer.op, name) >> times
        if not layer.inputs and (times := self.halvings[""]):
            changes |= {dim: _divided(layer.shape[dim], times) for dim in IMAGE if dim in layer.shape}
        return layer.op.model_copy(update=changes) if changes else layer.op

    def _uneven(self, before: Layer, after: Layer) -> Iterator[str]:
        """Yield the sizes that may be larger of each dim of a layer that was cut evenly and now is not."""
        degrees = self.degrees.get(after.name, {})
        for dim, degree in degrees.items():
            pairs = zip(_sizes(before, dim), _sizes(after, dim), strict=True)
            if any(size % degree == 0 and left % degree for size, left in pairs):
                yield from self._of_dim(before, dim)
        read = after.nest(1).names["input"]
        for dim, size in after.nest(1).rounds.items():
            pieces = math.prod([size, *(degrees.get(op, 1) for op, name in read.items() if name == dim)])
            if _divided(self.named[dim], self.halvings[dim]) % pieces:
                yield dim

    def _of_dim(self, layer: Layer, dim: str) -> list[str]:
        if self.named or dim in IMAGE:
            return [atom_of(dim) if self.named else ""]
        if dim == "in_channels" or layer.name not in self.ties:
            return [*self._channels(*layer.inputs), ""]
        return self._channels(layer.name, *(layer.inputs if _depthwise(layer) else ()))

    def _of_layer(self, layer: Layer) -> list[str]:
        named = [dim for sizes in _stated(layer.op).values() for dim, _ in sizes]
        return ["", *named, *self._channels(layer.name, *layer.inputs)]

    def _channels(self, *names: str) -> list[str]:
        return sorted({self.ties[source] for name in names for source in self.sources[name]})


def _most(size: int, least: int) -> int:
    return next(count for count in range(MOST_HALVINGS) if _divided(size, count + 1) < least)


def _divided(size: int, halvings: int) -> int:
    return -(-size >> halvings)


def _sizes(layer: Layer, dim: str) -> tuple[int, ...]:
    """Return the sizes of a dim: those of each input where channels are concatenated; samples are no concern here."""
    if dim == "batch":
        return ()
    if dim == "channels" and layer.nest(1).concatenates:
        return tuple(shape["channels"] for shape in layer.input_shapes)
    return (layer.nest(1).sizes[dim],)


def _depthwise(layer: Layer) -> bool:
    """Return whether a layer has a group for each channel that it reads, so that both are divided alike."""
    groups = getattr(layer.op, "groups", 1)
    return bool(groups > 1 and groups == layer.input_shapes[0]["channels"])


def changes_of(graph: LayerGraph, small: LayerGraph) -> tuple[str, ...]:
    """Describe the sizes that differ between a network and a smaller one."""
    found = [] if small.batch == graph.batch else [f"batch {graph.batch:,} to {small.batch:,}"]
    before, after = named_dims(graph), named_dims(small)
    found += [f"{dim} {size:,} to {after[dim]:,}" for dim, size in before.items() if size != after[dim]]
    if before:
        return tuple(found)
    channels: Counter[int] = Counter()
    for whole, now in zip(graph.layers, small.layers, strict=True):
        if not whole.inputs and whole.shape != now.shape:
            large, less = ("x".join(map(str, one.shape.values())) for one in (whole, now))
            found.append(f"{whole.name} {large} to {less}")
        if whole.weighted and whole.shape["channels"] > now.shape["channels"]:
            channels[whole.shape["channels"] // now.shape["channels"]] += 1
    parts = (f"{count} layer{'s' * (count > 1)} divided by {by}" for by, count in sorted(channels.items()))
    return (*found, *(f"channels of {part}" for part in parts))
