"""Loop blocking: which words of a phase pass the array, the buffer and the memory, by the best of all mappings.

A phase is the loops of three loops over passes of the array: input channels, filters, and samples with their pieces of
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

from hypar.machine.spatial.columns import entry, smaller
from hypar.machine.spatial.loops import CHANNELS, INNERMOST, SAMPLES, Array, PhaseLoops, Store
from hypar.machine.spatial.passes import Pass, buffer_words, most_channels, pass_words, passes_of
from hypar.machine.spatial.sets import SetLayout, by_rounds, layouts, wider
from hypar.machine.spatial.tiles import Tiles, memory_words, shares, tile_fits, tiles_of

if TYPE_CHECKING:
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

    layout: SetLayout
    grid: tuple[int, int, int]
    interleaved: tuple[int, int]
    tile: tuple[int, int, int]
    innermost: str
    memory: float
    buffer: float
    halved: bool = False


Ranked = list[tuple[int, SetLayout]]
"""Layouts with the rounds of each, the fewest first."""


@lru_cache(maxsize=16384)
def best_blockings(
    all_loops: tuple[PhaseLoops, ...], array: Array, store: Store, planes: int, units: int
) -> tuple[Blocking, ...]:
    """Return the best mapping of each part of a phase; the parts differ in the kernel and what it reads alone.

    Args:
        all_loops: the loops of each part, on one unit.
        array: the processing elements of a unit.
        store: the buffer of a unit.
        planes: sets of a part on all units together.
        units: units that share them.
    """
    laid = [
        layouts(array.rows, array.columns, loops.kernel, loops.height, line=array.line) for loops in all_loops
    ]
    ranked = [by_rounds(own, planes, units) for own in laid]
    found = _fitting(all_loops, array, store, ranked)
    if store.pass_in_bank:
        found = [
            _or_halves(loops, array, store, (planes, units), own) if loops.width > 1 else own
            for loops, own in zip(all_loops, found, strict=True)
        ]
    return tuple(
        [
            _least_bypassing(loops, array, own) if blocking is None else blocking
            for loops, own, blocking in zip(all_loops, ranked, found, strict=True)
        ]
    )


def counts(loops: PhaseLoops, found: Blocking, planes: int, units: int) -> tuple[float, float, float]:
    """Return the cycles of a mapping, its words from memory and from the buffer; arguments as in ``best_blockings``."""
    run, parts = (loops.halved(), 2) if found.halved else (loops, 1)
    return found.layout.rounds(parts * planes, units) * run.taps * run.width, found.memory, found.buffer


def _or_halves(
    loops: PhaseLoops, array: Array, store: Store, shared: tuple[int, int], found: Blocking | None
) -> Blocking | None:
    """Return the best mapping of halves of rows if it is better than one of whole rows."""
    planes, units = shared
    halves = loops.halved()
    best = None if found is None else store.rank(*counts(loops, found, planes, units))
    laid = layouts(array.rows, array.columns, loops.kernel, loops.height, line=array.line)
    allowed, steps = _halved_columns(halves, store), halves.taps * halves.width
    laid = tuple([layout for layout in laid if layout.columns in allowed])
    if best is not None:
        # Each tensor moves once at least.
        laid = tuple(
            [
                layout
                for layout in laid
                if store.rank(layout.rounds(2 * planes, units) * steps, sum(halves.stored(layout.folds)), 0)
                < best
            ]
        )
    if not laid:
        return found
    # A mapping as good in what comes first may be better in what comes next.
    first = math.inf if best is None else best[0] / (steps if store.fewest == "product" else 1) * (1 + 1e-9)
    (own,) = _fitting((halves,), array, store, [by_rounds(laid, 2 * planes, units)], first)
    if own is None:
        return found
    halved = replace(own, halved=True)
    return halved if best is None or store.rank(*counts(loops, halved, planes, units)) < best else found


def _halved_columns(halves: PhaseLoops, store: Store) -> range:
    """Return the columns of pieces of which the rows of one channel fit a bank if they are halved, and otherwise do not."""
    most, whole = store.bank // halves.read_width, store.bank // halves.whole_width
    return range(halves.columns_within(whole) + 1, halves.columns_within(most) + 1)


def _fitting(
    all_loops: tuple[PhaseLoops, ...],
    array: Array,
    store: Store,
    ranked: list[Ranked],
    below: float = math.inf,
) -> list[Blocking | None]:
    """Return the best mapping of each part with some layouts; None if the buffer holds no pass.

    Args:
        all_loops: the loops of each part.
        array: the processing elements.
        store: the buffer.
        ranked: the layouts of each part.
        below: the rounds times words, or the words, that a mapping must stay below where these come first.
    """
    found: list[Blocking | None]
    if store.fewest == "cycles":
        found = [
            _fewest_rounds(loops, array, store, own) for loops, own in zip(all_loops, ranked, strict=True)
        ]
    else:
        found = _least_traffic(all_loops, array, store, ranked, below)
    return [
        None if own is None else _widened(loops, array, store, own)
        for loops, own in zip(all_loops, found, strict=True)
    ]


def _fewest_rounds(loops: PhaseLoops, array: Array, store: Store, ranked: Ranked) -> Blocking | None:
    """Return the mapping of least traffic with the fewest rounds that the buffer allows."""
    equal = (list(group) for _, group in groupby(ranked, itemgetter(0)))
    tried = (_least_traffic((loops,), array, store, [some], math.inf)[0] for some in equal)
    return next((own for own in tried if own is not None), None)


def least_counts(loops: PhaseLoops, array: Array, planes: int, units: int) -> tuple[float, float, float]:
    """Return lower bounds of a unit's cycles, all elements active, of words from memory, which pass once, and from the buffer."""
    steps = planes * loops.kernel * loops.height * loops.taps * loops.width
    words = loops.least_words()
    if loops.across > loops.taps:  # halves of rows skip some columns between them
        words = min(words, loops.halved().least_words())
    return steps / (array.rows * array.columns * units), words / units, 0


class _Candidates(NamedTuple):
    """Layouts by tiles of one innermost loop.

    Attributes:
        tiles: the tiles.
        memory: words from memory, with a row for each layout and a column for each tile.
        first: what mappings are chosen by first, infinite where a tile does not fit the buffer.
    """

    tiles: Tiles
    memory: NDArray[np.float64]
    first: NDArray[np.float64]


def _least_traffic(
    all_loops: tuple[PhaseLoops, ...], array: Array, store: Store, ranked: list[Ranked], below: float
) -> list[Blocking | None]:
    """Return each part's mapping of least rank with its layouts; None if none fits the buffer, or none of a lower rank."""
    numbers = [(rounds, layout.columns, layout.folds) for own in ranked for rounds, layout in own]
    turns, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None]
    joined = _joined(all_loops, [len(own) for own in ranked])
    listed = []
    for innermost in _orders(joined, store):
        tiles = tiles_of(innermost, joined.all_samples, joined.groups, joined.filters, joined.channels)
        memory = memory_words(joined, folds, tiles)
        first = memory * turns if store.fewest == "product" else memory
        fits = tile_fits(joined, store, columns, tiles.samples, tiles.filters, tiles.channels)
        listed.append(_Candidates(tiles, memory, np.where(fits, first, np.inf)))
    found, start = [], 0
    for loops, own in zip(all_loops, ranked, strict=True):
        rows = slice(start, start := start + len(own))
        parts = [_Candidates(tiles, memory[rows], first[rows]) for tiles, memory, first in listed]
        found.append(_least_of(loops, array, store, own, parts, below))
    return found


def _joined(all_loops: tuple[PhaseLoops, ...], counts: list[int]) -> PhaseLoops:
    """Return the loops of all parts, those in which they differ as columns with an entry for each of its layouts."""
    if len({*all_loops}) == 1:
        return all_loops[0]
    fields = zip(PhaseLoops._fields, zip(*all_loops, strict=True), strict=True)
    differing = {name: values for name, values in fields if len({*values}) > 1}
    columns = np.array([*differing.values()], np.int64).repeat(counts, axis=1)[:, :, None]
    return all_loops[0]._replace(**dict(zip(differing, columns, strict=True)))


def _least_of(
    loops: PhaseLoops, array: Array, store: Store, ranked: Ranked, listed: list[_Candidates], below: float
) -> Blocking | None:
    """Return one part's mapping of least rank of its candidates; None as in ``_least_traffic``."""
    while (least := min([own.first.min() for own in listed])) < below:
        fitting = []
        for tiles, memory, first in listed:
            for place in (first.ravel() == least).nonzero()[0].tolist():
                (rounds, layout), tile = ranked[place // len(tiles.samples)], place % len(tiles.samples)
                words = memory[place // len(tiles.samples), tile].item()
                own = _least_buffer(loops, array, store, tiles, layout, tile, words)
                fitting += [] if own is None else [(own[0], rounds, own[1])]
                first.flat[place] = math.inf
        if fitting:
            return min(fitting, key=itemgetter(0, 1))[-1]
    return None


def _widened(loops: PhaseLoops, array: Array, store: Store, found: Blocking) -> Blocking:
    """Return the mapping with pieces as wide as array and buffer allow with as many pieces and sets."""
    samples, filters, channels = found.tile
    side = found.grid[0] * found.interleaved[0]
    for layout in wider(found.layout, array.rows, array.columns, loops.height, line=array.line):
        if loops.whole_width and layout.columns not in _halved_columns(loops, store):
            continue
        fits = tile_fits(loops, store, layout.columns, samples, filters, channels)
        if fits and side <= most_channels(loops, store, layout):
            return replace(found, layout=layout)
    return found


def _orders(loops: PhaseLoops, store: Store) -> tuple[str, ...]:
    """Return the innermost loops to try: W that streams through the buffer is not kept for all samples."""
    if store.keeps_result:
        return (SAMPLES,) if loops.gradient else (CHANNELS,)
    return INNERMOST if shares(loops, store) else INNERMOST[:2]


def _least_buffer(
    loops: PhaseLoops, array: Array, store: Store, tiles: Tiles, layout: SetLayout, tile: int, memory: float
) -> tuple[float, Blocking] | None:
    """Return the mapping of one tile, of some words from memory, whose other words cost least; None if no pass fits the tile."""
    most = most_channels(loops, store, layout)
    sizes = tiles.samples[tile].item(), tiles.filters[tile].item(), tiles.channels[tile].item()
    least, found = math.inf, None
    for own in passes_of(loops, array, layout, most):
        p, filled, words, cost = pass_words(loops, store, layout, tiles.innermost, sizes, most, own)
        place = int(cost.argmin()) if isinstance(cost, np.ndarray) else None
        if (lowest := entry(cost, place)) < least:
            least = lowest
            found = _chosen(layout, tiles.innermost, own._replace(p=p), filled, (memory, words), place)
    return None if found is None else (least, found)


def _least_bypassing(loops: PhaseLoops, array: Array, ranked: Ranked) -> Blocking:
    """Return the mapping with the fewest rounds that reads the fewest words, for a buffer that holds no pass."""
    first = next(groupby(ranked, itemgetter(0)))[1]
    return min((_bypassing(loops, array, layout) for _, layout in first), key=lambda found: found.buffer)


def _bypassing(loops: PhaseLoops, array: Array, layout: SetLayout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    found = []
    for own in passes_of(loops, array, layout, loops.channels):
        r, t, b, q, p = own
        filled = b, smaller(p * t, loops.filters), smaller(q * r, loops.channels)
        words = buffer_words(loops, Store(None), layout, CHANNELS, filled, q * r, p * t)
        place = int(words.argmin()) if isinstance(words, np.ndarray) else None
        found.append(_chosen(layout, "", own, filled, (entry(words, place), words), place))
    return min(found, key=lambda own: own.buffer)


def _chosen(
    layout: SetLayout,
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
    r, t, b, q, p = (entry(column, place) for column in own)
    n, m, c = (entry(size, place) for size in filled)
    return Blocking(
        layout=layout,
        grid=(r, t, b),
        interleaved=(q, p),
        tile=(n, m, c),
        innermost=innermost,
        memory=float(words[0]),
        buffer=float(entry(words[1], place)),
    )
