"""Boxes: the elements of a tensor with given indices along each dim, taken from and put into arrays of whole size.

Arrays have the whole size of their tensor and hold NaN wherever a device holds nothing, so that an element that is
missing shows as NaN in whatever is computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hypar.network.layer import Layer

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Box = tuple[Indices, ...]
Piece = Mapping[str, Indices]

KERNEL_DIMS = frozenset({"kernel_depth", "kernel_height", "kernel_width"})
"""The op dims that no piece names: a kernel is always whole."""


def whole_piece(layer: Layer, batch: int) -> Piece:
    """Return the piece that is the whole layer."""
    sizes = layer.einsum(batch).sizes
    return {dim: np.arange(size) for dim, size in sizes.items() if dim not in KERNEL_DIMS}


def take(array: Array, box: Box) -> Array:
    """Return the elements of a box, which may name the first dims alone; a view where all indices are consecutive."""
    taken: Array = array[_index(box)]
    return taken


def put(shape: tuple[int, ...], box: Box, values: Array) -> Array:
    """Return an array of the whole size that holds values in a box and NaN elsewhere."""
    array = np.full(shape, np.nan)
    array[_index(box)] = values
    return array


def mask(shape: tuple[int, ...], box: Box) -> Mask:
    """Return which elements of an array lie in a box."""
    inside = np.zeros(shape, dtype=np.bool_)
    inside[_index(box)] = True
    return inside


def _index(box: Box) -> Any:
    """Return what selects a box: slices where all indices are consecutive, which is much faster."""
    slices = []
    for indices in box:
        size = len(indices)
        first = int(indices[0]) if size else 0
        if size and int(indices[-1]) - first + 1 != size:
            return np.ix_(*box)
        slices.append(slice(first, first + size))
    return tuple(slices)
