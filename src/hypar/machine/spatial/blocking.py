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
        halved: whether a pass reads halves of rows, which count as samples.
    """

    layout: Layout
    grid: tuple[int, int, int]
    interleaved: tuple[int, int]
    tile: tuple[int, int, int]
    innermost: str
    memory: float
    buffer: float
    halved: bool = False


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
    laid = layouts(array.rows, array.columns, nest.kernel, nest.height, line=array.line)
    ranked = by_rounds(laid, planes, units)
    found = _fitting(nest, array, store, ranked)
    if store.pass_in_bank and nest.width > 1:
        found = _or_halves(nest, array, store, (planes, units), found)
    if found is not None:
        return found
    first = next(groupby(ranked, itemgetter(0)))[1]
    return min((_bypassing(nest, array, layout) for _, layout in first), key=lambda found: found.buffer)


def counts(nest: Nest, found: Blocking, planes: int, units: int) -> tuple[float, float, float]:
    """Return the cycles of a mapping, its words from memory and from the buffer; arguments as in ``best_blocking``."""
    run, parts = (nest.halved(), 2) if found.halved else (nest, 1)
    return found.layout.rounds(parts * planes, units) * run.taps * run.width, found.memory, found.buffer


def _or_halves(
    nest: Nest, array: Array, store: Store, shared: tuple[int, int], found: Blocking | None
) -> Blocking | None:
    """Return the best mapping of halves of rows if it is better than one of whole rows."""
    planes, units = shared
    halves = nest.halved()
    best = None if found is None else store.rank(*counts(nest, found, planes, units))
    laid = layouts(array.rows, array.columns, nest.kernel, nest.height, line=array.line)
    allowed = _halved_columns(halves, store)
    ranked = by_rounds(tuple([layout for layout in laid if layout.columns in allowed]), 2 * planes, units)
    below = math.inf
    if best is not None:
        # Each tensor moves once at least.
        steps = halves.taps * halves.width
        ranked = [
            (rounds, layout)
            for rounds, layout in ranked
            if store.rank(rounds * steps, sum(halves.stored(layout.folds)), 0) < best
        ]
        # A mapping as good in what comes first may be better in what comes next.
        below = best[0] / (steps if store.fewest == "product" else 1) * (1 + 1e-9)
    own = _fitting(halves, array, store, ranked, below) if ranked else None
    if own is None:
        return found
    halved = replace(own, halved=True)
    return halved if best is None or store.rank(*counts(nest, halved, planes, units)) < best else found


def _halved_columns(halves: Nest, store: Store) -> range:
    """Return the columns of pieces of which the rows of one channel fit a bank if they are halved, and otherwise do not."""
    most, whole = store.bank // halves.read_width, store.bank // halves.whole_width
    return range(halves.columns_within(whole) + 1, halves.columns_within(most) + 1)


def _fitting(
    nest: Nest, array: Array, store: Store, ranked: list[tuple[int, Layout]], below: float = math.inf
) -> Blocking | None:
    """Return the best mapping with some layouts; None if the buffer holds no pass.

    Args:
        nest: the loops.
        array: the processing elements.
        store: the buffer.
        ranked: the layouts, the fewest rounds first.
        below: the rounds times words, or the words, that a mapping must stay below where these come first.
    """
    if store.fewest == "cycles":
        equal = (list(group) for _, group in groupby(ranked, itemgetter(0)))
        found = next(
            (own for some in equal if (own := _least_traffic(nest, array, store, some, math.inf))), None
        )
    else:
        found = _least_traffic(nest, array, store, ranked, below)
    return None if found is None else _widened(nest, array, store, found)


def least_counts(nest: Nest, array: Array, planes: int, units: int) -> tuple[float, float, float]:
    """Return lower bounds of a unit's cycles, all elements active, of words from memory, which pass once, and from the buffer."""
    steps = planes * nest.kernel * nest.height * nest.taps * nest.width
    # Pieces share rows of F_in, or skip some between them if the stride is larger than the kernel.
    folds = 1 if nest.extent >= nest.stride else nest.height
    read, made, weights = nest.stored(folds)
    if nest.across > nest.taps:  # halves of rows skip some columns between them
        read = min(read, nest.halved().stored(folds)[0])
    return steps / (array.rows * array.columns * units), (read + made + weights) / units, 0


def _least_traffic(
    nest: Nest, array: Array, store: Store, ranked: list[tuple[int, Layout]], below: float
) -> Blocking | None:
    """Return the mapping of least rank with one of several layouts; None if none fits the buffer, or none of a lower rank."""
    numbers = [(rounds, layout.columns, layout.folds) for rounds, layout in ranked]
    turns, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None]
    listed = []
    for innermost in _orders(nest, store):
        tiles = _tiles(innermost, nest.all_samples, nest.groups, nest.filters, nest.channels)
        memory = _memory_words(nest, folds, tiles)
        first = memory * turns if store.fewest == "product" else memory
        fits = _fits(nest, store, columns, tiles.samples, tiles.filters, tiles.channels)
        listed.append((tiles, memory, np.where(fits, first, np.inf)))
    while (least := min([rank.min() for _, _, rank in listed])) < below:
        fitting = []
        for tiles, memory, rank in listed:
            for place in (rank.ravel() == least).nonzero()[0].tolist():
                (rounds, layout), tile = ranked[place // len(tiles.samples)], place % len(tiles.samples)
                words = memory[place // len(tiles.samples), tile].item()
                own = _least_buffer(nest, array, store, tiles, layout, tile, words)
                fitting += [] if own is None else [(own[0], rounds, own[1])]
                rank.flat[place] = math.inf
        if fitting:
            return min(fitting, key=itemgetter(0, 1))[-1]
    return None


def _widened(nest: Nest, array: Array, store: Store, found: Blocking) -> Blocking:
    """Return the mapping with pieces as wide as array and buffer allow with as many pieces and sets."""
    samples, filters, channels = found.tile
    side = found.grid[0] * found.interleaved[0]
    for layout in wider(found.layout, array.rows, array.columns, nest.height, line=array.line):
        if nest.whole_width and layout.columns not in _halved_columns(nest, store):
            continue
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


@lru_cache(maxsize=4096)
def _tiles(innermost: str, samples: int, groups: int, filters: int, channels: int) -> Tiles:
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
    times_weights = _ONCE if innermost == SAMPLES else _weight_times(samples, groups, n)
    return Tiles(innermost, n, m, c, times_in, times_out, times_weights)


def _memory_words(nest: Nest, folds: Any, tiles: Tiles) -> Any:
    """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
    f_in, f_out, weights = nest.stored(folds)
    stays = tiles.innermost == SAMPLES
    # A result that is not finished is written, and read again.
    if nest.gradient:
        often = 1 if stays else 2 * folds * tiles.times_weights - 1
        return f_in * tiles.times_in + f_out * tiles.times_out + weights * often
    often = 1 if stays else folds * tiles.times_weights
    return f_in * tiles.times_in + f_out * (2 * tiles.times_out - 1) + weights * often


def _weight_times(all_samples: int, groups: int, samples: Any) -> Any:
    """Return how often W comes to the array for a piece of rows: for every tile of samples."""
    times = _parts(all_samples, samples)
    return times if groups == 1 else _max(times, groups) / groups


def _fits(nest: Nest, store: Store, columns: Any, samples: Any, filters: Any, channels: Any) -> Any:
    """Return whether a tile fits the buffer, its pieces having some columns."""
    if store.words is None:
        return samples * filters * channels * columns > 0
    f_in = samples * channels * (nest.held_rows(columns) * nest.read_width)
    f_out = samples * filters * (columns * nest.width)
    taken = _banks(f_in, store) + _banks(f_out, store)
    if _shares(nest, store):
        weights = filters * channels * (nest.kernel * nest.taps) * _parts(samples, nest.samples)
        taken = taken + _banks(weights, store)
    return taken <= store.words // store.bank


def _banks(words: Any, store: Store) -> Any:
    return words if store.bank == 1 else _parts(words, store.bank)


def _most_channels(nest: Nest, store: Store, layout: Layout) -> int:
    """Return the most channels that a pass may have: more than a bank holds only if the array is not full without."""
    if not store.pass_in_bank:
        return nest.channels + layout.sets * nest.channels
    held = store.bank // (nest.held_rows(layout.columns) * nest.read_width)
    return held if nest.whole_width else max(1, held, -(-layout.sets // (nest.filters * nest.all_samples)))


class Pass(NamedTuple):
    """A pass of the array, or several as columns.

    Attributes:
        r: channels side by side.
        t: filters side by side.
        b: samples side by side.
        q: channels of an element.
        p: filters of an element; the most that its registers hold where passes are to be chosen from.
    """

    r: Any
    t: Any
    b: Any
    q: Any
    p: Any


@lru_cache(maxsize=4096)
def _passes(array: Array, taps: int, sets: int, channels: int, filters: int, samples: int) -> list[Pass]:
    """Return the passes with all grids of sets and channels that an element interleaves: few of numbers, or one of columns."""
    # An element holds a window of each channel and the next word of it, which arrives meanwhile.
    most = max(1, min(array.input_words // (taps + 1), channels))
    most = max(1, min(most, array.weight_words // taps))
    laid = grids(sets, min(channels, sets), min(filters, sets), min(samples, sets))
    if len(laid) * most <= FEW:
        return [
            Pass(*grid, q, min(max(1, array.weight_words // (q * taps)), array.output_words))
            for grid in laid
            for q in range(1, most + 1)
        ]
    r, t, b = np.array(laid, dtype=np.int64).repeat(most, axis=0).T
    q = np.arange(len(r)) % most + 1
    p = np.minimum(np.maximum(1, array.weight_words // (q * taps)), array.output_words)
    return [Pass(r, t, b, q, p)]


def _passes_of(nest: Nest, array: Array, layout: Layout, most: int) -> list[Pass]:
    return _passes(array, nest.taps, layout.sets, min(most, nest.channels), nest.filters, nest.all_samples)


def _least_buffer(
    nest: Nest, array: Array, store: Store, tiles: Tiles, layout: Layout, tile: int, memory: float
) -> tuple[float, Blocking] | None:
    """Return the mapping of one tile, of some words from memory, whose other words cost least; None if no pass fits the tile."""
    most = _most_channels(nest, store, layout)
    sizes = tiles.samples[tile].item(), tiles.filters[tile].item(), tiles.channels[tile].item()
    least, found = math.inf, None
    for own in _passes_of(nest, array, layout, most):
        p, filled, words, cost = _pass_words(nest, store, layout, tiles.innermost, sizes, most, own)
        place = int(cost.argmin()) if isinstance(cost, np.ndarray) else None
        if (lowest := _at(cost, place)) < least:
            least = lowest
            found = _chosen(layout, tiles.innermost, own._replace(p=p), filled, (memory, words), place)
    return None if found is None else (least, found)


def _at(column: Any, place: int | None) -> Any:
    return column[place].item() if isinstance(column, np.ndarray) else column


def _pass_words(
    nest: Nest, store: Store, layout: Layout, inner: str, tile: tuple[int, int, int], most: int, own: Pass
) -> tuple[Any, tuple[Any, Any, Any], Any, Any]:
    """Return of passes the filters of an element, the tile, the words from the buffer and the cost, infinite if one does not fit.

    Args:
        nest: the loops.
        store: the buffer.
        layout: the sets.
        inner: the innermost loop outside the buffer.
        tile: samples, filters and channels of the tile; 1 along the innermost loop.
        most: the most channels of a pass.
        own: the passes.
    """
    samples, filters, channels = tile
    r, t, b, q, p = own
    side = q * r
    if inner == SAMPLES:
        samples = b
    if inner == CHANNELS:
        channels = _min(side, nest.channels)
    # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
    fine = (side <= most) & (side < nest.channels + r if inner == CHANNELS else side <= channels)
    p = _min(p, (nest.filters + t - 1) // t if inner == FILTERS else filters // t)
    if not _shares(nest, store):
        p = _min(p, _max(store.weights // (t * side * nest.kernel * nest.taps), side * t == 1))
    if inner == FILTERS:
        p = _most(
            lambda p: _fits(nest, store, layout.columns, samples, _min(p * t, nest.filters), channels), p
        )
        filters = _min(_max(p, 1) * t, nest.filters)
    else:
        fine &= _fits(nest, store, layout.columns, samples, filters, channels)
    fine &= (b <= samples) & (p > 0)
    p = _max(p, 1)
    words = _buffer_words(nest, store, layout, inner, (samples, filters, channels), side, p * t)
    cost = words * store.costs[0]
    if store.costs[1]:
        cost = cost + store.costs[1] * array_words(nest, (q, p), samples)
    cost = np.where(fine, cost, np.inf) if isinstance(side, np.ndarray) else cost if fine else math.inf
    return p, (samples, filters, channels), words, cost


def _min(one: Any, other: Any) -> Any:
    arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.minimum(one, other) if arrays else min(one, other)


def _max(one: Any, other: Any) -> Any:
    arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.maximum(one, other) if arrays else max(one, other)


def _parts(whole: Any, part: Any) -> Any:
    """Return the parts, of which the last may be smaller, that make up a whole."""
    arrays = isinstance(whole, np.ndarray) or isinstance(part, np.ndarray)
    return np.ceil(whole / part) if arrays else -(-whole // part)


def array_words(nest: Nest, interleaved: tuple[Any, Any], samples: Any) -> Any:
    """Return the words that elements take from the array's network: rows of F_in and W, and terms of F_out.

    Args:
        nest: the loops.
        interleaved: channels and filters of an element.
        samples: samples in the buffer.
    """
    q, p = interleaved
    rows = nest.planes * nest.kernel * nest.height
    return rows * (nest.read_width / (p * nest.zeros) + nest.width / q + nest.taps / samples)


def _most(allowed: Callable[[Any], Any], upper: Any) -> Any:
    """Return the largest number up to ``upper`` that is allowed, 0 for none; what is allowed allows all smaller ones."""
    if not isinstance(upper, np.ndarray):
        return _most(allowed, np.array([upper]))[0].item()
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
    times_in = _parts(nest.filters, filters) * _parts(filters, deep)
    times_out = _parts(nest.channels, channels) * _parts(channels, side)
    if not _shares(nest, store):
        return f_in * times_in + 2 * f_out * times_out
    often = layout.folds * _weight_times(nest.all_samples, nest.groups, samples)
    if innermost == SAMPLES:
        stays = (filters <= deep) & (channels <= side)
        often = np.where(stays, 1, often) if isinstance(stays, np.ndarray) else 1 if stays else often
    loaded = weights * often
    if nest.gradient:
        return f_in * times_in + f_out * times_out + 2 * loaded
    return f_in * times_in + 2 * f_out * times_out + loaded


def _bypassing(nest: Nest, array: Array, layout: Layout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    found = []
    for own in _passes_of(nest, array, layout, nest.channels):
        r, t, b, q, p = own
        filled = b, _min(p * t, nest.filters), _min(q * r, nest.channels)
        words = _buffer_words(nest, Store(None), layout, CHANNELS, filled, q * r, p * t)
        place = int(words.argmin()) if isinstance(words, np.ndarray) else None
        found.append(_chosen(layout, "", own, filled, (_at(words, place), words), place))
    return min(found, key=lambda own: own.buffer)


def _chosen(
    layout: Layout,
    innermost: str,
    own: Pass,
    filled: tuple[Any, Any, Any],
    words: tuple[float, Any],
    place: int | None,
) -> Blocking:
    """Return the mapping of one pass.

    Args:
        layout: the sets.
        innermost: the innermost loop outside the buffer.
        own: the pass, or the columns that it stands in.
        filled: samples, filters and channels of the tile.
        words: words from memory, and those from the buffer.
        place: its place in the columns.
    """
    r, t, b, q, p = (_at(column, place) for column in own)
    n, m, c = (_at(size, place) for size in filled)
    return Blocking(
        layout=layout,
        grid=(r, t, b),
        interleaved=(q, p),
        tile=(n, m, c),
        innermost=innermost,
        memory=float(words[0]),
        buffer=float(_at(words[1], place)),
    )


@lru_cache(maxsize=4096)
def _divisors(number: int) -> NDArray[np.int64]:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return np.array(sorted({*small, *(number // part for part in small)}))


FEW = 12
"""Most passes that are tried one by one; more of them are columns."""

_ONE = np.ones(1, dtype=np.int64)
_ONCE = np.ones(1)
