"""Loop blocking: which words of a phase pass the array, the buffer and the memory, by the best of all mappings.

A phase is the nest of three loops over passes of the array: input channels, filters, and samples with their pieces of
rows. W does not depend on the samples, F_in not on the filters, F_out not on the channels, so a tile of one of them
stays in the buffer while the innermost loop outside the buffer runs. Yang et al., A Systematic Approach to Blocking
Convolutional Neural Networks (2016), and Gao et al., TETRIS (ASPLOS 2017), describe this search.

A mapping is a layout of sets, a grid of sets, the channels and filters that a processing element interleaves, a tile of
the buffer, and the innermost loop. The mapping with the fewest cycles is used, of equal ones the one with the fewest
words from memory, then the fewest words from the buffer. Pieces and tiles that divide their loops evenly are tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.spatial.sets import Layout, by_rounds, grids, layouts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHANNELS, FILTERS, SAMPLES = "channels", "filters", "samples"
INNERMOST = (CHANNELS, FILTERS, SAMPLES)
"""Loops that may be the innermost one outside the buffer."""


class Array(NamedTuple):
    """Processing elements of a unit, and the registers of each."""

    rows: int
    columns: int
    weight_words: int
    input_words: int
    output_words: int


class Store(NamedTuple):
    """Buffer of a unit.

    Attributes:
        words: words of F_in, of F_out, and of W unless it has a part of its own; None without a limit.
        bank: words of a bank; a tile takes whole banks.
        weights: words of the part through which W streams to the array; 0 if W shares the buffer.
        keeps_result: whether a tile of the result always stays until it is finished.
        fewest: whether mappings are chosen by ``cycles`` and then words, or by ``words`` and then cycles.
    """

    words: int | None
    bank: int = 1
    weights: int = 0
    keeps_result: bool = False
    fewest: str = "cycles"


class Nest(NamedTuple):
    """Loops of one phase of a layer on one unit.

    Attributes:
        samples: samples, N.
        groups: groups of channels; those below are of one group.
        channels: input channels, C.
        filters: output channels, M.
        kernel: rows of the kernel, R.
        taps: columns of the kernel, S.
        height: output rows, E.
        width: output columns, F.
        stride: input rows between output rows.
        extent: input rows from the first to the last tap.
        read_width: input columns that are read, padding included.
        gradient: whether W is the result, and not F_out.
        zeros: elements of the input for each one that is read, the others being zeros put in between.
    """

    samples: int
    groups: int
    channels: int
    filters: int
    kernel: int
    taps: int
    height: int
    width: int
    stride: int
    extent: int
    read_width: int
    gradient: bool
    zeros: int = 1

    @property
    def planes(self) -> int:
        """Sets of the phase."""
        return self.samples * self.groups * self.channels * self.filters

    @property
    def all_samples(self) -> int:
        """Samples of all groups, which share nothing but, within a group, W."""
        return self.samples * self.groups

    def held_rows(self, columns: int) -> int:
        """Return the input rows that some output rows read."""
        return (columns - 1) * self.stride + self.extent

    def read_rows(self, layout: Layout) -> int:
        """Return the input rows that all pieces of a set read, padding included."""
        return layout.folds * (self.extent - self.stride) + self.height * self.stride

    def words(self, layout: Layout) -> tuple[float, int, int]:
        """Return the words of F_in, padding and what two pieces both read included, of F_out and of W."""
        read = self.all_samples * self.channels * self.read_rows(layout) * self.read_width
        made = self.all_samples * self.filters * self.height * self.width
        weights = self.groups * self.filters * self.channels * self.kernel * self.taps
        return read / self.zeros, made, weights


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
    """Tiles of one layout and innermost loop; along that loop a tile is one pass.

    Attributes:
        layout: the sets.
        innermost: the innermost loop outside the buffer.
        samples, filters, channels: sizes of a tile along each loop; a 1 alone along the innermost.
        memory: words from memory for each tile ``[samples, filters, channels]``, infinite if it does not fit.
    """

    layout: Layout
    innermost: str
    samples: NDArray[np.int64]
    filters: NDArray[np.int64]
    channels: NDArray[np.int64]
    memory: NDArray[np.float64]


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
    laid = layouts(array.rows, array.columns, nest.kernel, nest.height)
    ranked = by_rounds(laid, planes, units)
    for choices in (
        ranked if store.fewest == "cycles" else (tuple(each for group in ranked for each in group),)
    ):
        found = _least_traffic(nest, array, store, choices)
        if found is not None:
            return found
    return min((_bypassing(nest, array, layout) for layout in ranked[0]), key=lambda found: found.buffer)


def _least_traffic(nest: Nest, array: Array, store: Store, laid: tuple[Layout, ...]) -> Blocking | None:
    """Return the mapping with the fewest words from memory, then from the buffer; None if none fits the buffer."""
    listed = [_tiles(nest, store, layout, inner) for layout in laid for inner in _orders(nest, store)]
    amounts = sorted({amount for tiles in listed for amount in tiles.memory.ravel().tolist()} - {math.inf})
    for memory in amounts:
        fitting = [
            own
            for tiles in listed
            for place in np.argwhere(tiles.memory == memory).tolist()
            if (own := _least_buffer(nest, array, store, tiles, place)) is not None
        ]
        if fitting:
            return min(fitting, key=lambda own: own.buffer)
    return None


def _orders(nest: Nest, store: Store) -> tuple[str, ...]:
    """Return the innermost loops to try: W that streams through the buffer is not kept for all samples."""
    if store.keeps_result:
        return (SAMPLES,) if nest.gradient else (CHANNELS,)
    return INNERMOST if _shares(nest, store) else INNERMOST[:2]


def _shares(nest: Nest, store: Store) -> bool:
    """Return whether W takes room beside the other tensors, as a result always does."""
    return nest.gradient or not store.weights


def _tiles(nest: Nest, store: Store, layout: Layout, innermost: str) -> Tiles:
    """Return the tiles whose least words fit the buffer, with their words from memory."""
    samples = _ONE if innermost == SAMPLES else _divisors(nest.all_samples)
    filters = _ONE if innermost == FILTERS else _divisors(nest.filters)
    channels = _ONE if innermost == CHANNELS else _divisors(nest.channels)
    samples, filters = samples[:, None, None], filters[:, None]
    fits = _fits(nest, store, layout, samples, filters, channels)
    memory = np.where(fits, _memory_words(nest, layout, innermost, samples, filters, channels), np.inf)
    return Tiles(layout, innermost, samples[:, 0, 0], filters[:, 0], channels, memory)


def _memory_words(
    nest: Nest, layout: Layout, innermost: str, samples: Any, filters: Any, channels: Any
) -> Any:
    """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
    f_in, f_out, weights = nest.words(layout)
    times_in = 1 if innermost == FILTERS else nest.filters / filters
    times_out = 1 if innermost == CHANNELS else nest.channels / channels
    times_weights = 1 if innermost == SAMPLES else _weight_times(nest, layout, samples)
    # A result that is not finished is written, and read again.
    if nest.gradient:
        times_weights = 2 * times_weights - 1
    else:
        times_out = 2 * times_out - 1
    return f_in * times_in + f_out * times_out + weights * times_weights


def _weight_times(nest: Nest, layout: Layout, samples: Any) -> Any:
    """Return how often W comes to the array: for every tile of samples and every piece of rows."""
    return layout.folds * np.maximum(np.ceil(nest.all_samples / samples), nest.groups) / nest.groups


def _fits(nest: Nest, store: Store, layout: Layout, samples: Any, filters: Any, channels: Any) -> Any:
    """Return whether a tile fits the buffer."""
    if store.words is None:
        return samples * filters * channels > 0
    f_in = samples * channels * (nest.held_rows(layout.columns) * nest.read_width)
    f_out = samples * filters * (layout.columns * nest.width)
    weights = 0
    if _shares(nest, store):
        weights = filters * channels * (nest.kernel * nest.taps) * np.ceil(samples / nest.samples)
    taken = np.ceil(f_in / store.bank) + np.ceil(f_out / store.bank) + np.ceil(weights / store.bank)
    return taken <= store.words // store.bank


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
    q = np.tile(np.arange(1, most + 1), len(laid))
    p = np.minimum(np.maximum(1, array.weight_words // (q * taps)), array.output_words)
    return Options(r, t, b, q, p)


def _pass_options(nest: Nest, array: Array, layout: Layout) -> Options:
    return _options(array, nest.taps, layout.sets, nest.channels, nest.filters, nest.all_samples)


def _least_buffer(nest: Nest, array: Array, store: Store, tiles: Tiles, place: list[int]) -> Blocking | None:
    """Return the mapping with one tile and the fewest words from the buffer; None if no pass fits the tile."""
    layout, inner = tiles.layout, tiles.innermost
    r, t, b, q, p = _pass_options(nest, array, layout)
    side = q * r
    samples, filters, channels = (
        axis[index] for axis, index in zip((tiles.samples, tiles.filters, tiles.channels), place, strict=True)
    )
    if inner == SAMPLES:
        samples = b
    if inner == CHANNELS:
        channels = np.minimum(side, nest.channels)
    # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
    fine = (b <= samples) & (side < nest.channels + r if inner == CHANNELS else side <= channels)
    p = np.minimum(p, (nest.filters + t - 1) // t if inner == FILTERS else filters // t)
    if not _shares(nest, store):
        p = np.minimum(p, np.maximum(store.weights // (t * side * nest.kernel * nest.taps), side * t == 1))
    if inner == FILTERS:
        p = _most(lambda p: _fits(nest, store, layout, samples, np.minimum(p * t, nest.filters), channels), p)
        filters = np.minimum(np.maximum(p, 1) * t, nest.filters)
    else:
        fine = fine & _fits(nest, store, layout, samples, filters, channels)
    fine = fine & (p > 0)
    if not fine.any():
        return None
    deep = np.maximum(p, 1) * t
    words = np.where(
        fine, _buffer_words(nest, store, layout, inner, (samples, filters, channels), side, deep), np.inf
    )
    best = int(np.argmin(words))
    tile = tuple(int(size if np.ndim(size) == 0 else size[best]) for size in (samples, filters, channels))
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
    f_in, f_out, weights = nest.words(layout)
    times_in = np.ceil(nest.filters / filters) * np.ceil(filters / deep)
    times_out = np.ceil(nest.channels / channels) * np.ceil(channels / side)
    stays = (innermost == SAMPLES) & (filters <= deep) & (channels <= side)
    times_weights = np.where(stays, 1, _weight_times(nest, layout, samples))
    if nest.gradient:
        return f_in * times_in + f_out * times_out + 2 * weights * times_weights
    streamed = 0 if store.weights else weights * times_weights
    return f_in * times_in + 2 * f_out * times_out + streamed


def _bypassing(nest: Nest, array: Array, layout: Layout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    r, t, b, q, p = _pass_options(nest, array, layout)
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
