"""A second derivation of the volume of a plan: fractions, one tensor and one device at a time.

It shares with the planner only the nest of each layer and the network's graph; placements, transfers and
local sizes are worked out again, by hand-written cases.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanNode, Tensor
from hypar.sharding.placement import Choice

Choices = Sequence[Choice]


def volume(graph: LayerGraph, choices: Sequence[Choices]) -> Fraction:
    """Bytes received by all devices at all levels, when layer i takes ``choices[i][level]``."""
    return sum(volumes(graph, choices), Fraction(0))


def volumes(graph: LayerGraph, choices: Sequence[Choices]) -> Iterator[Fraction]:
    """Bytes received by all devices at each level, which do not depend on the levels below."""
    cut = graph.contracted
    for level in range(1, len(choices[0]) + 1):
        total = Fraction(0)
        for layer, at in zip(cut.layers, choices, strict=True):
            total += layer_elements(layer, at[:level])
        for tensor in cut.tensors:
            ends = choices[tensor.producer][:level], choices[tensor.consumer][:level]
            total += tensor_elements(graph, tensor, *ends)
        yield total * graph.element_bytes


def layer_elements(layer: PlanNode, at: Choices) -> Fraction:
    """Elements that all devices receive inside a layer at the innermost of some levels."""
    return _devices(at) * _inside(layer, at[:-1], at[-1])


def tensor_elements(graph: LayerGraph, tensor: Tensor, made_at: Choices, read_at: Choices) -> Fraction:
    """Elements that all devices receive between two layers at the innermost of some levels."""
    made, read = (graph.contracted.layers[end] for end in (tensor.producer, tensor.consumer))
    left = _left(read, "input", read_at[:-1])
    halo = _halo(read, read_at[:-1], read_at[-1])
    parts = _between(made, made_at[-1], read, read_at[-1], tensor.contracted, halo)
    return _devices(read_at) * parts * tensor.elements * left


def best_volume(graph: LayerGraph, options: Sequence[Sequence[Choice]], levels: int) -> Fraction:
    """The least volume over every choice of every layer at every level."""
    every: Iterator[tuple[Choices, ...]] = itertools.product(
        *(itertools.product(layer, repeat=levels) for layer in options)
    )
    return min(volume(graph, choices) for choices in every)


def _devices(at: Choices) -> int:
    """How many devices some levels make: two of each, a join done whole included."""
    return int(2 ** len(at))


def elements_of(layer: PlanNode, tensor: str) -> int:
    return layer.output_elements if tensor == "output" else layer.nest.elements(tensor)


def _left(layer: PlanNode, tensor: str, above: Choices) -> Fraction:
    """The part of a tensor that a group has after the levels above."""
    carried = layer.nest.names[tensor]
    return Fraction(1, math.prod(2 for choice in above if _dim(choice) in carried))


def _inside(layer: PlanNode, above: Choices, choice: Choice) -> Fraction:
    """Elements that one of two devices receives to add up what is partial."""
    if layer.join or _dim(choice) is None:
        return Fraction(0)
    partial = {"batch": "weight", "height": "weight", "width": "weight", "in_channels": "output",
               "out_channels": "input"}.get(_dim(choice) or "")  # fmt: skip
    amount = Fraction(0) if partial is None else elements_of(layer, partial) * _left(layer, partial, above)
    return amount + _halo(layer, above, choice) * layer.nest.elements("input") * _left(layer, "input", above)


def _halo(layer: PlanNode, above: Choices, choice: Choice) -> Fraction:
    """What one device reads past its half of a cut image, in parts of F_in: half of one border's halo."""
    window = layer.nest.windows.get(_dim(choice) or "")
    if window is None:
        return Fraction(0)
    size = Fraction(layer.nest.input_sizes[_dim(choice) or ""])
    for before in above:
        size /= 2 if _dim(before) == _dim(choice) else 1
    overlap = max(0, (window.kernel - 1) * window.dilation + 1 - window.stride)
    return Fraction(1, 2) * min(Fraction(1), overlap / size)


def _kept(layer: PlanNode, choice: Choice, end: str) -> str | None:
    """The dim by which a tensor is divided once sums are added up; None where every device has it all."""
    if _dim(choice) is None or (_dim(choice) == {"output": "in_channels", "input": "out_channels"}[end]):
        return None
    names = layer.nest.names["output"] if end == "output" else layer.nest.names["input"]
    return names.get(_dim(choice) or "")


def _between(
    made: PlanNode, maker: Choice, read: PlanNode, reader: Choice, contracted: frozenset[str], halo: Fraction
) -> Fraction:
    """Parts of a tensor that one of two devices receives, F and E."""
    have, need = _kept(made, maker, "output"), _kept(read, reader, "input")
    parts = Fraction(0)
    if have in contracted:
        parts, have = parts + 1, None
    if have is None:
        forward = Fraction(0)
    elif have == need:
        forward = halo
    else:
        forward = (Fraction(1, 2) if need else Fraction(1)) / 2 + halo / 2
    backward = Fraction(0) if need is None or need == have else Fraction(1, 4) if have else Fraction(1, 2)
    return parts + forward + backward


def _dim(choice: Choice) -> str | None:
    """The dim that a choice divides in two."""
    return next((dim for dim, _ in choice.degrees), None)
