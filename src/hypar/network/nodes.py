"""The plan graph of a network: weighted layers and joins with the ops fused behind them, and the tensors between them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import repeat
from typing import NamedTuple

from hypar.network.layer import Layer, ties_of
from hypar.network.training import RECOMPUTED
from hypar.ops.dims import atom_of
from hypar.ops.nest import Nest, Traffic, operand_name


@dataclass(frozen=True, slots=True)
class LayerOp:
    """A layer of a plan node as a step runs it; equal ones do the same, whatever their names.

    Attributes:
        layer: the layer.
        nest: its nest for the mini-batch.
        owner: the node; None between the network's input and its first nodes.
        number: the number of the tensor that it gives among those of the node, whose own output is 0; a view gives what it reads.
        contracted: dims of the node's output that are summed over in that tensor.
        shape: the shape of a sample of it, before it is flattened.
    """

    layer: Layer = field(compare=False)
    nest: Nest
    owner: str | None = field(default=None, compare=False)
    number: int = -1
    contracted: frozenset[str] = field(default=frozenset(), compare=False)
    shape: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.layer.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the layers that it reads."""
        return self.layer.inputs

    @property
    def elements(self) -> int:
        """Elements of its output."""
        return math.prod(self.nest.result.shape)

    @property
    def views(self) -> bool:
        """Whether it gives what it reads in another form; a node that does is a tensor at rest."""
        return self.nest.view and self.name != self.owner


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
        channels: the dims that some weight of the network contracts or makes.
        tensor: those of them by which tensor parallelism divides it: of what linear layers make between the sums of the residual stream.
        ops: the layers behind the network's input that it reads, and its own, with those that only view a tensor.
    """

    name: str
    op_name: str
    join: bool
    nest: Nest
    output_elements: int
    channels: tuple[str, ...] = ()
    tensor: tuple[str, ...] = ()
    ops: tuple[LayerOp, ...] = ()

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight."""
        return bool(self.nest.weight)

    @property
    def rest(self) -> bool:
        """Whether it is a tensor at rest between the node that makes it and several that multiply it."""
        return self.nest.view

    @property
    def trail(self) -> tuple[LayerOp, ...]:
        """The layer itself, then the ops behind it that make a tensor."""
        return tuple([op for op in self.ops if op.owner is not None and not op.views])

    @property
    def empty(self) -> bool:
        """Whether an uneven split has left nothing of the layer to this device group."""
        return not (all(self.nest.steps.values()) if self.nest.multiplies else self.nest.input_elements)


class Tensor(NamedTuple):
    """An edge of the contracted graph: a tensor between two cut layers.

    Attributes:
        producer: index of the layer that writes it.
        consumer: index of the layer that reads it.
        elements: number of elements as the consumer reads it, whole mini-batch.
        contracted: dims of the producer's output that ops on the way sum over, such as a global pool.
        shape: the dims of one sample and their sizes, before it is flattened.
        number: its number among the tensors of the producer's trail.
        operand: the consumer's tensor that it is, ``input`` for joins, which read all alike; ``weight`` for one of both layers.
        at: its number among the consumer's inputs.
    """

    producer: int
    consumer: int
    elements: int
    contracted: frozenset[str]
    shape: tuple[tuple[str, int], ...]
    number: int = 0
    operand: str = "input"
    at: int = 0


@dataclass(frozen=True)
class PlanGraph:
    """The cut layers in topological order, and the tensors between them.

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

    def ends(self, tensor: Tensor) -> tuple[PlanNode, PlanNode]:
        """Return the producer of a tensor, and its consumer."""
        return self.layers[tensor.producer], self.layers[tensor.consumer]

    @cached_property
    def named_dims(self) -> frozenset[str]:
        """The dims that the model names, and those of its ops."""
        dims = {dim for layer in self.layers for dim in layer.nest.extra}
        return frozenset(dims | {atom_of(dim) for dim in dims})

    @cached_property
    def _hash(self) -> int:
        return hash((self.layers, self.tensors, self.fed, self.sent, self.ties))

    def __hash__(self) -> int:
        """Return the hash, which is found once."""
        return self._hash


@lru_cache(maxsize=4096)
def block_of(name: str) -> str:
    """Return the name of the block of a layer, as ``layers.3`` of ``layers.3.mlp.up``; one of no block is its own."""
    *parents, _ = name.split(".")
    numbered = [at for at, word in enumerate(parents, 1) if word.isdecimal()]
    return ".".join(parents[: numbered[-1]] if numbered else parents) or name


def computed_again(layers: Iterable[Layer | PlanNode], recompute: str | Iterable[str]) -> frozenset[str]:
    """Return the names of the blocks, and of the single layers, that the backward phase computes again, as each layer or all ask."""
    found, each = set[str](), repeat(recompute) if isinstance(recompute, str) else recompute
    for layer, own in zip(layers, each, strict=False):
        if _in_full(layer.name, own):
            found.add(block_of(layer.name))
        elif own == "attention" and layer.op_name == own:
            found.add(layer.name)
    return frozenset(found)


def kept_in_shards(layers: Iterable[Layer | PlanNode], recompute: str | Iterable[str]) -> frozenset[str]:
    """Return the names of the layers whose inputs are gathered again for the backward phase, as each layer or all ask.

    Devices keep the shard of a tensor that they gather (Korthikanti et al., 4.2.2); a block that is computed again gathers anyway.
    """
    each = repeat(recompute) if isinstance(recompute, str) else recompute
    asked = [(layer.name, own) for layer, own in zip(layers, each, strict=False) if own != RECOMPUTED[0]]
    return frozenset([name for name, own in asked if not _in_full(name, own)])


def _in_full(name: str, recompute: str) -> bool:
    """Return whether the block of a layer is computed again: all blocks, or so many of every few."""
    kind, _, part = recompute.partition(":")
    block = block_of(name)
    if kind != "full" or block == name:
        return False
    number = block.rpartition(".")[2]
    some, every = map(int, (part or "1/1").split("/"))
    return some * int(number if number.isdecimal() else 0) % every < some


kept_with_graph = lru_cache(maxsize=1024)
"""Keeps the results of a function of a graph and of further arguments, for equal graphs."""


Kept = tuple[tuple[str, float], ...]
"""What a node saves for the backward phase: its tensors by name, each with how much of it."""


@kept_with_graph
def saved_by(graph: PlanGraph, recompute: str = "none") -> tuple[Kept, ...]:
    """Return what each node saves, with the ops behind it: a tensor that several read is shared among those that save it.

    Of blocks that are computed again only what they read of others is kept.
    """
    again = computed_again(graph.layers, recompute)
    inside = [block if (block := block_of(node.name)) in again else "" for node in graph.layers]
    saves = [node.nest.saved.input for node in graph.layers]
    saved = [own for own in graph.tensors if saves[own.consumer]]
    reads = [own for own in saved if not inside[own.consumer] or inside[own.consumer] != inside[own.producer]]
    savers = Counter((own.producer, own.number) for own in reads)
    found = [defaultdict[str, float](float) for _ in graph.layers]
    for own in reads:
        found[own.consumer][own.operand] += 1 / savers[own.producer, own.number]
    for at, (node, kept) in enumerate(zip(graph.layers, found, strict=True)):
        if not inside[at]:
            if saves[at] and not kept:
                kept["input"] = 1.0
            kept["output"] += _saved_behind(node, {number for producer, number in savers if producer == at})
    return tuple(tuple((name, times) for name, times in own.items() if times) for own in found)


def _saved_behind(node: PlanNode, read: Container[int]) -> float:
    """Return what the ops of a node save of what it makes, but for tensors that other nodes save, in parts of its output."""
    first, *more = node.trail
    elements = {op.number: op.elements for op in node.trail}
    made = {op.name: op.number for op in node.ops if op.owner is not None}
    inputs = [made[name] for op in more if op.nest.saved.input for name in op.inputs if name in made]
    saved = {*inputs, *(op.number for op in node.trail if op.nest.saved.output)}
    further = sum(op.nest.saved.elements for op in node.trail)
    return (further + sum(elements.get(at, 0) for at in saved if at not in read)) / first.elements


def contract(layers: Sequence[Layer], batch: int, *, operators: bool = False) -> PlanGraph:
    """Contract layers in topological order to weighted ones and joins, in the graph of operators also to pools."""
    kept = {"weight", "join", *(["pool"] if operators else [])}
    cut = [layer for layer in layers if layer.op.node in kept]
    index = {layer.name: number for number, layer in enumerate(cut)}
    own = _Contraction(layers, index, batch)
    nodes, tensors, ties = tuple(map(own.node, cut)), list[Tensor](), list[Tensor]()
    for consumer, layer in enumerate(cut):
        for at, (name, shape) in enumerate(zip(layer.inputs, layer.input_shapes, strict=True)):
            if (made := own.ops[name]).owner is not None:
                content = (batch * math.prod(shape.values()), made.contracted, tuple(made.shape.items()))
                operand = operand_name(at) if nodes[consumer].nest.others else "input"
                tensors.append(Tensor(index[made.owner], consumer, *content, made.number, operand, at))
    for tie in ties_of(layers):
        ends, nest = (index[tie.owner], index[tie.user]), nodes[index[tie.owner]].nest
        dims = tuple([(atom_of(dim), nest.sizes[dim]) for dim in nest.weight])
        ties.append(Tensor(*ends, nest.elements("weight"), frozenset(), dims, operand="weight"))
    return PlanGraph(layers=nodes, tensors=tuple(tensors), ties=tuple(ties))


class _Contraction:
    """The layers of a network at their nodes.

    Attributes:
        ops: the op of each layer, by the layer's name.
        of: the ops of each node; of None those between the network's input and its first nodes.
        readers: the number of ops that read each tensor of each node, whose errors are added up.
        together: for each node the dims of its output that an op behind it needs whole.
        trained: the layers that are trained, or behind one that is: the others give no error.
        features: the names in tensors of the dims that weights contract or make; of a convolution and a join ``channels``.
        stream: the names of the dims of sums, which are those of the residual stream.
        apart: the dims of which a weight has a piece each, as of experts.
        known: the nests of nodes; layers with equal dims share one.
    """

    def __init__(self, layers: Sequence[Layer], cut: Container[str], batch: int) -> None:
        self.ops: dict[str, LayerOp] = {}
        self.of = defaultdict[str | None, list[LayerOp]](list)
        self.readers = Counter[tuple[str | None, int]]()
        self.together = defaultdict[str | None, set[str]](set)
        self.trained, self.features, self.known = set[str](), {"channels"}, dict[object, Nest]()
        self.stream, self.apart, made = set[str](), set[str](), Counter[str | None]()
        for layer in layers:
            op = LayerOp(layer, layer.nest(batch), layer.name, 0, shape=layer.shape)
            op = op if layer.name in cut else self.behind(op, made)
            made[op.owner] += not op.views
            self.ops[layer.name] = op
            self.of[op.owner].append(op)
            read = [(self.ops[name].owner, self.ops[name].number) for name in op.inputs]
            self.readers.update(() if op.views else read)
            for owner, _ in read[:1]:
                self.together[owner] |= op.nest.together
            if op.nest.trained or not self.trained.isdisjoint(op.inputs):
                self.trained.add(op.name)
            self.features |= {atom_of(dim) for dim in op.nest.weight} - {"groups"}
            self.apart |= {dim for dim in op.nest.weight if atom_of(dim) == dim}
            self.stream |= {atom_of(dim) for dim in op.nest.names["output"] if layer.op_name == "add"}

    def behind(self, op: LayerOp, made: Mapping[str | None, int]) -> LayerOp:
        """Return an op that is not cut itself, at the node of what it reads; ``made`` are the tensors of each so far."""
        read = self.ops[op.inputs[0]] if op.inputs else LayerOp(op.layer, op.nest)
        found = replace(read, layer=op.layer, nest=op.nest, shape=max(op.shape, read.shape, key=len))
        if read.owner is None or op.nest.view:
            return found
        return replace(found, number=made[read.owner], contracted=read.contracted | op.nest.reduced)

    def node(self, layer: Layer) -> PlanNode:
        before, names = list[LayerOp](), {*layer.inputs}
        for op in reversed(self.of[None]):
            if op.name in names:
                before.append(op)
                names |= {*op.inputs}
        trail = [op for op in self.of[layer.name] if not op.views]
        nest = self.shared(trail, sends=not self.trained.isdisjoint(layer.inputs))
        channels = tuple(dim for dim in nest.cuttable if atom_of(dim) in self.features)
        order = dict.fromkeys(dim for dim in (*nest.weight, *nest.names["output"]) if dim in channels)
        return PlanNode(
            name=layer.name,
            op_name=layer.op_name,
            join=layer.op.node == "join",
            nest=nest,
            channels=channels,
            tensor=tuple(dim for dim in order if dim not in self.apart and atom_of(dim) not in self.stream),
            output_elements=self.as_read(trail),
            ops=(*reversed(before), *self.of[layer.name]),
        )

    def shared(self, trail: Sequence[LayerOp], *, sends: bool) -> Nest:
        """Return the nest of a node with what the ops behind it need; equal ones are one object."""
        nest, behind = trail[0].nest, tuple(self.traffic(trail))
        undivided = frozenset(self.together[trail[0].owner])
        key = (nest, undivided, behind, sends)
        if key not in self.known:
            whole = nest.whole | {dim for dim, atom in nest.names["output"].items() if atom in undivided}
            own = replace(nest, behind=behind, whole=whole, sends=sends)
            counts = (own.products, own.fraction, whole, behind, sends, own.input_elements)
            mappings = (own.sizes, own.windows, own.input_sizes, own.zeros)
            content = (own.unsized, *counts, *[tuple(each.items()) for each in mappings])
            self.known[key] = self.known.setdefault(content, own)
        return self.known[key]

    def traffic(self, trail: Sequence[LayerOp]) -> Iterator[Traffic]:
        """Yield the traffic of a node besides its products and of the ops behind it, an element of its output.

        A tensor that several ops read has as many errors, moved as one sum. The loss reads outputs, and writes their errors.
        """
        first, *_ = trail
        for op in trail:
            own, count = op.nest.traffic, self.readers[op.owner, op.number]
            loss = 0 if count else op.elements
            added = (count + 1) * op.elements if count > 1 else loss
            amounts = own.forward + loss, own.backward + added, own.mask_bytes, own.flop
            if any(amounts):
                forward, backward, mask_bytes, flop = (amount / first.elements for amount in amounts)
                before = frozenset[str]() if op is first else self.ops[op.inputs[0]].contracted
                yield Traffic(forward, backward, mask_bytes, flop, before)

    def as_read(self, trail: Sequence[LayerOp]) -> int:
        """Return the elements of a node's tensor behind the last op before its output branches or another node reads it."""
        last = trail[0]
        while self.readers[last.owner, last.number] == 1:
            after = [op for op in trail[1:] if self.ops[op.inputs[0]].number == last.number]
            if not after:
                break
            (last,) = after
        return last.elements
