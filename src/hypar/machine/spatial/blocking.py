"""Loop blocking: which words of a phase pass the array, the buffer and the memory, by the best of all mappings.

A phase is the nest of three loops over passes of the array: input channels, filters, and samples with their pieces of
rows. W does not depend on the samples, F_in not on the filters, F_out not on the channels, so a tile of one of them
stays in the buffer while the innermost loop outside the buffer runs. Yang et al., A Systematic Approach to Blocking
Convolutional Neural Networks (2016), and Gao et al., TETRIS (ASPLOS 2017), describe this search.

A mapping is a layout of sets, a grid of sets, the channels and filters that a processing element interleaves, a tile of
the buffer, and the innermost loop. The mapping of least ``Store.rank`` is used: by default that of the fewest cycles, of
equal ones the one with the fewest words from memory, then the fewest words from the buffer. Pieces and tiles that divide
their loops evenly are tried; pieces are then as wide as the buffer allows with as many of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.spatial.nests import CHANNELS, FILTERS, INNERMOST, SAMPLES, Array, Nest, Store
from hypar.machine.spatial.sets import Layout, by_rounds, grids, layouts, wider

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Ranked = list[tuple[int, Layout]]
"""Layouts with the rounds of each, the fewest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A mapping of a phase to a unit.

    Attributes:
        layout: the sets on the array.
        grid: sets side by side over channels, filters and samples.
        interleaved: channels and filters of a processing element.
        tile: samples, filters and channels of the tile in the buffer.
        innermost: the innermost loop outside the buffer; empty if the buffer holds no pass and is bypassed.
        memory: words read from and written to the memory.
        buffer: words between buffer and array.
    """

    layout: Layout
    grid: tuple[int, int, int]
    interleaved: tuple[int, int]
    tile: tuple[int, int, int]
    innermost: str
    memory: float
    buffer: float


class Tiles(NamedTuple):
    """Tiles of several layouts with one innermost loop; along that loop a tile is one pass.

    Attributes:
        innermost: the innermost loop outside the buffer.
        samples, filters, channels: sizes of a tile along each loop; a 1 alone along the innermost.
        memory: words from memory for each tile ``[layouts, samples, filters, channels]``.
        rank: what tiles are chosen by first, infinite for a tile that does not fit.
    """

    innermost: str
    samples: NDArray[np.int64]
    filters: NDArray[np.int64]
    channels: NDArray[np.int64]
    memory: NDArray[np.float64]
    rank: NDArray[np.float64]


@lru_cache(maxsize=16384)
def best_blocking(nest: Nest, array: Array, store: Store, planes: int, units: int) -> Blocking:
    """Return the best mapping of a phase.

    Args:
        nest: the part of one unit.
        array: the processing elements of a unit.
        store: the buffer of a unit.
        planes: sets of the phase on all units together.
        units: units that share them.
    """
    ranked = _ranked(nest, array, planes, units)
    equal = [list(group) for _, group in groupby(ranked, itemgetter(0))]
    for some in equal if store.fewest == "cycles" else [ranked]:
        found = _least_traffic(nest, array, store, some)
        if found is not None:
            return _widened(nest, array, store, found)
    return min((_bypassing(nest, array, layout) for _, layout in equal[0]), key=lambda found: found.buffer)


def least_counts(nest: Nest, array: Array, planes: int, units: int) -> tuple[float, float, float]:
    """Return lower bounds of a unit's cycles, all elements active, of words from memory, which pass once, and from the buffer."""
    steps = planes * nest.kernel * nest.height * nest.taps * nest.width
    # Pieces share rows of F_in, or skip some between them if the stride is larger than the kernel.
    words = nest.words(1 if nest.extent >= nest.stride else nest.height)
    return steps / (array.rows * array.columns * units), sum(words) / units, 0


def _ranked(nest: Nest, array: Array, planes: int, units: int) -> Ranked:
    laid = layouts(array.rows, array.columns, nest.kernel, nest.height, line=array.line)
    return by_rounds(laid, planes, units)


def _least_traffic(nest: Nest, array: Array, store: Store, ranked: Ranked) -> Blocking | None:
    """Return the mapping of least rank with one of several layouts; None if none fits the buffer."""
    listed = [_tiles(nest, store, ranked, inner) for inner in _orders(nest, store)]
    while (least := min(tiles.rank.min() for tiles in listed)) < math.inf:
        fitting = []
        for tiles in listed:
            for place in np.argwhere(tiles.rank == least).tolist():
                rounds, layout = ranked[place[0]]
                own = _least_buffer(nest, array, store, tiles, layout, place)
                fitting += [] if own is None else [(own.buffer, rounds, own)]
                tiles.rank[tuple(place)] = math.inf
        if fitting:
            return min(fitting, key=itemgetter(0, 1))[-1]
    return None


def _widened(nest: Nest, array: Array, store: Store, found: Blocking) -> Blocking:
    """Return the mapping with pieces as wide as array and buffer allow with as many pieces and sets."""
    samples, filters, channels = found.tile
    side = found.grid[0] * found.interleaved[0]
    for layout in wider(found.layout, array.rows, array.columns, nest.height, line=array.line):
        fits = _fits(nest, store, layout.columns, samples, filters, channels)
        if fits and side <= _most_channels(nest, store, layout):
            return replace(found, layout=layout)
    return found


def _orders(nest: Nest, store: Store) -> tuple[str, ...]:
    """Return the innermost loops to try: W that streams through the buffer is not kept for all samples."""
    if store.keeps_result:
        return (SAMPLES,) if nest.gradient else (CHANNELS,)
    return INNERMOST if _shares(nest, store) else INNERMOST[:2]


def _shares(nest: Nest, store: Store) -> bool:
    """Return whether W takes room beside the other tensors, as a result always does."""
    return nest.gradient or not store.weights


def _tiles(nest: Nest, store: Store, ranked: Ranked, innermost: str) -> Tiles:
    """Return the tiles with their words from memory, and those that fit the buffer with their rank."""
    samples = _ONE if innermost == SAMPLES else _divisors(nest.all_samples)
    filters = _ONE if innermost == FILTERS else _divisors(nest.filters)
    channels = _ONE if innermost == CHANNELS else _divisors(nest.channels)
    sizes = samples[:, None, None], filters[:, None], channels
    numbers = [(rounds, layout.columns, layout.folds) for rounds, layout in ranked]
    rounds, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None, None, None]
    memory = _memory_words(nest, folds, innermost, *sizes)
    first = memory * rounds if store.fewest == "product" else memory
    rank = np.where(_fits(nest, store, columns, *sizes), first, np.inf)
    return Tiles(innermost, samples, filters, channels, memory, rank)


def _memory_words(nest: Nest, folds: Any, innermost: str, samples: Any, filters: Any, channels: Any) -> Any:
    """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
    f_in, f_out, weights = nest.words(folds)
    times_in = 1 if innermost == FILTERS else nest.filters / filters
    times_out = 1 if innermost == CHANNELS else nest.channels / channels
    times_weights = 1 if innermost == SAMPLES else _weight_times(nest, folds, samples)
    # A result that is not finished is written, and read again.
    if nest.gradient:
        times_weights = 2 * times_weights - 1
    else:
        times_out = 2 * times_out - 1
    return f_in * times_in + f_out * times_out + weights * times_weights


def _weight_times(nest: Nest, folds: Any, samples: Any) -> Any:
    """Return how often W comes to the array: for every tile of samples and every piece of rows."""
    times = np.ceil(nest.all_samples / samples)
    return folds * (times if nest.groups == 1 else np.maximum(times, nest.groups) / nest.groups)


def _fits(nest: Nest, store: Store, columns: Any, samples: Any, filters: Any, channels: Any) -> Any:
    """Return whether a tile fits the buffer, its pieces having some columns."""
    if store.words is None:
        return samples * filters * channels * columns > 0
    f_in = samples * channels * (nest.held_rows(columns) * nest.read_width)
    f_out = samples * filters * (columns * nest.width)
    taken = _banks(f_in, store) + _banks(f_out, store)
    if _shares(nest, store):
        weights = filters * channels * (nest.kernel * nest.taps) * np.ceil(samples / nest.samples)
        taken = taken + _banks(weights, store)
    return taken <= store.words // store.bank


def _banks(words: Any, store: Store) -> Any:
    return words if store.bank == 1 else np.ceil(words / store.bank)


def _most_channels(nest: Nest, store: Store, layout: Layout) -> int:
    """Return the most channels that a pass may have: more than a bank holds only if the array is not full without."""
    if not store.pass_in_bank:
        return nest.channels + layout.sets * nest.channels
    held = store.bank // (nest.held_rows(layout.columns) * nest.read_width)
    return max(1, held, -(-layout.sets // (nest.filters * nest.all_samples)))


class Options(NamedTuple):
    """Grids of sets with the channels that an element interleaves, as columns, and most filters of it."""

    r: NDArray[np.int64]
    t: NDArray[np.int64]
    b: NDArray[np.int64]
    q: NDArray[np.int64]
    p: NDArray[np.int64]


@lru_cache(maxsize=4096)
def _options(array: Array, taps: int, sets: int, channels: int, filters: int, samples: int) -> Options:
    # An element holds a window of each channel and the next word of it, which arrives meanwhile.
    most = max(1, min(array.input_words // (taps + 1), channels))
    most = max(1, min(most, array.weight_words // taps))
    laid = grids(sets, min(channels, sets), min(filters, sets), min(samples, sets))
    r, t, b = np.repeat(np.array(laid, dtype=np.int64), most, axis=0).T
    q = np.arange(len(r)) % most + 1
    p = np.minimum(np.maximum(1, array.weight_words // (q * taps)), array.output_words)
    return Options(r, t, b, q, p)


def _pass_options(nest: Nest, array: Array, layout: Layout, most: int) -> Options:
    return _options(array, nest.taps, layout.sets, min(most, nest.channels), nest.filters, nest.all_samples)


def _least_buffer(
    nest: Nest, array: Array, store: Store, tiles: Tiles, layout: Layout, place: list[int]
) -> Blocking | None:
    """Return the mapping with one tile and the fewest words from the buffer; None if no pass fits the tile."""
    inner, columns, most = tiles.innermost, layout.columns, _most_channels(nest, store, layout)
    r, t, b, q, p = _pass_options(nest, array, layout, most)
    side = q * r
    samples, filters, channels = (
        axis[index].item()
        for axis, index in zip((tiles.samples, tiles.filters, tiles.channels), place[1:], strict=True)
    )
    if inner == SAMPLES:
        samples = b
    if inner == CHANNELS:
        channels = np.minimum(side, nest.channels)
    # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
    fine = (
        (b <= samples)
        & (side <= most)
        & (side < nest.channels + r if inner == CHANNELS else side <= channels)
    )
    p = np.minimum(p, (nest.filters + t - 1) // t if inner == FILTERS else filters // t)
    if not _shares(nest, store):
        p = np.minimum(p, np.maximum(store.weights // (t * side * nest.kernel * nest.taps), side * t == 1))
    if inner == FILTERS:
        p = _most(
            lambda p: _fits(nest, store, columns, samples, np.minimum(p * t, nest.filters), channels), p
        )
        filters = np.minimum(np.maximum(p, 1) * t, nest.filters)
    else:
        fine = fine & _fits(nest, store, columns, samples, filters, channels)
    fine = fine & (p > 0)
    if not fine.any():
        return None
    deep = np.maximum(p, 1) * t
    words = np.where(
        fine, _buffer_words(nest, store, layout, inner, (samples, filters, channels), side, deep), np.inf
    )
    best = int(np.argmin(words))
    tile = tuple(size if isinstance(size, int) else int(size[best]) for size in (samples, filters, channels))
    return Blocking(
        layout=layout,
        grid=(int(r[best]), int(t[best]), int(b[best])),
        interleaved=(int(q[best]), int(p[best])),
        tile=(tile[0], tile[1], tile[2]),
        innermost=inner,
        memory=float(tiles.memory[tuple(place)]),
        buffer=float(words[best]),
    )


def _most(allowed: Callable[[Any], Any], upper: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest number up to ``upper`` that is allowed, 0 for none; what is allowed allows all smaller ones."""
    low, high = np.zeros_like(upper), upper
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = allowed(middle)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.maximum(low, 0)


def _buffer_words(
    nest: Nest, store: Store, layout: Layout, innermost: str, tile: tuple[Any, Any, Any], side: Any, deep: Any
) -> Any:
    """Return the words between buffer and array.

    Args:
        nest: the loops.
        store: the buffer.
        layout: the sets.
        innermost: the innermost loop outside the buffer.
        tile: samples, filters and channels in the buffer.
        side: channels of a pass, whose terms are added up in the array.
        deep: filters of a pass, which share a read of F_in.
    """
    samples, filters, channels = tile
    f_in, f_out, weights = nest.words(layout.folds)
    times_in = np.ceil(nest.filters / filters) * np.ceil(filters / deep)
    times_out = np.ceil(nest.channels / channels) * np.ceil(channels / side)
    if not _shares(nest, store):
        return f_in * times_in + 2 * f_out * times_out
    stays = (innermost == SAMPLES) & (filters <= deep) & (channels <= side)
    loaded = weights * np.where(stays, 1, _weight_times(nest, layout.folds, samples))
    if nest.gradient:
        return f_in * times_in + f_out * times_out + 2 * loaded
    return f_in * times_in + 2 * f_out * times_out + loaded


def _bypassing(nest: Nest, array: Array, layout: Layout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    r, t, b, q, p = _pass_options(nest, array, layout, nest.channels)
    own = b, np.minimum(p * t, nest.filters), np.minimum(q * r, nest.channels)
    words = _buffer_words(nest, Store(None), layout, CHANNELS, own, q * r, p * t)
    best = int(np.argmin(words))
    return Blocking(
        layout=layout,
        grid=(int(r[best]), int(t[best]), int(b[best])),
        interleaved=(int(q[best]), int(p[best])),
        tile=(int(own[0][best]), int(own[1][best]), int(own[2][best])),
        innermost="",
        memory=float(words[best]),
        buffer=float(words[best]),
    )


@lru_cache(maxsize=4096)
def _divisors(number: int) -> NDArray[np.int64]:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return np.array(sorted({*small, *(number // part for part in small)}))


_ONE = np.ones(1, dtype=np.int64)
