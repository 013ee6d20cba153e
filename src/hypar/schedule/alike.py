"""The layers and tensors of a network as far as their transfers depend on them; equal ones share one object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.nodes import kept_with_graph
from hypar.sharding.amounts.above import network_of
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from hypar.network.nodes import Content, PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.amounts.parts import Part


@dataclass(frozen=True, eq=False, slots=True)
class Within:
    """A layer as far as the transfers inside it depend on it.

    Attributes:
        nest: the layer.
        output_elements: elements of F_out as its readers see it.
        sums: the partial sums that are added up inside it; None under ``paper``.
    """

    nest: Nest
    output_elements: int
    sums: Sums | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Across:
    """A tensor between two layers as far as its transfers depend on it.

    Attributes:
        ends: producer and consumer.
        content: its size and shape under ``paper``.
        between: its dims at both ends; None under ``paper``.
        parts: its transfers; empty under ``paper``.
    """

    ends: tuple[Nest, Nest]
    content: Content | None
    between: Between | None = None
    parts: tuple[Part, ...] = ()


class Alike(NamedTuple):
    """The layers and tensors of a network.

    Attributes:
        layers: the layers; None for those that an uneven split has left empty.
        tensors: the tensors, and behind them the weights that two layers use; None for those of empty layers.
        ends: the indices of the producer and of the consumer of each tensor.
    """

    layers: tuple[Within | None, ...]
    tensors: tuple[Across | None, ...]
    ends: tuple[tuple[int, int], ...]


@kept_with_graph
def alike(graph: PlanGraph, convention: str) -> Alike:
    """Return the layers and tensors of a network; under ``paper`` without those that are empty."""
    layers, tensors = _published(graph) if convention == PAPER else _counted(graph, convention)
    every = (*graph.tensors, *graph.ties)[: len(tensors)]
    return Alike(layers, tensors, tuple((tensor.producer, tensor.consumer) for tensor in every))


def _published(graph: PlanGraph) -> tuple[tuple[Within | None, ...], tuple[Across | None, ...]]:
    """Return layers and tensors as ``paper`` counts them."""
    layers = tuple(None if one.empty else _within(one.nest, one.output_elements) for one in graph.layers)
    tensors: list[Across | None] = []
    for tensor in graph.tensors:
        made, read = graph.ends(tensor)
        gone = made.empty or read.empty
        tensors.append(None if gone else _across((made.nest, read.nest), tensor.content))
    return layers, tuple(tensors)


def _counted(graph: PlanGraph, convention: str) -> tuple[tuple[Within, ...], tuple[Across, ...]]:
    """Return layers and tensors as ``moved`` or ``fused`` counts them."""
    network = network_of(graph, convention)
    layers = zip(graph.layers, network.flows.sums, strict=True)
    tensors = []
    for tensor, between, parts in zip(network.tensors, network.between, network.parts, strict=True):
        made, read = graph.ends(tensor)
        ends = (made.nest.unsized, read.nest)
        tensors.append(_across(ends, None, between, parts))
    return tuple(_within(layer.nest, 0, sums) for layer, sums in layers), tuple(tensors)


_within = lru_cache(maxsize=4096)(Within)
_across = lru_cache(maxsize=4096)(Across)
