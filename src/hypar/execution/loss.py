"""The loss of a training step: a sum over output elements, so that a device needs only those that it holds.

Behind a softmax it is the mean cross-entropy against a label for every sample (and pixel); behind any other op half the
mean square of the distance to a target for every element. Labels and targets are drawn by index alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.run import uniform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.network.layer import Layer
    from hypar.ops.tape import Array


SHARES = frozenset({"softmax", "cross_entropy"})
"""The ops whose outputs are shares."""


def loss(layer: Layer, outputs: Array) -> tuple[Array, Array]:
    """Return what each element of an output adds to the loss, and the derivative by it; NaN for elements that are not there.

    Args:
        layer: a layer that nothing reads.
        outputs: its output, ``[..., batch, *shape]``, each one by itself.
    """
    sizes = {"batch": outputs.shape[-1 - len(layer.shape)], **layer.shape}
    over = (
        [dim for dim in layer.shape if dim not in layer.nest(1).sums["exponential"].dims]
        if _shared(layer)
        else []
    )
    count = math.prod(size for dim, size in sizes.items() if dim not in over)
    if not _shared(layer):
        distance = outputs - (2 * _drawn(sizes.values()) - 1)
        return distance**2 / 2 / count, distance / count
    classes = np.arange(math.prod(sizes[dim] for dim in over))
    places = classes.reshape([size if dim in over else 1 for dim, size in sizes.items()])
    drawn = _drawn(size for dim, size in sizes.items() if dim not in over)
    labels = np.expand_dims(np.floor(drawn * len(classes)), tuple([*sizes].index(dim) for dim in over))
    hits = labels == places
    return -np.log(outputs) * hits / count, -(hits / outputs) / count


def _shared(layer: Layer) -> bool:
    return layer.op_name in SHARES


def _drawn(sizes: Iterable[int]) -> Array:
    """Return a random number for each place of an array of some sizes, the samples first."""
    shape = [*sizes]
    return uniform(shape[1:], tuple(map(np.arange, shape)))
