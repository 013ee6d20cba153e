"""The plan graph of a network: weighted layers and joins with the ops fused behind them, and the tensors between them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.layer import Layer, ties_of
from hypar.network.training import block_of, computed_again
from hypar.ops.dims import KERNEL, atom_of
from hypar.ops.nest import Nest, Traffic, operand_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence


Readers = Counter[tuple["str | None", int]]
"""The number of ops that read each tensor of each node, whose errors are added up."""


class LayerOp(NamedTuple):
    """A layer of a plan node as a step runs it; equal ones do the same, whatever their names.

    Attributes:
        layer: the layer.
        nest: its nest for the mini-batch.
        owner: the node; None between the network's input and its first nodes.
        number: the number of the tensor that it gives among those of the node, whose own output is 0; a view gives what it reads.
        contracted: dims of the node's output that are summed over in that tensor.
        shape: the shape of a sample of it, before it is flattened.
    """

    layer: Layer
    nest: Nest
    owner: str | None = None
    number: int = -1
    contracted: frozenset[str] = frozenset()
    shape: Mapping[str, int] = {}

    def __eq__(self, other: object) -> bool:
        """Return whether another op does the same."""
        return isinstance(other, LayerOp) and (self.nest, self.number) == (other.nest, other.number)

    def __hash__(self) -> int:
        """Return the hash of what it does."""
        return hash((self.nest, self.number))

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
        operand: the consumer's tensor that it is, ``input`` for joins, which read all their inputs alike; ``weight`` for one that
            both layers use.
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
    """The cut layers in topological order, and the tensors between them."""

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
        return hash(tuple(self))

    def __hash__(self) -> int:
        """Return the hash, which is found once."""
        return self._hash


kept_with_graph = lru_cache(maxsize=1024)
"""Keeps the results of a function of a graph and of further arguments, for equal graphs."""


Kept = tuple[tuple[str, float], ...]
"""What a node saves for the backward phase: its tensors by name, each with how much of it."""


@kept_with_graph
def saved_by(graph: PlanGraph, recompute: str = "none") -> tuple[Kept, ...]:
    """Return what each node saves, with the ops behind it: a tensor that several read is shared among those that save it.

    Of blocks that are computed again only what they read of others is kept.
    """
    again = computed_again(graph.layers, [recompute] * len(graph.layers))
    blocks = [block_of(node.name) if block_of(node.name) in again else "" for node in graph.layers]
    reads = [
        own
        for own in graph.tensors
        if _saves_input(graph.layers[own.consumer])
        and not (blocks[own.consumer] and blocks[own.producer] == blocks[own.consumer])
    ]
    savers = Counter((own.producer, own.number) for own in reads)
    found: list[Counter[str]] = [Counter() for _ in graph.layers]
    for own in reads:
        found[own.consumer][own.operand] += 1 / savers[own.producer, own.number]  # type: ignore[assignment]
    for at, (node, kept) in enumerate(zip(graph.layers, found, strict=True)):
        if blocks[at]:
            continue
        if _saves_input(node) and not kept:
            kept["input"] = 1
        kept["output"] += _saved_behind(node, {number for producer, number in savers if producer == at})  # type: ignore[assignment]
    return tuple(tuple((name, float(times)) for name, times in own.items() if times) for own in found)


def _saves_input(node: PlanNode) -> bool:
    return node.nest.saved.input or bool(node.nest.others)


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
    """Contract a network to its weighted layers and joins.

    Args:
        layers: in topological order.
        batch: samples in a mini-batch.
        operators: whether pools stay as well.
    """
    kept = {"weight", "join", *(["pool"] if operators else [])}
    cut = [layer for layer in layers if layer.op.node in kept]
    index = {layer.name: number for number, layer in enumerate(cut)}
    ops = _ops(layers, index, batch)
    nodes, tensors = _nodes(cut, ops), []
    for consumer, layer in enumerate(cut):
        several = len(nodes[consumer].nest.others)
        for at, (name, shape) in enumerate(zip(layer.inputs, layer.input_shapes, strict=True)):
            if (made := ops[name]).owner is not None:
                content = (batch * math.prod(shape.values()), made.contracted, tuple(made.shape.items()))
                operand = operand_name(at) if several else "input"
                tensors.append(Tensor(index[made.owner], consumer, *content, made.number, operand, at))
    return PlanGraph(layers=nodes, tensors=tuple(tensors), ties=tuple(_ties(layers, nodes, index)))


def _ties(layers: Sequence[Layer], nodes: Sequence[PlanNode], index: dict[str, int]) -> Iterator[Tensor]:
    """Yield the weights that two layers use."""
    for tie in ties_of(layers):
        owner, user = index[tie.owner], index[tie.user]
        nest = nodes[owner].nest
        shape = tuple((atom_of(dim), nest.sizes[dim]) for dim in nest.weight)
        yield Tensor(owner, user, nest.elements("weight"), frozenset(), shape, operand="weight")


def _ops(layers: Sequence[Layer], cut: Container[str], batch: int) -> dict[str, LayerOp]:
    """Return the op of each layer at its node, by the layer's name."""
    found, made = dict[str, LayerOp](), Counter[str | None]()
    for layer in layers:
        own = LayerOp(layer, layer.nest(batch), layer.name, 0, shape=layer.shape)
        if layer.name not in cut:
            read = found[layer.inputs[0]] if layer.inputs else LayerOp(layer, own.nest)
            own = read._replace(layer=layer, nest=own.nest, shape=max(layer.shape, read.shape, key=len))
            if own.owner is not None and not own.nest.view:
                summed = read.contracted | own.nest.reduced
                own = own._replace(number=made[own.owner], contracted=summed)
        made[own.owner] += not own.views
        found[layer.name] = own
    return found


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


def _traffic(
    trail: Sequence[LayerOp], numbers: Mapping[str, LayerOp], readers: Readers
) -> tuple[Traffic, ...]:
    """Return the traffic of a node besides its products and of the ops behind it, an element of its output.

    A tensor that several ops read has as many errors, which are read and written as one sum. The loss reads the network's outputs, and
    writes their errors.
    """
    found, whole = [], trail[0].elements
    for op in trail:
        own, before = (
            traffic(op.nest),
            frozenset[str]() if op is trail[0] else numbers[op.inputs[0]].contracted,
        )
        count = readers[op.owner, op.number]
        loss = 0 if count else op.elements
        added = (count + 1) * op.elements if count > 1 else loss
        amounts = own.forward + loss, own.backward + added, own.mask_bytes, own.flop
        if any(amounts):
            forward, backward, mask_bytes, flop = (amount / whole for amount in amounts)
            found.append(Traffic(forward, backward, mask_bytes, flop, before))
    return tuple(found)


def _nodes(cut: Sequence[Layer], ops: Mapping[str, LayerOp]) -> tuple[PlanNode, ...]:
    """Return the nodes of the plan graph; layers with equal dims share one nest."""
    shared: dict[object, Nest] = {}
    equal: dict[object, Nest] = {}
    found, together, features = list[PlanNode](), _together(ops), _features(ops, cut)
    trained, of = _trained(ops), dict[str | None, list[LayerOp]]()
    for op in ops.values():
        of.setdefault(op.owner, []).append(op)
    stream = _stream(ops, cut)
    readers = Counter(
        (ops[name].owner, ops[name].number) for op in ops.values() if not op.views for name in op.inputs
    )
    for layer in cut:
        every = (*_read_by(layer, of.get(None, ())), *of[layer.name])
        trail = [op for op in of[layer.name] if not op.views]
        nest, undivided = trail[0].nest, together.get(layer.name, frozenset())
        behind, sends = _traffic(trail, ops, readers), not trained.isdisjoint(layer.inputs)
        key = (nest, undivided, behind, sends)
        if key not in shared:
            whole = nest.whole | {dim for dim, atom in nest.names["output"].items() if atom in undivided}
            own = replace(nest, behind=behind, whole=whole, sends=sends)
            counts = (own.products, own.fraction, whole, behind, sends, own.input_elements)
            mappings = (own.sizes, own.windows, own.input_sizes, own.zeros)
            content = (own.unsized, *counts, *[tuple(each.items()) for each in mappings])
            shared[key] = equal.setdefault(content, own)
        channels = tuple(dim for dim in shared[key].cuttable if atom_of(dim) in features)
        order = dict.fromkeys((*nest.weight, *nest.names["output"]))
        between = tuple(dim for dim in order if dim in channels and not {dim, f"of {atom_of(dim)}"} & stream)
        found.append(
            PlanNode(
                name=layer.name,
                op_name=layer.op_name,
                join=layer.op.node == "join",
                nest=shared[key],
                channels=channels,
                tensor=between,
                output_elements=_as_read(trail, ops, readers),
                ops=every,
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


def _trained(ops: Mapping[str, LayerOp]) -> set[str]:
    """Return the layers that are trained, or behind one that is: the others give no error."""
    found: set[str] = set()
    for name, op in ops.items():
        if op.nest.trained or not found.isdisjoint(op.inputs):
            found.add(name)
    return found


def _together(ops: Mapping[str, LayerOp]) -> dict[str | None, frozenset[str]]:
    """Return, for each node, the dims of its output that an op behind it needs whole."""
    found: dict[str | None, frozenset[str]] = {}
    for op in ops.values():
        if op.nest.together:
            own = ops[op.inputs[0]].owner
            found[own] = found.get(own, frozenset()) | op.nest.together
    return found


def _features(ops: Mapping[str, LayerOp], cut: Sequence[Layer]) -> frozenset[str]:
    """Return the names in tensors of the dims that weights contract or make; of a convolution and a join ``channels``."""
    dims = {dim for layer in cut for dim in ops[layer.name].nest.weight}
    return frozenset({"channels"} | {atom_of(dim) for dim in dims if not dim.startswith(KERNEL)} - {"groups"})


def _stream(ops: Mapping[str, LayerOp], cut: Sequence[Layer]) -> frozenset[str]:
    """Return the dims of which a weight has a piece each, as of experts, and ``of`` what sums, those of the residual stream, are."""
    sums = (ops[layer.name].nest.names["output"] for layer in cut if layer.op_name == "add")
    apart = (dim for layer in cut for dim in ops[layer.name].nest.weight if atom_of(dim) == dim)
    return frozenset({f"of {atom_of(dim)}" for names in sums for dim in names} | {*apart})


def _as_read(trail: Sequence[LayerOp], ops: Mapping[str, LayerOp], readers: Readers) -> int:
    """Return the elements of a node's tensor behind the last op before its output branches or another node reads it."""
    last = trail[0]
    while readers[last.owner, last.number] == 1:
        after = [op for op in trail[1:] if ops[op.inputs[0]].number == last.number]
        if not after:
            break
        (last,) = after
    return last.elements
