"""A span of a network's layers as a graph by itself, and what it reads of the layers before it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.graph import ContractedGraph

if TYPE_CHECKING:
    from hypar.graph import Tensor


def span_of(graph: ContractedGraph, start: int, end: int) -> ContractedGraph:
    """The layers from one up to another, with the tensors between them."""
    inside = (tensor for tensor in graph.tensors if start <= tensor.producer and tensor.consumer < end)
    tensors = tuple(_counted_from(start, tensor) for tensor in inside)
    return ContractedGraph(layers=graph.layers[start:end], tensors=tensors)


def read_of_others(graph: ContractedGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """The tensors that these layers read of layers before them, whose indices are negative."""
    outside = (tensor for tensor in graph.tensors if tensor.producer < start <= tensor.consumer < end)
    return tuple(_counted_from(start, tensor) for tensor in outside)


def _counted_from(start: int, tensor: Tensor) -> Tensor:
    """A tensor between layers that are counted from another one on."""
    return replace(tensor, producer=tensor.producer - start, consumer=tensor.consumer - start)
