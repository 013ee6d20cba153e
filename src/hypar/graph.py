"""LayerGraph: a network with every shape known, and its contraction to the layers that are cut.

The contracted graph is HyPar's view: weighted layers, and the joins (add, concat) where branches meet,
connected by the tensor that the consumer reads, after pooling, flattening and the like. Forks and joins
stay: a residual network is not flattened to a chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.errors import ModelError, OptionError
from hypar.ops.base import LARGEST_SIZE, Einsum, Op, Shape, ShapeError, describe
from hypar.spec import LayerSpec, ModelSpec, load_spec
from hypar.units import DTYPE_BYTES, format_count

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer with its shapes.

    Attributes:
        name: unique in the network.
        op_name: name of its op's plug-in.
        op: what it is.
        inputs: names of the layers that it reads.
        input_shapes: shape of one sample of each input.
        shape: shape of one sample of its output.
    """

    name: str
    op_name: str
    op: Op
    inputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    shape: Shape

    @property
    def num_parameters(self) -> int:
        """Trained numbers, biases included."""
        return self.op.num_parameters(self.input_shapes)

    def einsum(self, batch: int) -> Einsum:
        """The layer as a contraction over named dims, for a mini-batch."""
        return self.op.einsum(batch, self.input_shapes, self.shape)

    def macs(self, batch: int = 1) -> int:
        """Multiply-accumulates, forward."""
        return self.einsum(batch).macs if self.op.weighted else 0

    def flop(self, batch: int = 1) -> int:
        """Floating-point operations, forward."""
        if self.op.weighted:
            return self.einsum(batch).flop("forward")
        return batch * self.op.unweighted_flop(self.input_shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLayer:
    """A node of the contracted graph: a weighted layer or a join.

    Attributes:
        name: the layer's name.
        op_name: name of its op's plug-in.
        join: whether it joins tensors instead of having a weight.
        einsum: its dims and tensors for the mini-batch; equal layers share one object.
        output_elements: elements of F_out as its readers see it, after the pooling and the like behind it.
    """

    name: str
    op_name: str
    join: bool
    einsum: Einsum
    output_elements: int

    def elements(self, tensor: str) -> int:
        """Elements of ``input``, ``weight`` or ``output``, whole mini-batch."""
        return self.output_elements if tensor == "output" else self.einsum.elements(tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An edge of the contracted graph: what one cut layer reads of another.

    Attributes:
        producer: index of the layer whose output it comes from.
        consumer: index of the layer that reads it.
        elements: elements as the consumer reads it, whole mini-batch.
        contracted: dims of the producer's output that ops between sum over, as a global pool does.
    """

    producer: int
    consumer: int
    elements: int
    contracted: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractedGraph:
    """The layers that are cut, in topological order, and the tensors between them."""

    layers: tuple[CutLayer, ...]
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerGraph:
    """A network with every shape known.

    Attributes:
        name: bare name of the model.
        source: where it is published.
        digest: hash of everything that a plan depends on but the mini-batch.
        batch: samples in a mini-batch.
        dtype: number format of every tensor.
        layers: in topological order, of equal ranks in the order of the file.
    """

    name: str
    source: str
    digest: str
    batch: int
    dtype: str
    layers: tuple[Layer, ...]

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def num_parameters(self) -> int:
        """Trained numbers of all layers."""
        return sum(layer.num_parameters for layer in self.layers)

    @property
    def num_weighted(self) -> int:
        """Layers with a weight."""
        return sum(layer.op.weighted for layer in self.layers)

    def macs(self, batch: int = 1) -> int:
        """Multiply-accumulates of all layers, forward."""
        return sum(layer.macs(batch) for layer in self.layers)

    def flop(self, batch: int = 1) -> int:
        """Floating-point operations of all layers, forward."""
        return sum(layer.flop(batch) for layer in self.layers)

    def with_batch(self, batch: int) -> LayerGraph:
        """The same network with another mini-batch.

        Raises:
            OptionError: not a whole number from 1 to 2**24.
        """
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= LARGEST_SIZE:
            raise OptionError("batch", f"found {batch}", f"a whole number from 1 to {LARGEST_SIZE:,}")
        return replace(self, batch=batch)

    @cached_property
    def digraph(self) -> nx.DiGraph[str]:
        """Layer names, joined from producer to consumer."""
        return _digraph(self.layers)

    @cached_property
    def contracted(self) -> ContractedGraph:
        """Weighted layers and joins, connected by the tensors that they read."""
        cut = [layer for layer in self.layers if layer.op.weighted or layer.op.join]
        index = {layer.name: number for number, layer in enumerate(cut)}
        by_name = {layer.name: layer for layer in self.layers}
        tensors = []
        for consumer, layer in enumerate(cut):
            for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
                producer, contracted = _producer(name, by_name, index)
                if producer is not None:
                    elements = self.batch * math.prod(shape.values())
                    tensors.append(
                        Tensor(producer=producer, consumer=consumer, elements=elements, contracted=contracted)
                    )
        return ContractedGraph(layers=self._cut_layers(cut, by_name), tensors=tuple(tensors))

    def _cut_layers(self, cut: list[Layer], by_name: dict[str, Layer]) -> tuple[CutLayer, ...]:
        """The nodes of the contracted graph; layers with equal dims share one einsum."""
        shared: dict[tuple[Op, tuple[tuple[tuple[str, int], ...], ...]], Einsum] = {}
        found = []
        for layer in cut:
            key = (layer.op, tuple(tuple(shape.items()) for shape in layer.input_shapes))
            if key not in shared:
                shared[key] = layer.einsum(self.batch)
            left = self._as_read(layer, by_name)
            found.append(
                CutLayer(
                    name=layer.name,
                    op_name=layer.op_name,
                    join=layer.op.join,
                    einsum=shared[key],
                    output_elements=self.batch * math.prod(left.shape.values()),
                )
            )
        return tuple(found)

    def _as_read(self, layer: Layer, by_name: dict[str, Layer]) -> Layer:
        """The last op behind a layer before its output forks or is read by a cut layer."""
        while len(readers := self._readers.get(layer.name, [])) == 1:
            reader = by_name[readers[0]]
            if reader.op.weighted or reader.op.join:
                break
            layer = reader
        return layer

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        """The layers that read each layer."""
        readers: dict[str, list[str]] = {}
        for layer in self.layers:
            for name in layer.inputs:
                readers.setdefault(name, []).append(layer.name)
        return readers

    def __repr__(self) -> str:
        """Name and size, short enough for a prompt."""
        parameters = format_count(self.num_parameters)
        return f"<LayerGraph {self.name}: {self.num_weighted} weighted layers, {parameters} parameters>"


def load_model(model: str | Path, *, batch: int | None = None) -> LayerGraph:
    """Read a model and infer its shapes.

    Args:
        model: a path, or the bare name of a file in ``models/``.
        batch: samples in a mini-batch, if not the file's own number.

    Raises:
        InputError: the file or the network is wrong.
    """
    graph = build_graph(load_spec(model))
    return graph if batch is None else graph.with_batch(batch)


def build_graph(spec: ModelSpec) -> LayerGraph:
    """Infer all shapes of a network.

    Raises:
        ModelError: a cycle, shapes that do not fit, a layer that nothing reads, or nothing to cut.
    """
    specs = {layer.name: layer for layer in spec.layers}
    order = _topological(spec.layers)
    shapes: dict[str, Shape] = {}
    layers = []
    for name in order:
        layers.append(_shaped(specs[name], shapes))
        shapes[name] = layers[-1].shape
    read = {name for layer in spec.layers for name in layer.inputs}
    for name in order[:-1]:
        if name not in read:
            raise ModelError(
                specs[name].where, "nothing reads its output", "no readers for the last layer only"
            )
    if not any(layer.op.weighted for layer in layers):
        raise ModelError(spec.layers[0].where, "no layer has a weight", "one conv or linear at least")
    return LayerGraph(
        name=spec.name,
        source=spec.source,
        digest=spec.digest,
        batch=spec.batch,
        dtype=spec.dtype,
        layers=tuple(layers),
    )


def _digraph(layers: tuple[LayerSpec, ...] | tuple[Layer, ...]) -> nx.DiGraph[str]:
    """Names joined from producer to consumer."""
    import networkx as nx  # noqa: PLC0415 (as above)

    digraph: nx.DiGraph[str] = nx.DiGraph()
    digraph.add_nodes_from(layer.name for layer in layers)
    digraph.add_edges_from((name, layer.name) for layer in layers for name in layer.inputs)
    return digraph


def _topological(layers: tuple[LayerSpec, ...]) -> list[str]:
    """Names so that every layer comes after those it reads, otherwise in the order of the file.

    Raises:
        ModelError: layers read each other in a cycle.
    """
    rank = {layer.name: number for number, layer in enumerate(layers)}
    if all(rank[name] < rank[layer.name] for layer in layers for name in layer.inputs):
        return list(rank)
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that a file in order need not spend)

    digraph = _digraph(layers)
    if nx.is_directed_acyclic_graph(digraph):
        return list(nx.lexicographical_topological_sort(digraph, key=rank.__getitem__))
    cycle = [edge[0] for edge in nx.find_cycle(digraph)]
    where = layers[rank[cycle[0]]].where
    raise ModelError(where, f"a cycle: {' -> '.join([*cycle, cycle[0]])}")


def _shaped(spec: LayerSpec, shapes: dict[str, Shape]) -> Layer:
    """A layer with its shapes, from the shapes before it."""
    inputs = tuple(shapes[name] for name in spec.inputs)
    if not inputs and spec.op_name != "input":
        raise ModelError(spec.where, "reads nothing", "an input before it: {op: input, channels: ...}")
    try:
        shape = spec.op.output_shape(inputs)
    except ShapeError as error:
        raise ModelError(spec.where, str(error)) from None
    if max(shape.values()) > LARGEST_SIZE:
        raise ModelError(spec.where, f"found an output of {describe(shape)}", f"sizes up to {LARGEST_SIZE:,}")
    return Layer(
        name=spec.name, op_name=spec.op_name, op=spec.op, inputs=spec.inputs, input_shapes=inputs, shape=shape
    )


def _producer(
    name: str, by_name: dict[str, Layer], index: dict[str, int]
) -> tuple[int | None, frozenset[str]]:
    """The cut layer that a tensor comes from, None for the network's input, and dims lost on the way."""
    contracted: frozenset[str] = frozenset()
    while name not in index:
        layer = by_name[name]
        if not layer.inputs:
            return None, contracted
        contracted |= layer.op.contracts
        name = layer.inputs[0]
    return index[name], contracted
