"""The graph of a network's layers with their shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hypar.document import Result
from hypar.errors import ModelError, OptionError, UnknownNameError
from hypar.files.validation import validated
from hypar.network.nodes import PlanGraph, contract
from hypar.network.spec.load import digest_of
from hypar.network.ties import ties_of
from hypar.ops.base import LARGEST_SIZE
from hypar.ops.windows import ShapeError
from hypar.units import DTYPE_BYTES, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import networkx as nx

    from hypar.network.layer import Layer
    from hypar.network.spec.expansion import LayerSpec
    from hypar.network.ties import Tie
    from hypar.ops.base import Op, Shape


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerGraph(Result):
    """A network with all its shapes.

    Attributes:
        name: bare name of the model.
        source: publication of the network.
        digest: hash of everything that a plan depends on, except the mini-batch.
        batch: samples in a mini-batch.
        dtype: number format of every tensor.
        layers: layers in topological order, ties in the order of the file.
    """

    _document: ClassVar[str] = "catalogue"

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
        """Number of trained parameters in all layers."""
        return sum(count * layer.num_parameters for layer, count in self.kinds)

    @property
    def num_weighted(self) -> int:
        """Number of layers with a weight."""
        return sum(layer.weighted for layer in self.layers)

    @cached_property
    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """The layers that differ in more than their names, each with the number of those that do not, as blocks repeat."""
        firsts: dict[object, Layer] = {}
        counts: Counter[object] = Counter()
        for layer in self.layers:
            # Layers of a repeated block share their op and their shapes.
            key = (id(layer.op), *map(id, layer.input_shapes))
            firsts.setdefault(key, layer)
            counts[key] += 1
        return tuple((layer, counts[key]) for key, layer in firsts.items())

    def macs(self, batch: int = 1) -> int:
        """Return the multiply-accumulates of all layers, forward."""
        return sum(count * layer.macs(batch) for layer, count in self.kinds)

    def flop(self, batch: int = 1) -> int:
        """Return the floating-point operations of all layers, forward."""
        return sum(count * layer.flop(batch) for layer, count in self.kinds)

    def with_batch(self, batch: int) -> LayerGraph:
        """Return the network with another mini-batch, the same object for the same number.

        Raises:
            OptionError: the batch is not a whole number from 1 to 2**24.
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
        known = {layer.name: layer.op for layer in self.layers}
        unknown = [layer for layer in layers if layer not in known]
        if unknown:
            raise UnknownNameError("layer", unknown[0], tuple(known))
        if dtype is not None and dtype not in DTYPE_BYTES:
            raise OptionError("dtype", f"found {dtype!r}", ", ".join(DTYPE_BYTES))
        ops = {
            layer: validated(
                type(known[layer]),
                {**known[layer].model_dump(by_alias=True, exclude_defaults=True), **fields},
                place=lambda where, layer=layer: ".".join(map(str, (layer, *where))),  # type: ignore[misc]
                error=ModelError,
            )
            for layer, fields in layers.items()
        }
        found = self.with_ops(ops)
        dtype = self.dtype if dtype is None else dtype
        digest = digest_of(dtype, found.layers)
        return replace(found, name=self.name if name is None else name, dtype=dtype, digest=digest)

    def with_ops(self, ops: Mapping[str, Op]) -> LayerGraph:
        """Return the network with other ops in some of its layers, and infer all shapes again.

        Raises:
            ModelError: an op does not accept its inputs; ``where`` is the name of its layer.
        """
        shapes: dict[str, Shape] = {}
        layers = []
        for layer in self.layers:
            op, inputs = ops.get(layer.name, layer.op), tuple(shapes[name] for name in layer.inputs)
            try:
                shapes[layer.name] = op.output_shape(inputs)
            except ShapeError as error:
                raise ModelError(layer.name, str(error)) from None
            layers.append(replace(layer, op=op, input_shapes=inputs, shape=shapes[layer.name]))
        return replace(self, layers=tuple(layers))

    @cached_property
    def _by_batch(self) -> dict[int, LayerGraph]:
        """The networks with another mini-batch, so that what is known of their layers is found again."""
        return {}

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        """The layers that use the weight of another."""
        return ties_of(self.layers)

    @cached_property
    def digraph(self) -> nx.DiGraph[str]:
        """The graph of layer names, from producer to consumer."""
        return digraph_of(self.layers)

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


def digraph_of(layers: tuple[LayerSpec, ...] | tuple[Layer, ...]) -> nx.DiGraph[str]:
    """Return the graph of layer names, from producer to consumer."""
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that a plan need not spend)

    digraph: nx.DiGraph[str] = nx.DiGraph()
    digraph.add_nodes_from(layer.name for layer in layers)
    digraph.add_edges_from((name, layer.name) for layer in layers for name in layer.inputs)
    return digraph
