"""The loss of a training step: a sum over output elements, so that a device needs only those that it holds.

Behind a softmax it is the mean cross-entropy against a label for every sample (and pixel); behind any other op half the
mean square of the distance to a target for every element. Labels and targets are drawn by index alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.ops.run import Box, put, take, uniform

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.tape import Array


SHARES = frozenset({"softmax", "cross_entropy"})
"""The ops whose outputs are shares."""


class Loss(NamedTuple):
    """What some elements of an output add to the loss.

    Attributes:
        value: their sum.
        parts: what each of them adds; NaN for all others.
        error: derivative of the loss by each of them; NaN for all others.
    """

    value: float
    parts: Array
    error: Array


def outputs(graph: LayerGraph) -> tuple[Layer, ...]:
    """Return the layers whose output nothing reads, over which the loss is summed."""
    read = {name for layer in graph.layers for name in layer.inputs}
    return tuple(layer for layer in graph.layers if layer.name not in read)


def loss(layer: Layer, output: Array, box: Box) -> Loss:
    """Return what a box of an output adds to the loss; boxes that make up the whole add up to it.

    Args:
        layer: a layer that nothing reads.
        output: its output, of the whole size.
        box: the elements to add up.
    """
    if layer.op_name in SHARES:
        value, error = _cross_entropy(layer, take(output, box), box)
        count = output.size // math.prod(layer.shape[dim] for dim in _over(layer))
    else:
        value, error = _square(layer, take(output, box), box)
        count = output.size
    parts = value / count
    return Loss(float(parts.sum()), put(output.shape, parts, box), put(output.shape, error / count, box))


def _cross_entropy(layer: Layer, local: Array, box: Box) -> tuple[Array, Array]:
    """Return minus the logarithm of the label's share, at the label, and its derivative."""
    own = dict(zip(("batch", *layer.shape), box, strict=True))
    over = _over(layer)
    kept = [dim for dim in layer.shape if dim not in over]
    classes = math.prod(layer.shape[dim] for dim in over)
    drawn = uniform([layer.shape[dim] for dim in kept], tuple(own[dim] for dim in ("batch", *kept)))
    labels = np.expand_dims(np.floor(drawn * classes), tuple([*own].index(dim) for dim in over))
    place: Any = 0
    for dim in over:
        place = place * layer.shape[dim] + own[dim].reshape([-1 if dim == other else 1 for other in own])
    hits = labels == place
    return -np.log(local) * hits, -(hits / local)


def _over(layer: Layer) -> list[str]:
    """Return the dims whose elements are shares of one."""
    kept = layer.nest(1).sums["exponential"].dims
    return [dim for dim in layer.shape if dim not in kept]


def _square(layer: Layer, local: Array, box: Box) -> tuple[Array, Array]:
    """Return half the square of the distance to the target, and its derivative."""
    distance = local - (2 * uniform(layer.shape.values(), box) - 1)
    return distance**2 / 2, distance
