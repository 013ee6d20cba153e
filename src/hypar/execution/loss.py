"""The loss of a training step: a sum over output elements, so that a device needs only those that it holds.

Behind a softmax it is the mean cross-entropy against a label for every sample (and pixel); behind any other op half the
mean square of the distance to a target for every element. Labels and targets are drawn by index alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.execution.boxes import Array, Box, put, take
from hypar.execution.draws import uniform

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer


class Loss(NamedTuple):
    """What some elements of an output add to the loss.

    Attributes:
        value: their sum.
        error: derivative of the loss by each of them; NaN for all others.
    """

    value: float
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
    if layer.op_name == "softmax":
        value, error = _cross_entropy(layer, take(output, box), box)
        count = output.size // layer.shape["channels"]
    else:
        value, error = _square(layer, take(output, box), box)
        count = output.size
    return Loss(float(value.sum()) / count, put(output.shape, box, error / count))


def _cross_entropy(layer: Layer, local: Array, box: Box) -> tuple[Array, Array]:
    """Return minus the logarithm of the label's share, at the label, and its derivative."""
    batch, channels, *image = box
    places = [size for dim, size in layer.shape.items() if dim != "channels"]
    labels = np.floor(uniform(places, (batch, *image)) * layer.shape["channels"])
    hits = labels[:, None] == channels.reshape(-1, *[1] * len(image))
    return -np.log(local) * hits, -(hits / local)


def _square(layer: Layer, local: Array, box: Box) -> tuple[Array, Array]:
    """Return half the square of the distance to the target, and its derivative."""
    distance = local - (2 * uniform(layer.shape.values(), box) - 1)
    return distance**2 / 2, distance
