"""The contracted graph of a network: weighted layers and joins, connected by the tensors between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from hypar.network.dims import atom_of
from hypar.network.layer import ties_of
from hypar.network.trails import traffic_behind, trails_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hypar.network.einsum import Behind, Einsum
    from hypar.network.keeping import Trailing
    from hypar.network.layer import Layer
    from hypar.network.ops.base import Op, Shape
    from hypar.network.trails import Trails

P = ParamSpec("P")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLayer:
    """A node of the contracted graph: a weighted layer or a join; in the operator graph also a pool.

    With it come the ops that are not cut themselves: those behind it, up to the layers that read them, and for a layer
    that reads the network's input those before it.

    Attributes:
        name: the layer's name.
        op_name: name of its op's plug-in.
        join: whether it joins tensors, without a weight.
        einsum: its dims and tensors for the mini-batch; layers with equal dims share one object.
        output_elements: elements of F_out as its readers see it, after pooling and other unplanned ops.
        trail: the layer itself, then the ops behind it; its tensors are numbered from 0, the layer's own output.
        ahead: the network's input and the ops between it and the layer; empty if the layer reads other cut layers alone.
        channels: the dims that some weight of the network contracts or makes.
    """

    name: str
    op_name: str
    join: bool
    einsum: Einsum
    output_elements: int
    trail: tuple[Trailing, ...]
    ahead: tuple[Trailing, ...]
    channels: tuple[str, ...] = ()

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight."""
        return bool(self.einsum.weight)

    @property
    def timed(self) -> bool:
        """Whether its computation takes time: a layer with a weight, or a product of activations."""
        return self.einsum.contracts

    @property
    def empty(self) -> bool:
        """Whether an uneven split has left nothing of the layer to this device group."""
        return not (all(self.einsum.steps.values()) if self.timed else self.einsum.input_elements)

    def read_at(self, operand: int) -> CutLayer:
        """Return the layer with one of its operands as the first; see ``Einsum.read_at``."""
        return replace(self, einsum=self.einsum.read_at(operand)) if operand else self

    def resized(self, einsum: Einsum, output_elements: int) -> CutLayer:
        """Return the layer with other sizes; written out, as many layers are made for every decision of an uneven split."""
        return CutLayer(
            name=self.name,
            op_name=self.op_name,
            join=self.join,
            einsum=einsum,
            output_elements=output_elements,
            trail=self.trail,
            ahead=self.ahead,
            channels=self.channels,
        )

    @property
    def of_weight(self) -> CutLayer:
        """The layer as the transfers of its weight see it; see ``Einsum.of_weight``."""
        return replace(self, einsum=self.einsum.of_weight)

    def elements(self, tensor: str) -> int:
        """Return the elements of ``input``, ``weight`` or ``output`` for the whole mini-batch."""
        return self.output_elements if tensor == "output" else self.einsum.elements(tensor)


WEIGHT = -1
"""In place of an operand: the weight of both layers."""


class Content(NamedTuple):
    """A tensor's size and shape, independent of its ends.

    Attributes:
        elements: number of elements as the consumer reads it, whole mini-batch.
        contracted: dims of the producer's output that ops on the way sum over, such as a global pool.
        shape: the dims of one sample and their sizes, before it is flattened.
    """

    elements: int
    contracted: frozenset[str]
    shape: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An edge of the contracted graph: a tensor between two cut layers.

    Attributes:
        producer: index of the layer that writes it.
        consumer: index of the layer that reads it.
        content: its size and shape.
        number: its number among the tensors of the producer's trail.
        operand: the consumer's operand that it is; 0 for joins, which read all their inputs alike; ``WEIGHT`` for a weight
            that both layers use.
    """

    producer: int
    consumer: int
    content: Content
    number: int
    operand: int = 0

    @property
    def elements(self) -> int:
        """Number of elements as the consumer reads it, whole mini-batch."""
        return self.content.elements


class _Fields(NamedTuple):
    """The fields of a contracted graph.

    Attributes:
        layers: the layers.
        tensors: the tensors.
        fed: of a part of a network, the layers that send an error to layers outside it.
        sent: the layers whose outputs layers outside read.
        ties: the weights that a later layer uses as well, each from the layer whose weight it is.
    """

    layers: tuple[CutLayer, ...]
    tensors: tuple[Tensor, ...]
    fed: frozenset[int] = frozenset()
    sent: frozenset[int] = frozenset()
    ties: tuple[Tensor, ...] = ()


class ContractedGraph(_Fields):
    """The cut layers in topological order, and the tensors between them.

    Results that depend on the graph alone are kept with it: see ``kept_with_graph``.
    """

    def ends(self, tensor: Tensor) -> tuple[CutLayer, CutLayer]:
        """Return the producer of a tensor, and its consumer with the tensor as its first input; both with a weight as it."""
        if tensor.operand == WEIGHT:
            return self.layers[tensor.producer].of_weight, self.layers[tensor.consumer].of_weight
        return self.layers[tensor.producer], self.layers[tensor.consumer].read_at(tensor.operand)

    @cached_property
    def named_dims(self) -> frozenset[str]:
        """The dims that the model names, and those of its ops."""
        dims = {dim for layer in self.layers for dim in layer.einsum.roles.extra}
        return frozenset(dims | {atom_of(dim) for dim in dims})

    @cached_property
    def kept(self) -> dict[Hashable, Any]:
        """The results that were computed of it or of an equal graph, by function and further arguments."""
        return _kept(self)


@lru_cache(maxsize=256)
def _kept(_: ContractedGraph) -> dict[Hashable, Any]:
    """Return one place for the results of equal graphs."""
    return {}


def kept_with_graph(
    function: Callable[Concatenate[ContractedGraph, P], Found],
) -> Callable[Concatenate[ContractedGraph, P], Found]:
    """Keep the results of a function of a graph and of hashable arguments with the graph.

    A graph is hashed and compared once, and not for every result, as by ``lru_cache``.
    """

    @wraps(function)
    def found(graph: ContractedGraph, /, *args: P.args, **kwargs: P.kwargs) -> Found:
        key = (function, args, *kwargs.items())
        kept = graph.kept
        if key not in kept:
            kept[key] = function(graph, *args, **kwargs)
        known: Found = kept[key]
        return known

    return found


def contract(layers: Sequence[Layer], batch: int, *, operators: bool = False) -> ContractedGraph:
    """Contract a network to its weighted layers and joins.

    Args:
        layers: in topological order.
        batch: samples in a mini-batch.
        operators: whether pools stay as well.
    """
    cut = [layer for layer in layers if layer.op.weighted or layer.op.join or (operators and layer.op.pools)]
    index = {layer.name: number for number, layer in enumerate(cut)}
    by_name = {layer.name: layer for layer in layers}
    trails = trails_of(layers, index, batch)
    tensors = []
    for consumer, layer in enumerate(cut):
        operands = layer.op.operands
        for at, (name, shape) in enumerate(zip(layer.inputs, layer.input_shapes, strict=True)):
            producer, contracted, before = _producer(name, shape, by_name, index)
            if producer is not None:
                elements = batch * math.prod(shape.values())
                content = Content(elements, contracted, tuple(before.items()))
                number = trails.number_of(name)
                tensors.append(
                    Tensor(
                        producer=producer,
                        consumer=consumer,
                        content=content,
                        number=number,
                        operand=at if operands > 1 else 0,
                    )
                )
    nodes = _cut_layers(cut, layers, batch, trails)
    return ContractedGraph(layers=nodes, tensors=tuple(tensors), ties=tuple(_ties(layers, nodes, index)))


def _ties(layers: Sequence[Layer], nodes: Sequence[CutLayer], index: dict[str, int]) -> Iterator[Tensor]:
    """Yield the weights that two layers use."""
    for tie in ties_of(layers):
        owner, user = index[tie.owner], index[tie.user]
        einsum = nodes[owner].einsum
        shape = tuple((atom, einsum.sizes[dim]) for dim, atom in einsum.of_weight.output.items())
        content = Content(einsum.elements("weight"), frozenset(), shape)
        yield Tensor(producer=owner, consumer=user, content=content, number=0, operand=WEIGHT)


def _cut_layers(
    cut: Sequence[Layer], layers: Sequence[Layer], batch: int, trails: Trails
) -> tuple[CutLayer, ...]:
    """Return the nodes of the contracted graph; layers with equal dims share one einsum."""
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    shared: dict[
        tuple[Op, tuple[tuple[tuple[str, int], ...], ...], frozenset[str], tuple[Behind, ...]], Einsum
    ] = {}
    equal: dict[object, Einsum] = {}
    found, kept = [], {layer.name for layer in cut}
    together, features = _together(layers, kept), _features(cut, batch)
    for layer in cut:
        undivided = together.get(layer.name, frozenset())
        trail = trails.behind(layer)
        behind = traffic_behind(trail)
        key = (layer.op, tuple(tuple(shape.items()) for shape in layer.input_shapes), undivided, behind)
        if key not in shared:
            einsum = replace(layer.einsum(batch), behind=behind)
            if undivided:
                whole = {dim for dim, atom in einsum.output.items() if atom in undivided}
                einsum = replace(einsum, whole=einsum.whole | whole)
            shared[key] = equal.setdefault(einsum.content, einsum)
        found.append(
            CutLayer(
                name=layer.name,
                op_name=layer.op_name,
                join=layer.op.join,
                einsum=shared[key],
                channels=tuple(dim for dim in shared[key].cuttable if atom_of(dim) in features),
                output_elements=batch * math.prod(_as_read(layer, readers, kept).shape.values()),
                trail=trail,
                ahead=trails.before(layer),
            )
        )
    return tuple(found)


def _together(layers: Sequence[Layer], cut: set[str]) -> dict[str, frozenset[str]]:
    """Return, for each cut layer, the dims of its output that an op behind it needs whole."""
    found: dict[str, frozenset[str]] = {}
    maker: dict[str, str] = {}
    for layer in layers:
        maker[layer.name] = layer.name if layer.name in cut or not layer.inputs else maker[layer.inputs[0]]
        if layer.op.together:
            own = maker[layer.name]
            found[own] = found.get(own, frozenset()) | layer.op.together
    return found


def _features(cut: Sequence[Layer], batch: int) -> frozenset[str]:
    """Return the names in tensors of the dims that weights contract or make; of a convolution and a join ``channels``."""
    found = {"channels"}
    for layer in cut:
        if layer.op.weighted and layer.op.names_dims:
            einsum = layer.einsum(batch)
            found |= {atom_of(dim) for dim in einsum.weight}
    return frozenset(found)


def _as_read(layer: Layer, readers: dict[str, list[Layer]], kept: set[str]) -> Layer:
    """Return the last op behind a layer before its output branches or a node reads it."""
    while len(after := readers.get(layer.name, [])) == 1 and after[0].name not in kept:
        layer = after[0]
    return layer


def _producer(
    name: str, shape: Shape, by_name: dict[str, Layer], index: dict[str, int]
) -> tuple[int | None, frozenset[str], Shape]:
    """Return a tensor's producer (None for the network's input), the dims contracted on the way, and its shape.

    The shape is the one that the consumer reads, before it is flattened.
    """
    contracted: frozenset[str] = frozenset()
    while name not in index:
        layer = by_name[name]
        if not layer.inputs:
            return None, contracted, shape
        contracted |= layer.op.contracts(layer.input_shapes)
        if len(shape) < len(layer.input_shapes[0]):
            shape = layer.input_shapes[0]
        name = layer.inputs[0]
    return index[name], contracted, shape
