"""Numbers drawn for elements of tensors by their global index alone, so that every device draws the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.execution.boxes import Array, Box


def uniform(sample: Iterable[int], box: Box) -> Array:
    """Return a number from 0 to 1 for each element of a box, drawn by its index in the whole tensor.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

    Args:
        sample: sizes of one sample; the batch may have any.
        box: the box, batch first.

    Examples:
        >>> whole = uniform([3], (np.arange(4), np.arange(3)))
        >>> bool((uniform([3], (np.arange(1, 3), np.array([0, 2]))) == whole[1:3, ::2]).all())
        True
    """
    index, *parts = np.ix_(*box)
    for size, part in zip(sample, parts, strict=True):
        index = index * size + part
    bits = (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    numbers: Array = (bits ^ (bits >> np.uint64(31))) / 2.0**64
    return numbers
