"""The tensors of a network that an execution moves, whatever the choices."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.nodes import kept_with_graph
from hypar.sharding.conventions import DIRECT, FUSED, PAPER

if TYPE_CHECKING:
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest


class Sums(NamedTuple):
    """The partial sums of a layer that are added up inside it.

    Attributes:
        output: whether F_out is added up inside the layer.
        input: whether E_in is.
        weight: whether dW is; that of a weight that an earlier layer has too is added up with that layer's.
        as_read: elements of F_out as its readers see it, which ``paper`` adds up; None where they are added up before the ops
            behind the layer.
    """

    output: bool
    input: bool
    weight: bool = True
    as_read: float | None = None

    @property
    def apart(self) -> bool:
        """Whether each level is counted by itself: gaps between windows too, and rows beside borders as a transfer of their own."""
        return self.as_read is not None


class Flow(NamedTuple):
    """The amounts of a tensor between two layers.

    Attributes:
        elements: elements of F and of E that the consumer reads.
        made: elements of the producer's F_out before the ops between; 0 if its sums are added up inside it.
        error: whether E is sent back.
        terms: whether E is sent as terms, which are not added up inside the consumer.
        apart: whether each level is counted by itself, whatever the others have brought.
    """

    elements: float
    made: int = 0
    error: bool = True
    terms: bool = False
    apart: bool = False


class Flows(NamedTuple):
    """The amounts of a network.

    Attributes:
        sums: for each layer the sums that are added up inside it.
        tensors: the amounts of each tensor.
    """

    sums: tuple[Sums, ...]
    tensors: tuple[Flow, ...]


@kept_with_graph
def flows_of(graph: PlanGraph, convention: str) -> Flows:
    """Return the amounts of a network under a convention.

    Under ``paper`` every layer adds up all its sums, and every tensor has an error. ``direct`` sends the terms of errors to
    their readers. Under ``moved`` and ``fused`` no error is sent to a layer before which nothing is trained. Under ``fused``
    the sums of an output that one layer reads, and the terms of an error, are added up on the way to the next layer.
    """
    layers, fused = graph.layers, convention == FUSED
    if convention in {PAPER, DIRECT}:
        paper = convention == PAPER
        added = [Sums(True, paper, as_read=one.output_elements if paper else None) for one in layers]
        return Flows(tuple(added), tuple(Flow(one.elements, apart=True) for one in graph.tensors))
    needed = [index in graph.fed for index in range(len(layers))]
    readers = [int(index in graph.sent) for index in range(len(layers))]
    for tensor in graph.tensors:
        readers[tensor.producer] += 1
    sums = [Sums(output=True, input=fed) for fed in needed]
    found = []
    for tensor in sorted(graph.tensors, key=lambda one: one.consumer):
        made, read = layers[tensor.producer], layers[tensor.consumer]
        error = made.weighted or needed[tensor.producer]
        needed[tensor.consumer] |= error
        onward = fused and made.nest.multiplies and readers[tensor.producer] == 1
        terms = fused and read.nest.multiplies and error
        if onward:
            sums[tensor.producer] = sums[tensor.producer]._replace(output=False)
        sums[tensor.consumer] = sums[tensor.consumer]._replace(input=needed[tensor.consumer] and not terms)
        elements = tensor.elements * fraction_read(read.nest)
        found.append((tensor, Flow(elements, made.nest.elements("output") if onward else 0, error, terms)))
    flows = {id(tensor): flow for tensor, flow in found}
    return Flows(tuple(sums), tuple(flows[id(tensor)] for tensor in graph.tensors))


@lru_cache(maxsize=4096)
def fraction_read(nest: Nest) -> float:
    """Return the fraction of F_in that the windows of a layer read: below 1 if their stride leaves gaps.

    Examples:
        >>> from hypar import load_model
        >>> layer = next(one for one in load_model("resnet18").contracted.layers if one.name == "layer2.0.downsample.0")
        >>> fraction_read(layer.nest)
        0.25
    """
    found = 1.0
    for dim, window in nest.windows.items():
        size, made = nest.input_sizes[dim], nest.sizes[dim]
        rows = round(made)
        if window.gaps and size and made != rows:
            # An uneven split may leave a part of a row.
            found *= min(1.0, made * window.extent / size)
        elif window.gaps and size:
            starts = (place * window.stride - window.padding for place in range(rows))
            taken = (min(start + window.extent, size) - max(start, 0) for start in starts)
            found *= sum(max(0, count) for count in taken) / size
    return found
