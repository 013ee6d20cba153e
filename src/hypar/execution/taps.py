"""Taps: the input elements that each output element of a window reads, as matrices of indices."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.windows import TransposedWindow, Window

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Indices


class Reading(NamedTuple):
    """What some outputs of a window read along one dim.

    Attributes:
        elements: the input elements that any of the outputs reads, sorted.
        taps: position in ``elements`` of each tap, ``[outputs, kernel]``; -1 where a tap meets padding.
    """

    elements: Indices
    taps: Indices


def reading(window: Window, outputs: Indices, size: int) -> Reading:
    """Return what outputs read among ``size`` input elements.

    Examples:
        >>> elements, taps = reading(Window(kernel=2, stride=2, padding=1), np.array([0, 2]), 5)
        >>> elements.tolist(), taps.tolist()
        ([0, 3, 4], [[-1, 0], [1, 2]])
        >>> reading(TransposedWindow(kernel=3, stride=2), np.array([1, 2]), 2).taps.tolist()
        [[-1, 0, -1], [1, -1, 0]]
    """
    return _reading(window, np.asarray(outputs, dtype=np.intp).tobytes(), size)


@lru_cache(maxsize=4096)
def _reading(window: Window, outputs: bytes, size: int) -> Reading:
    found = _inputs(window, np.frombuffer(outputs, dtype=np.intp)[:, None])
    found[(found < 0) | (found >= size)] = -1
    elements = np.unique(found[found >= 0])
    return Reading(elements, np.where(found < 0, -1, np.searchsorted(elements, found)))


def _inputs(window: Window, outputs: Indices) -> Indices:
    """Return the input element at each tap, ``[outputs, kernel]``, which may lie outside the input."""
    taps = np.arange(window.kernel) * window.dilation
    if not isinstance(window, TransposedWindow):
        found: Indices = outputs * window.stride - window.padding + taps
        return found
    element, beside = np.divmod(outputs + window.padding - taps, window.stride)
    return np.where(beside == 0, element, -1)


def gather(image: Array, rows: Reading, columns: Reading, border: float = 0.0) -> Array:
    """Return every tap's element, ``[batch, channels, outputs, taps, outputs, taps]``.

    Args:
        image: the elements read, ``[batch, channels, rows.elements, columns.elements]``.
        rows: what the outputs read along the height.
        columns: what they read along the width.
        border: the value of padding.
    """
    batch, channels, height, width = image.shape
    # The last row and column are the padding, which is where a tap of -1 points.
    framed = np.full((batch, channels, height + 1, width + 1), border)
    framed[:, :, :height, :width] = image
    return framed[:, :, rows.taps][:, :, :, :, columns.taps]


def scatter(errors: Array, rows: Reading, columns: Reading) -> Array:
    """Return the sum of all taps' errors at each element that they read: the transpose of ``gather``."""
    batch, channels, places = errors.shape[:3]
    height, width = len(rows.elements) + 1, len(columns.elements) + 1
    across = np.zeros((batch, channels, places, rows.taps.shape[1], width))
    for tap, elements in enumerate(columns.taps.T):  # elements of one tap differ, but for padding
        across[..., elements] += errors[..., tap]
    summed = np.zeros((batch, channels, height, width))
    for tap, elements in enumerate(rows.taps.T):
        summed[:, :, elements] += across[:, :, :, tap]
    return summed[:, :, :-1, :-1]


def matrix(rows: Reading, weights: Array) -> Array:
    """Return the matrix ``[outputs, elements]`` that weighs each tap's element.

    Args:
        rows: what the outputs read along one dim.
        weights: weight of each tap, ``[outputs, kernel]``.
    """
    places = len(rows.taps)
    weighed = np.zeros((places, len(rows.elements) + 1))
    weighed[np.arange(places)[:, None], rows.taps] = weights
    return weighed[:, :-1]
