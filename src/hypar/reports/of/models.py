"""Documents of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.document import Column, Document, Table
from hypar.network.ops.base import describe
from hypar.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.network.graph import LayerGraph

_MODELS = (
    Column(key="model"),
    Column(key="weighted_layers", head="weighted layers", unit="whole"),
    Column(key="parameters", unit="count"),
    Column(key="macs_per_sample", head="MACs per sample", unit="count"),
    Column(key="flop_per_sample", show=False),
    Column(key="batch", unit="whole"),
    Column(key="dtype", show=False),
    Column(key="source", show=False),
)
_LAYERS = (
    Column(key="layer"),
    Column(key="op"),
    Column(key="inputs", show=False),
    Column(key="shape", show=False),
    Column(key="output", head="output of a sample", data=False),
    Column(key="parameters", unit="count"),
    Column(key="macs", head="MACs", unit="count"),
    Column(key="flop", head="FLOP", unit="count"),
)


def models_document(graphs: Iterable[LayerGraph]) -> Document:
    """Return the size and the source of each model."""
    rows = [
        {
            "model": graph.name,
            "weighted_layers": graph.num_weighted,
            "parameters": graph.num_parameters,
            "macs_per_sample": graph.macs(),
            "flop_per_sample": graph.flop(),
            "batch": graph.batch,
            "dtype": graph.dtype,
            "source": graph.source,
        }
        for graph in graphs
    ]
    return Document(title="", parts=(Table(_MODELS, rows),))


def document_of(graph: LayerGraph) -> Document:
    """Return the shape and the work of each layer of a model, for one sample."""
    rows = [
        {
            "layer": layer.name,
            "op": layer.op_name,
            "inputs": list(layer.inputs),
            "shape": dict(layer.shape),
            "output": describe(layer.shape).partition(" ")[0],
            "parameters": layer.num_parameters,
            "macs": layer.macs(),
            "flop": layer.flop(),
        }
        for layer in graph.layers
    ]
    sizes = f"{format_count(graph.num_parameters)} parameters, {format_count(graph.macs())} MACs a sample"
    return Document(
        title=f"{graph.name}: {graph.num_weighted} layers with weights, {sizes}",
        about=f"batch {graph.batch}, {graph.dtype}; {graph.source}",
        parts=(Table(_LAYERS, rows),),
    )


plugin = document_of
