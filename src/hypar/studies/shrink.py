"""A smaller network with the same cuts: sizes divided by powers of two, and a smaller mini-batch.

Every dim that a plan cuts into equal pieces is cut into equal pieces again. Channels that must agree, as those of the
inputs of an addition, are divided alike, and so is a named dim wherever it occurs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError
from hypar.network.dims import atom_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.network.ops.base import Op
    from hypar.plan.plan import Plan

LEAST_CHANNELS = 8
"""Channels that are left at least."""

LEAST_IMAGE = 16
"""Rows and columns of the network's input that are left at least."""

LEAST_SAMPLES = 4
"""Samples of a microbatch that are left at least."""

LEAST_NAMED = 4
"""Elements of a named dim that are left at least."""

MOST_HALVINGS = 40

CHANNEL_FIELDS = ("out_channels", "out_features", "channels")
"""The fields of ops that say how many channels they make."""

IMAGE = ("height", "width")

Degrees = dict[str, dict[str, int]]
"""The number of equal pieces of each layer's dims."""


def shrunk(plan: Plan, graph: LayerGraph, microbatches: int, batch: int | None) -> LayerGraph:
    """Return the smallest network that dividing by powers of two gives.

    Args:
        plan: the plan whose cuts stay even.
        graph: its network.
        microbatches: number of microbatches of a mini-batch.
        batch: the mini-batch, if it is given.
    """
    degrees = even_degrees(plan)
    samples = _samples(degrees, graph.batch // microbatches) * microbatches if batch is None else batch
    return _Halved(graph, degrees).network().with_batch(samples)


def even_degrees(plan: Plan) -> Degrees:
    """Return the number of equal pieces into which each layer's dims are cut; not of dims that uneven shares cut."""
    found: Degrees = {}
    for layer in plan.layers:
        own: dict[str, int] = {}
        for group in plan.groups:
            if group.idle or any(layer not in split.choices for split in group.splits):
                continue
            uneven = {dim for split, _ in group.above for dim in split.choice(layer).divided}
            degrees: Counter[str] = Counter()
            for split in group.splits:
                for dim, degree in split.choice(layer).as_degrees().items():
                    degrees[dim] = max(degrees[dim], 1) * degree
            for dim, degree in degrees.items():
                own[dim] = math.lcm(own.get(dim, 1), 1 if dim in uneven else degree)
        found[layer] = own
    return found


def _samples(degrees: Degrees, samples: int) -> int:
    """Return the least number of samples of a microbatch."""
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
    """Return the fields of an op that state the sizes of dims."""
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
        self.halvings = Counter(self._most())

    def network(self) -> LayerGraph:
        """Return the smallest valid network whose cuts are even where they were."""
        whole = {layer.name: layer for layer in self.graph.layers}
        while True:
            try:
                small = self.graph.with_ops({layer.name: self._op(layer) for layer in self.graph.layers})
                found = (sizes for layer in small.layers for sizes in self._uneven(whole[layer.name], layer))
                refused = next((own for sizes in found if (own := self._halved(sizes))), None)
            except ModelError as error:
                refused = self._halved(self._of_layer(whole[error.where]))
            if refused is None:
                return small
            self.halvings[refused[0]] -= 1

    def _halved(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if self.halvings[name]]

    def _add(self, layer: Layer) -> None:
        read = [self.sources[name] for name in layer.inputs]
        if any(hasattr(layer.op, name) for name in CHANNEL_FIELDS):
            self.sources[layer.name] = frozenset({layer.name})
            self.ties[layer.name] = layer.name
            if _depthwise(layer):
                self._tie(layer.name, *read[0])
        else:
            self.sources[layer.name] = frozenset().union(*read)
            if not layer.op.concatenates and len(read) > 1:
                self._tie(*self.sources[layer.name])

    def _tie(self, *names: str) -> None:
        """Give some layers, and all that agree with them, one tie."""
        old = {self.ties[name] for name in names}
        self.ties |= {name: min(old) for name, tie in self.ties.items() if tie in old}

    def _most(self) -> dict[str, int]:
        """Return how often each size may be halved: channels in equal parts, an image and named dims rounding up.

        Positions along which a convolution slides stay as they are.
        """
        layers = self.graph.layers
        if self.named:
            slid = [own.einsum(1).whole & {*own.op.windows_on(own.input_shapes)} for own in layers]
            most = {dim: _most(size, LEAST_NAMED) for dim, size in self.named.items()}
            return most | dict.fromkeys(set().union(*slid) & {*most}, 0)
        images = [layer.shape for layer in layers if not layer.inputs and "height" in layer.shape]
        found = {"": _most(min((shape[dim] for shape in images for dim in IMAGE), default=1), LEAST_IMAGE)}
        for layer in layers:
            if layer.name in self.ties:
                tie, size = self.ties[layer.name], layer.shape["channels"]
                even = (size & -size).bit_length() - 1
                found[tie] = min(found.get(tie, MOST_HALVINGS), _most(size, LEAST_CHANNELS), even)
        return found

    def _op(self, layer: Layer) -> Op:
        changes: dict[str, Any] = {
            name: tuple((dim, _divided(size, self.halvings[dim])) for dim, size in sizes)
            for name, sizes in _stated(layer.op).items()
        }
        if times := self.halvings[self.ties.get(layer.name, "")] * (layer.name in self.ties):
            fields = [name for name in CHANNEL_FIELDS if hasattr(layer.op, name)]
            for name in [*fields, *["groups"] * _depthwise(layer)]:
                changes[name] = getattr(layer.op, name) >> times
        if not layer.inputs and self.halvings[""]:
            changes |= {
                dim: _divided(layer.shape[dim], self.halvings[""]) for dim in IMAGE if dim in layer.shape
            }
        return layer.op.model_copy(update=changes) if changes else layer.op

    def _uneven(self, before: Layer, after: Layer) -> Iterator[tuple[str, ...]]:
        """Yield the names of the sizes of each dim of a layer that was cut evenly and now is not."""
        degrees = self.degrees.get(after.name, {})
        for dim, degree in degrees.items():
            whole, now = (_sizes(one, dim) for one in (before, after))
            if any(size % degree == 0 and left % degree for size, left in zip(whole, now, strict=True)):
                yield self._of_dim(before, dim)
        read = after.einsum(1).input
        for dim, size in after.op.rounds.items():
            pieces = math.prod([size, *(degrees.get(op, 1) for op, name in read.items() if name == dim)])
            if self.halvings[dim] and _divided(self.named[dim], self.halvings[dim]) % pieces:
                yield (dim,)

    def _of_dim(self, layer: Layer, dim: str) -> tuple[str, ...]:
        """Return the names of the sizes on which a dim of a layer depends."""
        if self.named or dim in IMAGE:
            return (atom_of(dim) if self.named else "",)
        if dim == "in_channels" or layer.name not in self.ties:
            return (*self._channels(*layer.inputs), "")
        return self._channels(layer.name, *(layer.inputs if _depthwise(layer) else ()))

    def _of_layer(self, layer: Layer) -> tuple[str, ...]:
        named = [dim for sizes in _stated(layer.op).values() for dim, _ in sizes]
        return ("", *named, *self._channels(layer.name, *layer.inputs))

    def _channels(self, *names: str) -> tuple[str, ...]:
        return tuple(sorted({self.ties[source] for name in names for source in self.sources[name]}))


def _most(size: int, least: int) -> int:
    """Return how often a size can be halved, rounding up, while enough is left."""
    return next(count for count in range(MOST_HALVINGS) if _divided(size, count + 1) < least)


def _divided(size: int, halvings: int) -> int:
    return -(-size >> halvings)


def _sizes(layer: Layer, dim: str) -> tuple[int, ...]:
    """Return the sizes of a dim: those of each input where channels are concatenated; samples are no concern here."""
    if dim == "batch":
        return ()
    if dim == "channels" and layer.op.concatenates:
        return tuple(shape["channels"] for shape in layer.input_shapes)
    return (layer.einsum(1).sizes[dim],)


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
        if whole.op.weighted:
            channels[whole.shape["channels"] // now.shape["channels"]] += 1
    for times, count in sorted(channels.items()):
        if times > 1:
            found.append(f"channels of {count} layer{'s' * (count > 1)} divided by {times}")
    return tuple(found)
