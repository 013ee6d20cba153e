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
from typing import Any

import numpy as np

from hypar.machine.spatial.loops import CHANNELS, INNERMOST, SAMPLES, Array, PhaseLoops, Store
from hypar.machine.spatial.passes import (
    Pass,
    Tiles,
    buffer_words,
    memory_words,
    most_channels,
    pass_words,
    passes_of,
    shares,
    tile_fits,
    tiles_of,
)
from hypar.machine.spatial.sets import SetLayout, by_rounds, layouts, wider


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
def best_blocking(loops: PhaseLoops, array: Array, store: Store, planes: int, units: int) -> Blocking:
    """Return the best mapping of a part of a phase.

    Args:
        loops: the loops of the part, on one unit.
        array: the processing elements of a unit.
        store: the buffer of a unit.
        planes: sets of the part on all units together.
        units: units that share them.
    """
    laid = layouts(array.rows, array.columns, loops.kernel, loops.height, line=array.line)
    ranked = by_rounds(laid, planes, units)
    found = _fitting(loops, array, store, ranked)
    if store.pass_in_bank and loops.width > 1:
        found = _or_halves(loops, array, store, (planes, units), found)
    return found or _least_bypassing(loops, array, ranked)


def counts(loops: PhaseLoops, found: Blocking, planes: int, units: int) -> tuple[float, float, float]:
    """Return the cycles of a mapping, its words from memory and from the buffer; arguments as in ``best_blocking``."""
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
    own = _fitting(halves, array, store, by_rounds(laid, 2 * planes, units), first)
    if own is None:
        return found
    halved = replace(own, halved=True)
    return halved if best is None or store.rank(*counts(loops, halved, planes, units)) < best else found


def _halved_columns(halves: PhaseLoops, store: Store) -> range:
    """Return the columns of pieces of which the rows of one channel fit a bank if they are halved, and otherwise do not."""
    most, whole = store.bank // halves.read_width, store.bank // halves.whole_width
    return range(halves.columns_within(whole) + 1, halves.columns_within(most) + 1)


def _fitting(
    loops: PhaseLoops, array: Array, store: Store, ranked: Ranked, below: float = math.inf
) -> Blocking | None:
    """Return the best mapping with some layouts; None if the buffer holds no pass.

    Args:
        loops: the loops.
        array: the processing elements.
        store: the buffer.
        ranked: the layouts.
        below: the rounds times words, or the words, that a mapping must stay below where these come first.
    """
    alike = [ranked]
    if store.fewest == "cycles":
        alike, below = [[*some] for _, some in groupby(ranked, itemgetter(0))], math.inf
    tried = (_least_traffic(loops, array, store, some, below) for some in alike)
    found = next((own for own in tried if own is not None), None)
    return None if found is None else _widened(loops, array, store, found)


def _least_traffic(
    loops: PhaseLoops, array: Array, store: Store, ranked: Ranked, below: float
) -> Blocking | None:
    """Return the mapping of least rank with some layouts; None if none fits the buffer, or none of a lower rank."""
    numbers = [(rounds, layout.columns, layout.folds) for rounds, layout in ranked]
    turns, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None]
    # Words from memory and what mappings are chosen by first, with a row for each layout and a column for each tile.
    listed = []
    for innermost in _orders(loops, store):
        tiles = tiles_of(innermost, loops.all_samples, loops.groups, loops.filters, loops.channels)
        memory = memory_words(loops, folds, tiles)
        first = memory * turns if store.fewest == "product" else memory
        fits = tile_fits(loops, store, columns, tiles.samples, tiles.filters, tiles.channels)
        listed.append((tiles, memory, np.where(fits, first, np.inf)))
    while (least := min([first.min() for _, _, first in listed])) < below:
        fitting = []
        for tiles, memory, first in listed:
            for row, tile in np.argwhere(first == least).tolist():
                (rounds, layout), words = ranked[row], memory[row, tile].item()
                own = _least_buffer(loops, array, store, tiles, layout, tile, words)
                fitting += [] if own is None else [(own[0], rounds, own[1])]
                first[row, tile] = math.inf
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
    own = passes_of(loops, array, layout, most)
    p, filled, words, cost = pass_words(loops, store, layout, tiles.innermost, sizes, most, own)
    place = int(cost.argmin())
    if math.isinf(cost[place]):
        return None
    chosen = _chosen(layout, tiles.innermost, own._replace(p=p), filled, (memory, words), place)
    return cost[place].item(), chosen


def _least_bypassing(loops: PhaseLoops, array: Array, ranked: Ranked) -> Blocking:
    """Return the mapping with the fewest rounds that reads the fewest words, for a buffer that holds no pass."""
    first = next(groupby(ranked, itemgetter(0)))[1]
    return min((_bypassing(loops, array, layout) for _, layout in first), key=lambda found: found.buffer)


def _bypassing(loops: PhaseLoops, array: Array, layout: SetLayout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    own = passes_of(loops, array, layout, loops.channels)
    filled = own.b, np.minimum(own.p * own.t, loops.filters), np.minimum(own.q * own.r, loops.channels)
    words = buffer_words(loops, Store(None), layout, CHANNELS, filled, own.q * own.r, own.p * own.t)
    return _chosen(layout, "", own, filled, (words, words), int(words.argmin()))


def _chosen(
    layout: SetLayout,
    innermost: str,
    own: Pass,
    filled: tuple[Any, Any, Any],
    words: tuple[Any, Any],
    place: int,
) -> Blocking:
    """Return the mapping of one of several passes.

    Args:
        layout: the sets.
        innermost: the innermost loop outside the buffer.
        own: the passes.
        filled: samples, filters and channels of their tiles.
        words: words from memory, and those from the buffer.
        place: the place of the pass.
    """
    columns = np.broadcast_arrays(*own, *filled, *words)
    r, t, b, q, p, n, m, c, memory, buffer = (column[place].item() for column in columns)
    return Blocking(
        layout=layout,
        grid=(r, t, b),
        interleaved=(q, p),
        tile=(n, m, c),
        innermost=innermost,
        memory=float(memory),
        buffer=float(buffer),
    )
