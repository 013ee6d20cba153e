"""Taps: the input elements that each output element of a window reads, as matrices of indices."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Indices
    from hypar.network.windows import Window


class Reading(NamedTuple):
    """What some outputs of a window read along one dim.

    Attributes:
        elements: the input elements that any of the outputs reads, sorted.
        taps: position in ``elements`` of each tap, ``[outputs, kernel]``; -1 where a tap meets padding.
        pairs: for each tap of the kernel the outputs whose tap meets no padding, and the positions of what they read; as
            slices where both are evenly spaced.
    """

    elements: Indices
    taps: Indices
    pairs: tuple[tuple[Any, Any], ...]


def reading(window: Window, outputs: Indices, size: int) -> Reading:
    """Return what outputs read among ``size`` input elements.

    Examples:
        >>> from hypar.network.windows import TransposedWindow, Window
        >>> elements, taps, _ = reading(Window(kernel=2, stride=2, padding=1), np.array([0, 2]), 5)
        >>> elements.tolist(), taps.tolist()
        ([0, 3, 4], [[-1, 0], [1, 2]])
        >>> reading(TransposedWindow(kernel=3, stride=2), np.array([1, 2]), 2).taps.tolist()
        [[-1, 0, -1], [1, -1, 0]]
    """
    return _reading(window, np.asarray(outputs, dtype=np.intp).tobytes(), size)


@lru_cache(maxsize=4096)
def _reading(window: Window, outputs: bytes, size: int) -> Reading:
    found = window.taps(size, np.frombuffer(outputs, dtype=np.intp))
    elements = np.unique(found[found >= 0])
    return _paired(elements, np.where(found < 0, -1, np.searchsorted(elements, found)))


def within(read: Reading, kept: Indices) -> Reading:
    """Return what outputs read of some input elements, as if the others were padding."""
    held = np.isin(read.elements, kept)
    places = np.append(np.where(held, held.cumsum() - 1, -1), -1)
    return _paired(read.elements[held], places[read.taps])


def _paired(elements: Indices, taps: Indices) -> Reading:
    """Return a reading with the pairs of each tap."""
    met = [(np.flatnonzero(tap >= 0), tap[tap >= 0]) for tap in taps.T]
    return Reading(elements, taps, tuple((_selection(places), _selection(read)) for places, read in met))


def _selection(indices: Indices) -> Any:
    """Return a slice for evenly spaced indices, which is much faster, else the indices."""
    steps = np.diff(indices)
    if not len(indices) or (steps != steps[:1]).any():
        return indices
    step = int(steps[0]) if len(steps) else 1
    return slice(int(indices[0]), int(indices[-1]) + 1, step)


def gather(image: Array, rows: Reading, columns: Reading, border: float = 0.0) -> Array:
    """Return every tap's element, ``[channels, kernel_height, kernel_width, batch, outputs, outputs]``.

    Args:
        image: the elements read, ``[batch, channels, rows.elements, columns.elements]``.
        rows: what the outputs read along the height.
        columns: what they read along the width.
        border: the value of padding.
    """
    batch, channels, height, _ = image.shape
    places, kernel = zip(rows.taps.shape, columns.taps.shape, strict=True)
    across = np.full((channels, kernel[1], batch, height, places[1]), border)
    for tap, (made, read) in enumerate(columns.pairs):
        across[:, tap][..., made] = image[:, :, :, read].transpose(1, 0, 2, 3)
    every = np.full((channels, *kernel, batch, *places), border)
    for tap, (made, read) in enumerate(rows.pairs):
        every[:, tap][:, :, :, made] = across[:, :, :, read]
    return every


def scatter(errors: Array, rows: Reading, columns: Reading) -> Array:
    """Return the sum of all taps' errors at each element that they read: the transpose of ``gather``."""
    channels, _, taps, batch, _, width = errors.shape
    across = np.zeros((channels, taps, batch, len(rows.elements), width))
    for tap, (made, read) in enumerate(rows.pairs):  # elements of one tap differ
        across[:, :, :, read] += errors[:, tap][:, :, :, made]
    summed = np.zeros((batch, channels, len(rows.elements), len(columns.elements)))
    for tap, (made, read) in enumerate(columns.pairs):
        summed[:, :, :, read] += across[:, tap][..., made].transpose(1, 0, 2, 3)
    return summed


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
