"""The plan graph of a network: weighted layers and joins with the ops fused behind them, and the tensors between them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from hypar.network.layer import Layer, ties_of
from hypar.ops.dims import KERNEL, atom_of
from hypar.ops.nest import Nest, Saved, Traffic, operand_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from hypar.ops.base import Shape

P = ParamSpec("P")
Found = TypeVar("Found")


class FusedOp(NamedTuple):
    """An op of a plan node as memory sees it: the tensor that it reads, the one that it writes, and what it keeps.

    Attributes:
        source: number of the tensor that it reads; None for one that comes from another node, or for none.
        target: number of the tensor that it writes.
        elements: elements of that tensor.
        contracted: dims of the node's output that have been summed over.
        saved: what it keeps for its backward phase.
        traffic: the elements that it reads and writes.
        readers: the number of ops that read the tensor that it writes, whose errors are added up.
    """

    source: int | None
    target: int
    elements: int
    contracted: frozenset[str] = frozenset()
    saved: Saved = Saved()
    traffic: Traffic = Traffic()
    readers: int = 1


class LayerOp(NamedTuple):
    """A layer of a plan node as a step runs it, with its nest for the mini-batch, and its tensor's ``number`` in the node's trail."""

    name: str
    inputs: tuple[str, ...]
    nest: Nest
    number: int
    layer: Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """A node of the contracted graph: a weighted layer or a join; in the operator graph also a pool.

    With it come the ops that are not cut themselves: those behind it, up to the layers that read them, and for a layer
    that reads the network's input those before it.

    Attributes:
        name: the layer's name.
        op_name: name of its op's plug-in.
        join: whether it joins tensors, without a weight.
        nest: its dims and tensors for the mini-batch; layers with equal dims share one object.
        output_elements: elements of F_out as its readers see it, after pooling and other unplanned ops.
        trail: the layer itself, then the ops behind it; its tensors are numbered from 0, the layer's own output.
        channels: the dims that some weight of the network contracts or makes.
        ops: the layers behind the network's input that it reads, and its own, with those that only view a tensor.
    """

    name: str
    op_name: str
    join: bool
    nest: Nest
    output_elements: int
    trail: tuple[FusedOp, ...]
    channels: tuple[str, ...] = ()
    ops: tuple[LayerOp, ...] = field(default=(), compare=False)

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight."""
        return bool(self.nest.weight)

    @property
    def rest(self) -> bool:
        """Whether it is a tensor at rest between the node that makes it and several that multiply it."""
        return self.nest.view

    @property
    def timed(self) -> bool:
        """Whether its computation takes time: a layer with a weight, or a product of activations."""
        return self.nest.multiplies

    @property
    def empty(self) -> bool:
        """Whether an uneven split has left nothing of the layer to this device group."""
        return not (all(self.nest.steps.values()) if self.timed else self.nest.input_elements)

    def resized(self, nest: Nest, output_elements: int) -> PlanNode:
        """Return the layer with other sizes; written out, as many layers are made for every decision of an uneven split."""
        return PlanNode(
            name=self.name,
            op_name=self.op_name,
            join=self.join,
            nest=nest,
            output_elements=output_elements,
            trail=self.trail,
            channels=self.channels,
            ops=self.ops,
        )

    def elements(self, tensor: str) -> int:
        """Return the elements of ``input``, ``weight`` or ``output`` for the whole mini-batch."""
        return self.output_elements if tensor == "output" else self.nest.elements(tensor)


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
        operand: the consumer's tensor that it is, ``input`` for joins, which read all their inputs alike; ``weight`` for one that
            both layers use.
        at: its number among the consumer's inputs.
    """

    producer: int
    consumer: int
    content: Content
    number: int
    operand: str = "input"
    at: int = 0

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

    layers: tuple[PlanNode, ...]
    tensors: tuple[Tensor, ...]
    fed: frozenset[int] = frozenset()
    sent: frozenset[int] = frozenset()
    ties: tuple[Tensor, ...] = ()


class PlanGraph(_Fields):
    """The cut layers in topological order, and the tensors between them.

    Results that depend on the graph alone are kept with it: see ``kept_with_graph``.
    """

    def ends(self, tensor: Tensor) -> tuple[PlanNode, PlanNode]:
        """Return the producer of a tensor, and its consumer."""
        return self.layers[tensor.producer], self.layers[tensor.consumer]

    @cached_property
    def named_dims(self) -> frozenset[str]:
        """The dims that the model names, and those of its ops."""
        dims = {dim for layer in self.layers for dim in layer.nest.extra}
        return frozenset(dims | {atom_of(dim) for dim in dims})

    @cached_property
    def kept(self) -> dict[Hashable, Any]:
        """The results that were computed of it or of an equal graph, by function and further arguments."""
        return _kept(self)


@lru_cache(maxsize=256)
def _kept(_: PlanGraph) -> dict[Hashable, Any]:
    """Return one place for the results of equal graphs."""
    return {}


def kept_with_graph(
    function: Callable[Concatenate[PlanGraph, P], Found],
) -> Callable[Concatenate[PlanGraph, P], Found]:
    """Keep the results of a function of a graph and of hashable arguments with the graph.

    A graph is hashed and compared once, and not for every result, as by ``lru_cache``.
    """

    @wraps(function)
    def found(graph: PlanGraph, /, *args: P.args, **kwargs: P.kwargs) -> Found:
        key = (function, args, *kwargs.items())
        kept = graph.kept
        if key not in kept:
            kept[key] = function(graph, *args, **kwargs)
        known: Found = kept[key]
        return known

    return found


def contract(layers: Sequence[Layer], batch: int, *, operators: bool = False) -> PlanGraph:
    """Contract a network to its weighted layers and joins.

    Args:
        layers: in topological order.
        batch: samples in a mini-batch.
        operators: whether pools stay as well.
    """
    kept = {"weight", "join", *(["pool"] if operators else [])}
    cut = [layer for layer in layers if layer.op.node in kept]
    index = {layer.name: number for number, layer in enumerate(cut)}
    fused = Fused(layers, index, batch)
    nodes = _nodes(cut, layers, batch, fused)
    tensors = []
    for consumer, layer in enumerate(cut):
        several = len(nodes[consumer].nest.others)
        for at, (name, shape) in enumerate(zip(layer.inputs, layer.input_shapes, strict=True)):
            producer, number = fused.places[name]
            if producer is not None:
                contracted, before = fused.behind[producer][number].contracted, fused.shapes[name]
                content = Content(batch * math.prod(shape.values()), contracted, tuple(before.items()))
                ends = {"producer": index[producer], "consumer": consumer}
                operand = operand_name(at) if several else "input"
                tensors.append(Tensor(**ends, content=content, number=number, operand=operand, at=at))
    return PlanGraph(layers=nodes, tensors=tuple(tensors), ties=tuple(_ties(layers, nodes, index)))


def _ties(layers: Sequence[Layer], nodes: Sequence[PlanNode], index: dict[str, int]) -> Iterator[Tensor]:
    """Yield the weights that two layers use."""
    for tie in ties_of(layers):
        owner, user = index[tie.owner], index[tie.user]
        nest = nodes[owner].nest
        shape = tuple((atom_of(dim), nest.sizes[dim]) for dim in nest.weight)
        content = Content(nest.elements("weight"), frozenset(), shape)
        yield Tensor(producer=owner, consumer=user, content=content, number=0, operand="weight")


class Fused:
    """The ops of each node: the node's own, then those behind it.

    Attributes:
        places: for each layer the name of the node among whose tensors its output is, with the number of that tensor; None
            instead of a name for tensors between the network's input and its first nodes.
        shapes: for each layer the shape of its output before it is flattened.
        behind: the ops of each node.
        ops: its layers, and under None those before all nodes.
    """

    def __init__(self, layers: Sequence[Layer], cut: Mapping[str, int], batch: int) -> None:
        self.places: dict[str, tuple[str | None, int]] = {}
        self.shapes: dict[str, Shape] = {}
        self.behind: dict[str, list[FusedOp]] = {}
        self.ops: dict[str | None, list[LayerOp]] = {}
        for number, layer in enumerate(layers):
            nest = layer.nest(batch)
            self.places[layer.name] = owner, at = self._placed(number, layer, nest, layer.name in cut)
            self.ops.setdefault(owner, []).append(LayerOp(layer.name, layer.inputs, nest, at, layer))
            before = {} if layer.name in cut or not layer.inputs else self.shapes[layer.inputs[0]]
            self.shapes[layer.name] = before if len(before) > len(layer.shape) else layer.shape
        views = {layer.name for layer in layers if layer.name not in cut and layer.nest(batch).view}
        read = Counter(
            self.places[name] for layer in layers if layer.name not in views for name in layer.inputs
        )
        for owner, ops in self.behind.items():
            self.behind[owner] = [op._replace(readers=read[owner, op.target]) for op in ops]

    def _placed(self, number: int, layer: Layer, nest: Nest, cut: bool) -> tuple[str | None, int]:
        """Add a layer's op, and return where its output is."""
        if cut:
            self.behind[layer.name] = [_fused(nest, None, 0)]
            return layer.name, 0
        owner, source = self.places[layer.inputs[0]] if layer.inputs else (None, number)
        if owner is None or nest.view:
            return owner, number if owner is None else source
        before, target = self.behind[owner][source], len(self.behind[owner])
        made = _fused(nest, source, target)._replace(contracted=before.contracted | nest.reduced)
        self.behind[owner].append(made)
        return owner, target


def _fused(nest: Nest, source: int | None, target: int) -> FusedOp:
    """Return an op as memory sees it."""
    elements = math.prod(nest.result.shape)
    return FusedOp(source, target, elements, saved=nest.saved, traffic=traffic(nest))


def traffic(nest: Nest) -> Traffic:
    """Return what an op reads and writes of a mini-batch besides the tensors of a product.

    The forward phase reads each input once, and writes the output and what else is kept. The backward phase reads the
    error of the output and what was kept, and writes the error of each input, unless that is the error of the output.
    """
    forward, backward = nest.more
    if nest.view or nest.multiplies:
        return Traffic(forward, backward)
    read = sum(math.prod(own.shape) for own in nest.inputs)
    made, saved = math.prod(nest.result.shape), nest.saved
    forward += read + made + saved.elements
    if not nest.passes:
        backward += made + read + read * saved.input + made * saved.output + saved.elements
    return Traffic(forward, backward, saved.mask_bytes, nest.operations)


def _traffic(ops: Sequence[FusedOp]) -> tuple[Traffic, ...]:
    """Return the traffic of a node besides its products and of the ops behind it, an element of its output.

    A tensor that several ops read has as many errors, which are read and written as one sum. The loss reads the network's outputs, and
    writes their errors.
    """
    found, whole = [], ops[0].elements
    for op in ops:
        own, before = op.traffic, frozenset() if op.source is None else ops[op.source].contracted
        loss = 0 if op.readers else op.elements
        added = (op.readers + 1) * op.elements if op.readers > 1 else loss
        amounts = own.forward + loss, own.backward + added, own.mask_bytes, own.flop
        if any(amounts):
            forward, backward, mask_bytes, flop = (amount / whole for amount in amounts)
            found.append(Traffic(forward, backward, mask_bytes, flop, before))
    return tuple(found)


def _nodes(cut: Sequence[Layer], layers: Sequence[Layer], batch: int, fused: Fused) -> tuple[PlanNode, ...]:
    """Return the nodes of the plan graph; layers with equal dims share one nest."""
    shared: dict[object, Nest] = {}
    equal: dict[object, Nest] = {}
    found, together, features = [], _together(layers, fused, batch), _features(cut, batch)
    trained = _trained(layers, batch)
    for layer in cut:
        nest, ops = layer.nest(batch), tuple(fused.behind[layer.name])
        undivided = together.get(layer.name, frozenset())
        behind, sends = _traffic(ops), not trained.isdisjoint(layer.inputs)
        key = (nest, undivided, behind, sends)
        if key not in shared:
            whole = nest.whole | {dim for dim, atom in nest.names["output"].items() if atom in undivided}
            own = replace(nest, behind=behind, whole=whole, sends=sends)
            counts = (own.products, own.fraction, whole, behind, sends, own.input_elements)
            mappings = (own.sizes, own.windows, own.input_sizes, own.zeros)
            content = (own.unsized, *counts, *[tuple(each.items()) for each in mappings])
            shared[key] = equal.setdefault(content, own)
        found.append(
            PlanNode(
                name=layer.name,
                op_name=layer.op_name,
                join=layer.op.node == "join",
                nest=shared[key],
                channels=tuple(dim for dim in shared[key].cuttable if atom_of(dim) in features),
                output_elements=_as_read(ops),
                trail=ops,
                ops=(*_read_by(layer, fused.ops.get(None, ())), *fused.ops[layer.name]),
            )
        )
    return tuple(found)


def _read_by(layer: Layer, before: Sequence[LayerOp]) -> list[LayerOp]:
    """Return the layers before all nodes that one reads."""
    found, names = [], {*layer.inputs}
    for op in reversed(before):
        if op.name in names:
            found.append(op)
            names |= {*op.inputs}
    return found[::-1]


def _trained(layers: Sequence[Layer], batch: int) -> set[str]:
    """Return the layers that are trained, or behind one that is: the others give no error."""
    found: set[str] = set()
    for layer in layers:
        if layer.nest(batch).trained or not found.isdisjoint(layer.inputs):
            found.add(layer.name)
    return found


def _together(layers: Sequence[Layer], fused: Fused, batch: int) -> dict[str | None, frozenset[str]]:
    """Return, for each node, the dims of its output that an op behind it needs whole."""
    found: dict[str | None, frozenset[str]] = {}
    for layer in layers:
        if needed := layer.nest(batch).together:
            own, _ = fused.places[layer.inputs[0]]
            found[own] = found.get(own, frozenset()) | needed
    return found


def _features(cut: Sequence[Layer], batch: int) -> frozenset[str]:
    """Return the names in tensors of the dims that weights contract or make; of a convolution and a join ``channels``."""
    dims = {dim for layer in cut for dim in layer.nest(batch).weight}
    return frozenset({"channels"} | {atom_of(dim) for dim in dims if not dim.startswith(KERNEL)} - {"groups"})


def _as_read(ops: Sequence[FusedOp]) -> int:
    """Return the elements of a node's tensor behind the last op before its output branches or another node reads it."""
    last = ops[0]
    while last.readers == 1 and (after := [op for op in ops if op.source == last.target]):
        (last,) = after
    return last.elements
