"""The graph of a network's layers with their shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.errors import OptionError
from hypar.network.contraction import ContractedGraph, contract
from hypar.network.ops.base import LARGEST_SIZE
from hypar.network.ties import ties_of
from hypar.units import DTYPE_BYTES, format_count

if TYPE_CHECKING:
    import networkx as nx

    from hypar.network.layer import Layer
    from hypar.network.spec.expansion import LayerSpec
    from hypar.network.ties import Tie


@dataclass(frozen=True, kw_only=True, repr=False)
class LayerGraph:
    """A network with all its shapes.

    Attributes:
        name: bare name of the model.
        source: publication of the network.
        digest: hash of everything that a plan depends on, except the mini-batch.
        batch: samples in a mini-batch.
        dtype: number format of every tensor.
        layers: layers in topological order, ties in the order of the file.
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
        """Number of trained parameters in all layers."""
        return sum(count * layer.num_parameters for layer, count in self.kinds)

    @property
    def num_weighted(self) -> int:
        """Number of layers with a weight."""
        return sum(layer.op.weighted for layer in self.layers)

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
    def contracted(self) -> ContractedGraph:
        """The contracted graph: weighted layers and joins, connected by the tensors that they read."""
        return contract(self.layers, self.batch)

    @cached_property
    def operators(self) -> ContractedGraph:
        """The operator graph: the contracted graph with pools as nodes."""
        return contract(self.layers, self.batch, operators=True)

    def nodes(self, graph: str | None) -> ContractedGraph:
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
