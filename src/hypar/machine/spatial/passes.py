"""Tiles of the buffer and passes of the array over them: what fits, and the words that they move.

All are columns: every size of a tile with one innermost loop, every grid and every number of interleaved channels of a pass.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.spatial.loops import CHANNELS, FILTERS, SAMPLES
from hypar.machine.spatial.sets import grids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hypar.machine.spatial.loops import Array, PhaseLoops, Store
    from hypar.machine.spatial.sets import SetLayout

    Numbers = NDArray[np.int64]

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
    samples: Numbers
    filters: Numbers
    channels: Numbers
    times_in: NDArray[np.float64]
    times_out: NDArray[np.float64]
    times_weights: NDArray[np.float64]


@lru_cache(maxsize=4096)
def tiles_of(innermost: str, samples: int, groups: int, filters: int, channels: int) -> Tiles:
    """Return the tiles that divide their loops evenly.

    Args:
        innermost: the innermost loop outside the buffer.
        samples: samples of all groups.
        groups: groups of channels; those below are of one group.
        filters: filters.
        channels: channels.
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


def weight_times(all_samples: int, groups: int, samples: Any) -> Any:
    """Return how often W comes to the array for a piece of rows: for every tile of samples."""
    return np.maximum(-(-all_samples // samples), groups) / groups


@lru_cache(maxsize=4096)
def _divisors(number: int) -> Numbers:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return np.array(sorted({*small, *(number // part for part in small)}))


class Pass(NamedTuple):
    """Passes of the array, as columns.

    Attributes:
        r: channels side by side.
        t: filters side by side.
        b: samples side by side.
        q: channels of an element.
        p: filters of an element; the most that its registers hold where passes are to be chosen from.
    """

    r: Numbers
    t: Numbers
    b: Numbers
    q: Numbers
    p: Numbers


@lru_cache(maxsize=4096)
def _passes(array: Array, taps: int, sets: int, channels: int, filters: int, samples: int) -> Pass:
    """Return the passes with all grids of sets and all channels that an element may interleave."""
    # An element holds a window of each channel and the next word of it, which arrives meanwhile.
    most = max(1, min(array.input_words // (taps + 1), channels))
    most = max(1, min(most, array.weight_words // taps))
    laid = grids(sets, min(channels, sets), min(filters, sets), min(samples, sets))
    r, t, b = np.array(laid, dtype=np.int64).repeat(most, axis=0).T
    q = np.arange(len(r)) % most + 1
    p = np.minimum(np.maximum(1, array.weight_words // (q * taps)), array.output_words)
    return Pass(r, t, b, q, p)


class Run(NamedTuple):
    """The loops of a phase on a unit."""

    loops: PhaseLoops
    array: Array
    store: Store

    @property
    def shares(self) -> bool:
        """Whether W takes room in the buffer beside the other tensors, as a result always does."""
        return self.loops.gradient or not self.store.weights

    def tiles(self, innermost: str) -> Tiles:
        """Return the tiles with an innermost loop outside the buffer."""
        own = self.loops
        return tiles_of(innermost, own.all_samples, own.groups, own.filters, own.channels)

    def most_channels(self, layout: SetLayout) -> int:
        """Return the most channels that a pass may have: more than a bank holds only if the array is not full without."""
        loops = self.loops
        if not self.store.pass_in_bank:
            return loops.channels + layout.sets * loops.channels
        held = self.store.bank // (loops.held_rows(layout.columns) * loops.read_width)
        full = -(-layout.sets // (loops.filters * loops.all_samples))
        return held if loops.whole_width else max(1, held, full)

    def fits(self, columns: Any, samples: Any, filters: Any, channels: Any) -> Any:
        """Return whether a tile fits the buffer, its pieces having some columns."""
        loops, store = self.loops, self.store
        if store.words is None:
            return samples * filters * channels * columns > 0
        sizes = [samples * channels * (loops.held_rows(columns) * loops.read_width)]
        sizes.append(samples * filters * (columns * loops.width))
        if self.shares:
            sizes.append(filters * channels * (loops.kernel * loops.taps) * -(-samples // loops.samples))
        taken = sum(sizes) if store.bank == 1 else sum(-(-words // store.bank) for words in sizes)
        return taken <= store.words // store.bank

    def memory_words(self, folds: Any, tiles: Tiles) -> Any:
        """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
        f_in, f_out, weights = self.loops.stored(folds)
        stays = tiles.innermost == SAMPLES
        # A result that is not finished is written, and read again.
        if self.loops.gradient:
            often = 1 if stays else 2 * folds * tiles.times_weights - 1
            return f_in * tiles.times_in + f_out * tiles.times_out + weights * often
        often = 1 if stays else folds * tiles.times_weights
        return f_in * tiles.times_in + f_out * (2 * tiles.times_out - 1) + weights * often

    def buffer_words(self, folds: int, innermost: str, tile: Sequence[Any], own: Pass) -> Any:
        """Return the words between buffer and array.

        Args:
            folds: pieces of a set.
            innermost: the innermost loop outside the buffer.
            tile: samples, filters and channels in the buffer.
            own: the passes: their channels' terms are added up in the array, and their filters share a read of F_in.
        """
        loops, (samples, filters, channels) = self.loops, tile
        side, deep = own.q * own.r, own.p * own.t
        f_in, f_out, weights = loops.words(folds)
        times_in = -(-loops.filters // filters) * -(-filters // deep)
        times_out = -(-loops.channels // channels) * -(-channels // side)
        if not self.shares:
            return f_in * times_in + 2 * f_out * times_out
        often = folds * weight_times(loops.all_samples, loops.groups, samples)
        if innermost == SAMPLES:
            often = np.where((filters <= deep) & (channels <= side), 1, often)
        results = (1, 2) if loops.gradient else (2, 1)
        return f_in * times_in + results[0] * f_out * times_out + results[1] * weights * often

    def passes(self, layout: SetLayout, most: int) -> Pass:
        """Return the passes with a layout that may be chosen from, of some channels at most."""
        own, channels = self.loops, min(most, self.loops.channels)
        return _passes(self.array, own.taps, layout.sets, channels, own.filters, own.all_samples)

    def over(self, layout: SetLayout, inner: str, tile: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return passes over a tile with its sizes and the words from the buffer, and their cost, infinite where one does not fit.

        Args:
            layout: the sets.
            inner: the innermost loop outside the buffer.
            tile: samples, filters and channels of the tile; 1 along the innermost loop.
        """
        loops, store, (samples, filters, channels) = self.loops, self.store, tile
        most = self.most_channels(layout)
        r, t, b, q, p = self.passes(layout, most)
        side = q * r
        if inner == SAMPLES:
            samples = b
        if inner == CHANNELS:
            channels = np.minimum(side, loops.channels)
        # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
        fine = (side <= most) & (side < loops.channels + r if inner == CHANNELS else side <= channels)
        p = np.minimum(p, (loops.filters + t - 1) // t if inner == FILTERS else filters // t)
        if not self.shares:
            held = store.weights // (t * side * loops.kernel * loops.taps)
            p = np.minimum(p, np.maximum(held, side * t == 1))
        if inner == FILTERS:

            def fits(p: Numbers) -> Any:
                return self.fits(layout.columns, samples, np.minimum(p * t, loops.filters), channels)

            p = _most_allowed(fits, p)
            filters = np.minimum(np.maximum(p, 1) * t, loops.filters)
        else:
            fine &= self.fits(layout.columns, samples, filters, channels)
        fine &= (b <= samples) & (p > 0)
        own, filled = Pass(r, t, b, q, np.maximum(p, 1)), (samples, filters, channels)
        words = self.buffer_words(layout.folds, inner, filled, own)
        cost = words * store.costs[0]
        if store.costs[1]:
            cost = cost + store.costs[1] * array_words(loops, (own.q, own.p), samples)
        return [*own, *filled, words], np.where(fine, cost, np.inf)


def array_words(loops: PhaseLoops, interleaved: tuple[Any, Any], samples: Any) -> Any:
    """Return the words that elements take from the array's network: rows of F_in and W, and terms of F_out.

    Args:
        loops: the loops.
        interleaved: channels and filters of an element.
        samples: samples in the buffer.
    """
    q, p = interleaved
    rows = loops.planes * loops.kernel * loops.height
    return rows * (loops.read_width / (p * loops.zeros) + loops.width / q + loops.taps / samples)


def _most_allowed(allowed: Callable[[Numbers], Any], upper: Numbers) -> Numbers:
    """Return the largest number up to ``upper`` that is allowed, 0 for none; what is allowed allows all smaller ones."""
    low, high = np.zeros_like(upper), upper
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = allowed(middle)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.maximum(low, 0)
