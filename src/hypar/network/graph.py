"""Networks: layers in topological order with every shape, read from model files, and their gradients."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hypar.document import Result
from hypar.errors import ModelError, OptionError, UnknownNameError
from hypar.files.text import read_text
from hypar.files.validation import Faults, together, validated
from hypar.files.yaml_file import Document, parse_yaml, plain_document
from hypar.network.layer import Layer, Tie, ties_of, with_rests
from hypar.network.modelfile import expanded, one_op
from hypar.network.nodes import PlanGraph, contract
from hypar.network.training import DTYPE_BYTES
from hypar.ops.base import IMAGE, LARGEST_SIZE, Op, Shape
from hypar.ops.windows import ShapeError, describe
from hypar.registry import data_file
from hypar.units import format_count


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerGraph(Result):
    """A network with all its shapes.

    Attributes:
        name: bare name of the model.
        source: publication of the network.
        batch: samples in a mini-batch.
        dtype: number format of every tensor.
        layers: layers in topological order, ties in the order of the file.
    """

    _document: ClassVar[str] = "catalogue"

    name: str
    source: str
    batch: int
    dtype: str
    layers: tuple[Layer, ...]

    @cached_property
    def digest(self) -> str:
        """Hash of everything that a plan depends on, except the mini-batch."""
        layers = self.without_rests.layers
        ops = {layer.op for layer in layers}
        fields = {op: op.model_dump(mode="json", exclude_defaults=True) for op in ops}
        named = [[layer.name, layer.op_name, fields[layer.op], layer.inputs] for layer in layers]
        text = json.dumps([self.dtype, named], sort_keys=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def over_tokens(self) -> bool:
        """Whether its samples are sequences of tokens."""
        return {*self.layers[0].shape} == {"sequence"}

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters in all layers."""
        return sum(count * layer.num_parameters for layer, count in self.kinds)

    @property
    def num_weighted(self) -> int:
        """Number of layers with a weight."""
        return sum(layer.weighted for layer in self.layers)

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """The layers that differ in more than their names, each with the number of those that do not."""
        # Equal layers share their op and their shapes.
        equal: dict[object, list[Layer]] = {}
        for layer in self.layers:
            equal.setdefault((id(layer.op), *map(id, layer.input_shapes)), []).append(layer)
        return tuple((layers[0], len(layers)) for layers in equal.values())

    def macs(self, batch: int = 1) -> int:
        """Return the multiply-accumulates of all layers, forward."""
        return sum(count * layer.macs(batch) for layer, count in self.kinds)

    def flop(self, batch: int = 1) -> int:
        """Return the floating-point operations of all layers, forward."""
        return sum(count * layer.flop(batch) for layer, count in self.kinds)

    def with_batch(self, batch: int) -> LayerGraph:
        """Return the network with another mini-batch, the same object for the same number.

        Raises ``OptionError`` where the batch is not a whole number from 1 to 2**24.
        """
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= LARGEST_SIZE:
            raise OptionError("batch", f"found {batch}", f"a whole number from 1 to {LARGEST_SIZE:,}")
        if batch == self.batch:
            return self
        if batch not in self._by_batch:
            self._by_batch[batch] = replace(self, batch=batch)
        return self._by_batch[batch]

    def with_fields(
        self, layers: Mapping[str, Mapping[str, Any]], *, dtype: str | None = None, name: str | None = None
    ) -> LayerGraph:
        """Return the network with other fields in some of its layers, all shapes inferred again.

        Args:
            layers: by name of a layer, fields of its op as a model file writes them, such as ``{"out_channels": 64}``.
            dtype: another number format of every tensor.
            name: another name.

        Raises:
            InputError: a layer or the format is unknown, or a layer does not accept a field or its inputs.

        Examples:
            >>> import hypar
            >>> hypar.load_model("lenet-c").with_fields({"conv1": {"out_channels": 6}})
            <LayerGraph lenet-c: 4 weighted layers, 413 k parameters>
        """
        if dtype is not None and dtype not in DTYPE_BYTES:
            raise OptionError("dtype", f"found {dtype!r}", ", ".join(DTYPE_BYTES))
        ops = {layer.name: layer.op for layer in self.layers}
        for layer, fields in layers.items():
            if layer not in ops:
                raise UnknownNameError("layer", layer, ops)
            said = {**ops[layer].model_dump(by_alias=True, exclude_defaults=True), **fields}
            ops[layer] = validated(
                type(ops[layer]),
                said,
                place=lambda where, layer=layer: ".".join(map(str, (layer, *where))),  # type: ignore[misc]
                error=ModelError,
            )
        return replace(self.with_ops(ops), name=name or self.name, dtype=dtype or self.dtype)

    def with_ops(self, ops: Mapping[str, Op]) -> LayerGraph:
        """Return the network with other ops in some of its layers, all shapes inferred again.

        Raises ``ModelError`` at a layer whose op does not accept its inputs.
        """
        layers = [replace(layer, op=one_op(ops.get(layer.name, layer.op))) for layer in self.layers]
        return replace(self, layers=_shaped(layers))

    @cached_property
    def _by_batch(self) -> dict[int, LayerGraph]:
        """The networks with another mini-batch, so that what is known of their layers is found again."""
        return {}

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        """The layers that use the weight of another."""
        return ties_of(self.layers)

    @cached_property
    def at_rest(self) -> LayerGraph:
        """The network with the tensors at rest that several layers multiply."""
        layers = with_rests(self.layers)
        return self if len(layers) == len(self.layers) else replace(self, layers=layers)

    @cached_property
    def without_rests(self) -> LayerGraph:
        """The network without tensors at rest."""
        rests = {layer.name: layer.inputs[0] for layer in self.layers if layer.op_name == "rest"}
        layers = [layer.reading(rests) for layer in self.layers if layer.name not in rests]
        return replace(self, layers=tuple(layers)) if rests else self

    @cached_property
    def contracted(self) -> PlanGraph:
        """The contracted graph: weighted layers and joins, connected by the tensors that they read."""
        return contract(self.layers, self.batch)

    @cached_property
    def operators(self) -> PlanGraph:
        """The operator graph: the contracted graph with pools as nodes."""
        return contract(self.layers, self.batch, operators=True)

    def nodes(self, graph: str | None) -> PlanGraph:
        """Return the graph to plan: the contracted graph, or the operator graph for ``operators``."""
        return self.operators if graph == "operators" else self.contracted

    def __repr__(self) -> str:
        """Return the name and size, short enough for a prompt."""
        parameters = format_count(self.num_parameters)
        return f"<LayerGraph {self.name}: {self.num_weighted} weighted layers, {parameters} parameters>"


def load_model(
    model: LayerGraph | str | Path | Mapping[str, Any], *, batch: int | None = None, name: str | None = None
) -> LayerGraph:
    """Read a model and infer its shapes.

    Args:
        model: a path, also of an ONNX file, the bare name of a file in ``models/``, what such a file says, or a network itself.
        batch: samples in a mini-batch, if not the file's own number.
        name: the name of a mapping's network; ``model`` if not given.

    Raises:
        InputError: the file or the network is invalid.
    """
    graph: LayerGraph
    if isinstance(model, Mapping):
        name = "model" if name is None else name
        graph = build_graph(plain_document(dict(model), name), name)
    elif name is not None:
        found = f"given together with the file {str(model)!r}"
        raise OptionError("name", found, "a name for a mapping alone")
    elif isinstance(model, LayerGraph):
        graph = model
    elif (file := data_file("models", str(model))).suffix == ".onnx":
        graph = import_module("hypar.importers.onnx_file").from_onnx(file)
    else:
        graph = _graph_of(file, Path(model).stem, read_text(file))
    return graph if batch is None else graph.with_batch(batch)


@lru_cache(maxsize=32)
def _graph_of(file: Path, name: str, text: str) -> LayerGraph:
    """Return the network of a file's text; equal texts share it, with all that is cached by its layers."""
    return build_graph(parse_yaml(text, file), name)


def build_graph(document: Document, name: str) -> LayerGraph:
    """Return the network of a model file with all its shapes.

    Raises ``ModelError`` for no model file, a cycle, shapes that do not fit, a layer that nothing reads, or no weight.
    """
    content, found = expanded(document)
    try:
        layers = _shaped(_in_order([layer for layer, _ in found]))
        _check(layers)
    except ModelError as error:
        places = {layer.name: document.at(where, layer.name) for layer, where in found}
        faults = (error, *error.others)
        raise together(ModelError(places[one.where], one.found, one.allowed) for one in faults) from None
    return LayerGraph(
        name=name, source=content.source, batch=content.batch, dtype=content.dtype, layers=layers
    )


def _in_order(layers: list[Layer]) -> list[Layer]:
    """Return layers in topological order, or else that of the file; raises ``ModelError`` at one of a cycle."""
    rank = {layer.name: number for number, layer in enumerate(layers)}
    if all(rank[name] < rank[layer.name] for layer in layers for name in layer.inputs):
        return layers
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that a file in order need not spend)

    digraph: nx.DiGraph[str] = nx.DiGraph()
    digraph.add_nodes_from(rank)
    digraph.add_edges_from((name, layer.name) for layer in layers for name in layer.inputs)
    if nx.is_directed_acyclic_graph(digraph):
        order = nx.lexicographical_topological_sort(digraph, key=rank.__getitem__)
        return [layers[rank[name]] for name in order]
    cycle = [edge[0] for edge in nx.find_cycle(digraph)]
    raise ModelError(cycle[0], f"a cycle: {' -> '.join([*cycle, cycle[0]])}")


def _shaped(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers in order with their shapes; raises ``ModelError`` at one that does not accept its inputs."""
    found: dict[str, Layer] = {}
    known: dict[object, Shape] = {}
    faults = Faults()
    for layer in layers:
        # The shapes behind a layer with a fault are not known.
        if all(name in found for name in layer.inputs):
            inputs = tuple([found[name].shape for name in layer.inputs])
            key = (id(layer.op), *map(id, inputs))
            with faults:
                if key not in known:
                    shape = _shape(layer, inputs)
                    known[key] = known.setdefault(tuple(shape.items()), shape)
                found[layer.name] = replace(layer, input_shapes=inputs, shape=known[key])
    faults.check()
    return tuple(found.values())


def _shape(layer: Layer, inputs: tuple[Shape, ...]) -> Shape:
    if not inputs and layer.op_name != "input":
        raise ModelError(layer.name, "reads nothing", "an input before it: {op: input, channels: ...}")
    try:
        found = layer.op.output_shape(inputs)
    except ShapeError as error:
        raise ModelError(layer.name, str(error)) from None
    if max((size for dim, size in found.items() if dim in IMAGE), default=1) > LARGEST_SIZE:
        raise ModelError(layer.name, f"found an output of {describe(found)}", f"sizes up to {LARGEST_SIZE:,}")
    return found


def _check(layers: Sequence[Layer]) -> None:
    """Raise ``ModelError`` at a layer before the last that nothing reads, for no weight, or for unlike ties."""
    read, faults = {name for layer in layers for name in layer.inputs}, Faults()
    for layer in layers[:-1]:
        if layer.name not in read:
            found = "nothing reads its output"
            faults.append(ModelError(layer.name, found, "a reader for every layer but the last"))
    with faults:
        if not any(layer.weighted for layer in layers):
            raise ModelError(layers[0].name, "no layer has a weight", "one conv or linear at least")
    faults.check()
    ties_of(layers)


class Gradients(NamedTuple):
    """The gradients of a weighted layer: of which parameters, in the order in which they are ready, and bytes."""

    layer: str
    parameters: tuple[str, ...]
    num_bytes: int


def gradients_of(graph: LayerGraph) -> tuple[Gradients, ...]:
    """Return the gradients of each weighted layer, from the first layer to the last.

    Trained ops without a weight of their own, such as ``batch_norm``, belong to the weighted layer before them, whose
    backward phase comes next; those before the first weighted layer belong to that one.
    """
    held: dict[str, dict[str, int]] = {layer.name: {} for layer in graph.layers if layer.weighted}
    owner = next(iter(held))
    for layer in graph.layers:
        owner = layer.name if layer.weighted else owner
        held[owner] = {**layer.parameters, **held[owner]}
    sizes = {name: sum(own.values()) * graph.element_bytes for name, own in held.items()}
    return tuple([Gradients(name, tuple(own), sizes[name]) for name, own in held.items()])
