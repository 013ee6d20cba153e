"""A smaller network whose named dims are divided by powers of two, each alike wherever it occurs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.dims import atom_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.network.ops.base import Op

LEAST = 4
"""Elements of a named dim that are left at least."""

MOST_HALVINGS = 40


def named_dims(graph: LayerGraph) -> dict[str, int]:
    """Return the named dims whose sizes ops state, with the largest of their sizes."""
    found: dict[str, int] = {}
    for layer in graph.layers:
        for sizes in _stated(layer.op).values():
            for dim, size in sizes:
                found[dim] = max(size, found.get(dim, 1))
    return found


def with_smaller_dims(graph: LayerGraph, degrees: Mapping[str, Mapping[str, int]]) -> LayerGraph:
    """Return the smallest network that halving named dims gives, whose cuts are even where they were.

    Positions along which a convolution slides stay as they are, so that its windows fit.

    Args:
        graph: the network.
        degrees: the number of equal pieces into which a plan cuts the dims of each layer.
    """
    pieces = _pieces(graph, degrees)
    slid = {
        dim
        for layer in graph.layers
        for dim in layer.einsum(1).whole & {*layer.op.windows_on(layer.input_shapes)}
    }
    times = {
        dim: 1 if dim in slid else _times(size, pieces.get(dim, ()))
        for dim, size in named_dims(graph).items()
    }
    return graph.with_ops({layer.name: _smaller(layer.op, times) for layer in graph.layers})


def _stated(op: Op) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the fields of an op that state the sizes of dims."""
    return {name: sizes for name in op.sized if (sizes := getattr(op, name))}


def _pieces(graph: LayerGraph, degrees: Mapping[str, Mapping[str, int]]) -> dict[str, set[int]]:
    """Return the numbers of equal pieces into which each named dim is cut evenly."""
    found: dict[str, set[int]] = {}
    layers: dict[str, Layer] = {layer.name: layer for layer in graph.layers}
    for name, own in degrees.items():
        sizes = layers[name].einsum(1).sizes
        for dim, degree in own.items():
            if dim != "batch" and sizes[dim] % degree == 0:
                found.setdefault(atom_of(dim), set()).add(degree)
    for layer in graph.layers:
        own = degrees.get(layer.name, {})
        read = layer.einsum(1).input
        for dim, size in layer.op.rounds.items():
            pieces = [own.get(op, 1) for op, name in read.items() if name == dim]
            found.setdefault(dim, set()).add(math.prod([size, *pieces]))
    return found


def _times(size: int, pieces: set[int] | tuple[()]) -> int:
    """Return the largest power of two by which a dim may be divided, rounding up where nothing cuts it evenly."""
    found = 1
    for _ in range(MOST_HALVINGS):
        less = _divided(size, 2 * found)
        if less < LEAST or any(less % count for count in pieces):
            break
        found *= 2
    return found


def _divided(size: int, times: int) -> int:
    return -(-size // times)


def _smaller(op: Op, times: Mapping[str, int]) -> Op:
    """Return an op with smaller dims."""
    changes = {
        name: tuple((dim, _divided(size, times[dim])) for dim, size in sizes)
        for name, sizes in _stated(op).items()
    }
    return op.model_copy(update=changes) if changes else op
