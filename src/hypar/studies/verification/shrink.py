"""A smaller network with the same cuts: channels and images divided by powers of two, and a smaller mini-batch.

Every dim that a plan cuts into equal pieces is cut into equal pieces again. Channels that must agree, as those of the
inputs of an addition, are divided alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypar.errors import ModelError
from hypar.studies.verification.shrink_dims import named_dims, with_smaller_dims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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

MOST_HALVINGS = 24

CHANNEL_FIELDS = ("out_channels", "out_features", "channels")
"""The fields of ops that say how many channels they make."""

IMAGE = ("height", "width")


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
    small = (
        with_smaller_dims(graph, degrees) if named_dims(graph) else _Shrinking.of(degrees, graph).network()
    )
    return small.with_batch(samples)


def _samples(degrees: Mapping[str, Mapping[str, int]], samples: int) -> int:
    """Return the least number of samples of a microbatch."""
    ways = math.lcm(*(own.get("batch", 1) for own in degrees.values()))
    while samples % 2 == 0 and samples // 2 >= LEAST_SAMPLES:
        even = [own.get("batch", 1) for own in degrees.values() if samples % own.get("batch", 1) == 0]
        if any((samples // 2) % ways for ways in even) or samples // 2 < ways:
            break
        samples //= 2
    return samples


def even_degrees(plan: Plan) -> dict[str, dict[str, int]]:
    """Return the number of equal pieces into which each layer's dims are cut; not of dims that uneven shares cut."""
    found: dict[str, dict[str, int]] = {}
    for layer in plan.layers:
        own: dict[str, int] = {}
        for group in plan.groups:
            if group.idle or any(layer not in split.choices for split in group.splits):
                continue
            uneven = {dim for split, _ in group.above for dim in split.choice(layer).divided}
            degrees: dict[str, int] = {}
            for split in group.splits:
                for dim, degree in split.choice(layer).as_degrees().items():
                    degrees[dim] = degrees.get(dim, 1) * degree
            for dim, degree in degrees.items():
                own[dim] = math.lcm(own.get(dim, 1), 1 if dim in uneven else degree)
        found[layer] = own
    return found


@dataclass(frozen=True, kw_only=True)
class _Shrinking:
    """A network and how often its sizes may still be halved.

    Attributes:
        graph: the network.
        degrees: the number of equal pieces of each layer's dims.
        planned: the names of the layers that the plan's graph has.
        sources: for each layer, those whose ops say how many channels it has.
        ties: for each such layer, the first of those whose channels are divided alike.
        halvings: how often the channels of each tie, and the image (``""``), are halved.
    """

    graph: LayerGraph
    degrees: Mapping[str, Mapping[str, int]]
    sources: Mapping[str, frozenset[str]]
    ties: Mapping[str, str]
    halvings: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, degrees: Mapping[str, Mapping[str, int]], graph: LayerGraph) -> _Shrinking:
        """Return the state in which everything is halved most often."""
        sources, ties = _sources(graph)
        found = cls(graph=graph, degrees=degrees, sources=sources, ties=ties)
        found.halvings[""] = _halvings_of_image(graph)
        for layer in graph.layers:
            if layer.name in ties:
                size, tie = layer.shape["channels"], ties[layer.name]
                most = next(count for count in range(MOST_HALVINGS) if not _halves(size, count + 1))
                found.halvings[tie] = min(found.halvings.get(tie, MOST_HALVINGS), most)
        return found

    def network(self) -> LayerGraph:
        """Return the smallest valid network whose cuts are even where they were."""
        while True:
            try:
                small = self.graph.with_ops({layer.name: self._op(layer) for layer in self.graph.layers})
                refused = next(self._refused(small), None)
            except ModelError as error:
                layer = next(layer for layer in self.graph.layers if layer.name == error.where)
                refused = ("", *self._ties(layer, *layer.inputs))
            if refused is None:
                return small
            self._less(refused)

    def _less(self, names: Iterable[str]) -> None:
        """Halve the first of some sizes that is halved at all once less."""
        self.halvings[next(name for name in names if self.halvings[name])] -= 1

    def _ties(self, *names: Layer | str) -> tuple[str, ...]:
        """Return the ties of the channels of some layers."""
        wanted = [name if isinstance(name, str) else name.name for name in names]
        return tuple(sorted({self.ties[source] for name in wanted for source in self.sources[name]}))

    def _op(self, layer: Layer) -> Op:
        """Return the op of a layer in the smaller network."""
        changes: dict[str, int] = {}
        if layer.name in self.ties:
            times = 2 ** self.halvings[self.ties[layer.name]]
            changes = {
                name: getattr(layer.op, name) // times for name in CHANNEL_FIELDS if hasattr(layer.op, name)
            }
            if _depthwise(layer):
                changes["groups"] = layer.op.groups // times  # type: ignore[attr-defined]
        if not layer.inputs:
            image = 2 ** self.halvings[""]
            changes |= {dim: -(-layer.shape[dim] // image) for dim in IMAGE if dim in layer.shape}
        return layer.op.model_copy(update=changes) if changes else layer.op

    def _refused(self, small: LayerGraph) -> Iterator[tuple[str, ...]]:
        """Yield the sizes of which one is too small, for each dim that was cut evenly and now is not."""
        layers = {layer.name: layer for layer in self.graph.layers}
        for layer in small.layers:
            for dim, degree in self.degrees.get(layer.name, {}).items():
                whole, now = (_sizes(one, dim) for one in (layers[layer.name], layer))
                if any(size % degree == 0 and left % degree for size, left in zip(whole, now, strict=True)):
                    yield self._of_dim(layer, dim)

    def _of_dim(self, layer: Layer, dim: str) -> tuple[str, ...]:
        """Return the sizes on which a dim of a layer depends."""
        if dim in IMAGE:
            return ("",)
        if dim == "in_channels" or layer.name not in self.ties:
            return (*self._ties(*layer.inputs), "")
        return self._ties(layer, *(layer.inputs if _depthwise(layer) else ()))


def _sizes(layer: Layer, dim: str) -> tuple[int, ...]:
    """Return the sizes of a dim: those of each input where channels are concatenated; samples are no concern here."""
    if dim == "batch":
        return ()
    if dim == "channels" and layer.op.concatenates:
        return tuple(shape["channels"] for shape in layer.input_shapes)
    return (layer.einsum(1).sizes[dim],)


def _halvings_of_image(graph: LayerGraph) -> int:
    """Return how often the network's input can be halved, rounding up."""
    images = [layer.shape for layer in graph.layers if not layer.inputs and "height" in layer.shape]
    smallest = min((shape[dim] for shape in images for dim in IMAGE), default=1)
    return next(count for count in range(MOST_HALVINGS) if -(-smallest // 2 ** (count + 1)) < LEAST_IMAGE)


def _halves(size: int, times: int) -> bool:
    return size % (1 << times) == 0 and size >> times >= LEAST_CHANNELS


def _depthwise(layer: Layer) -> bool:
    """Return whether a layer has a group for each channel that it reads, so that both are divided alike."""
    groups = getattr(layer.op, "groups", 1)
    return bool(groups > 1 and groups == layer.input_shapes[0]["channels"])


def _sources(graph: LayerGraph) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
    """Return the layers that say how many channels each layer has, and the first of those that agree with each of them."""
    sources: dict[str, frozenset[str]] = {}
    ties: dict[str, str] = {}
    for layer in graph.layers:
        read = [sources[name] for name in layer.inputs]
        if any(hasattr(layer.op, name) for name in CHANNEL_FIELDS):
            sources[layer.name] = frozenset({layer.name})
            ties[layer.name] = layer.name
            if _depthwise(layer):
                _tie(ties, layer.name, *read[0])
        else:
            sources[layer.name] = frozenset().union(*read)
            if not layer.op.concatenates and len(read) > 1:
                _tie(ties, *sources[layer.name])
    return sources, ties


def _tie(ties: dict[str, str], *names: str) -> None:
    """Give some layers, and all that agree with them, one tie."""
    old = {ties[name] for name in names}
    ties |= {name: min(old) for name, tie in ties.items() if tie in old}


def changes_of(graph: LayerGraph, small: LayerGraph, batch: int) -> tuple[str, ...]:
    """Describe the sizes that differ between a network and a smaller one."""
    found = [f"batch {batch:,} to {small.batch:,}"] if small.batch != batch else []
    channels: dict[int, int] = {}
    dims = named_dims(small)
    found += [
        f"{dim} {size:,} to {dims[dim]:,}" for dim, size in named_dims(graph).items() if size != dims[dim]
    ]
    for before, after in zip(graph.layers, small.layers, strict=True):
        if not before.inputs and not dims and before.shape != after.shape:
            whole, now = ("x".join(map(str, shape.values())) for shape in (before.shape, after.shape))
            found.append(f"{before.name} {whole} to {now}")
        if (
            before.op.weighted
            and not dims
            and (times := before.shape["channels"] // after.shape["channels"]) > 1
        ):
            channels[times] = channels.get(times, 0) + 1
    for times, count in sorted(channels.items()):
        found.append(f"channels of {count} layer{'s' * (count > 1)} divided by {times}")
    return tuple(found)
