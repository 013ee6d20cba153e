"""Tiles of the buffer: their sizes, the words that they move, and whether they fit."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.spatial.columns import larger, parts
from hypar.machine.spatial.loops import CHANNELS, FILTERS, SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.machine.spatial.loops import PhaseLoops, Store


_ONE = np.ones(1, dtype=np.int64)
_ONCE = np.ones(1)


class Tiles(NamedTuple):
    """Sizes of all tiles with one innermost loop, along which a tile is one pass, as columns.

    Attributes:
        innermost: the innermost loop outside the buffer.
        samples: samples of each tile; 1 if they are innermost, as are filters and channels.
        filters: filters of each tile.
        channels: channels of each tile.
        times_in: times that F_in comes to the buffer.
        times_out: times that F_out moves between buffer and memory.
        times_weights: times that W comes for a piece of rows; unless samples are innermost, when it comes once.
    """

    innermost: str
    samples: NDArray[np.int64]
    filters: NDArray[np.int64]
    channels: NDArray[np.int64]
    times_in: NDArray[np.float64]
    times_out: NDArray[np.float64]
    times_weights: NDArray[np.float64]


@lru_cache(maxsize=4096)
def tiles_of(innermost: str, samples: int, groups: int, filters: int, channels: int) -> Tiles:
    """Return the tiles that divide their loops evenly.

    Args:
        innermost: the innermost loop outside the buffer.
        samples: samples of all groups.
        groups: groups of channels.
        filters: filters of a group.
        channels: channels of a group.
    """
    sizes = (
        _ONE if innermost == SAMPLES else _divisors(samples),
        _ONE if innermost == FILTERS else _divisors(filters),
        _ONE if innermost == CHANNELS else _divisors(channels),
    )
    each = np.ones([len(axis) for axis in sizes], dtype=np.int64)
    n, m, c = ((axis * each).ravel() for axis in (sizes[0][:, None, None], sizes[1][:, None], sizes[2]))
    # Sizes are 1 along the innermost loop, during which a tensor without it stays.
    times_in = _ONCE if innermost == FILTERS else filters / m
    times_out = _ONCE if innermost == CHANNELS else channels / c
    times_weights = _ONCE if innermost == SAMPLES else weight_times(samples, groups, n)
    return Tiles(innermost, n, m, c, times_in, times_out, times_weights)


def memory_words(loops: PhaseLoops, folds: Any, tiles: Tiles) -> Any:
    """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
    f_in, f_out, weights = loops.stored(folds)
    stays = tiles.innermost == SAMPLES
    # A result that is not finished is written, and read again.
    if loops.gradient:
        often = 1 if stays else 2 * folds * tiles.times_weights - 1
        return f_in * tiles.times_in + f_out * tiles.times_out + weights * often
    often = 1 if stays else folds * tiles.times_weights
    return f_in * tiles.times_in + f_out * (2 * tiles.times_out - 1) + weights * often


def weight_times(all_samples: int, groups: int, samples: Any) -> Any:
    """Return how often W comes to the array for a piece of rows: for every tile of samples."""
    times = parts(all_samples, samples)
    return times if groups == 1 else larger(times, groups) / groups


def tile_fits(
    loops: PhaseLoops, store: Store, columns: Any, samples: Any, filters: Any, channels: Any
) -> Any:
    """Return whether a tile fits the buffer, its pieces having some columns."""
    if store.words is None:
        return samples * filters * channels * columns > 0
    f_in = samples * channels * (loops.held_rows(columns) * loops.read_width)
    f_out = samples * filters * (columns * loops.width)
    taken = _banks(f_in, store) + _banks(f_out, store)
    if shares(loops, store):
        weights = filters * channels * (loops.kernel * loops.taps) * parts(samples, loops.samples)
        taken = taken + _banks(weights, store)
    return taken <= store.words // store.bank


def _banks(words: Any, store: Store) -> Any:
    return words if store.bank == 1 else parts(words, store.bank)


def shares(loops: PhaseLoops, store: Store) -> bool:
    """Return whether W takes room beside the other tensors, as a result always does."""
    return loops.gradient or not store.weights


@lru_cache(maxsize=4096)
def _divisors(number: int) -> NDArray[np.int64]:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return np.array(sorted({*small, *(number // part for part in small)}))
