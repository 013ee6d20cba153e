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
from hypar.machine.spatial.passes import Run, Tiles
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
    run = Run(loops, array, store)
    ranked = by_rounds(_layouts(run), planes, units)
    found = _fitting(run, ranked)
    if store.pass_in_bank and loops.width > 1:
        found = _or_halves(run, planes, units, found)
    return found or _least_bypassing(run, ranked)


def _layouts(run: Run) -> tuple[SetLayout, ...]:
    array = run.array
    return layouts(array.rows, array.columns, run.loops.kernel, run.loops.height, line=array.line)


def counts(loops: PhaseLoops, found: Blocking, planes: int, units: int) -> tuple[float, float, float]:
    """Return the cycles of a mapping, its words from memory and from the buffer; arguments as in ``best_blocking``."""
    run, parts = (loops.halved(), 2) if found.halved else (loops, 1)
    return found.layout.rounds(parts * planes, units) * run.taps * run.width, found.memory, found.buffer


def _or_halves(run: Run, planes: int, units: int, found: Blocking | None) -> Blocking | None:
    """Return the best mapping of halves of rows if it is better than one of whole rows."""
    store, halves = run.store, run.loops.halved()

    def rank(mapping: Blocking) -> tuple[float, ...]:
        return store.rank(*counts(run.loops, mapping, planes, units))

    allowed, steps, first = _halved_columns(halves, store), halves.taps * halves.width, math.inf
    ranked = [own for own in by_rounds(_layouts(run), 2 * planes, units) if own[1].columns in allowed]
    if found is not None:
        # Each tensor moves once at least.
        least = [(own, sum(halves.stored(own[1].folds))) for own in ranked]
        ranked = [own for own, words in least if store.rank(own[0] * steps, words, 0) < rank(found)]
        # A mapping as good in what comes first may be better in what comes next.
        first = rank(found)[0] / (steps if store.fewest == "product" else 1) * (1 + 1e-9)
    own = _fitting(run._replace(loops=halves), ranked, first) if ranked else None
    if own is None:
        return found
    halved = replace(own, halved=True)
    return halved if found is None or rank(halved) < rank(found) else found


def _halved_columns(halves: PhaseLoops, store: Store) -> range:
    """Return the columns of pieces of which the rows of one channel fit a bank if they are halved, and otherwise do not."""
    most, whole = store.bank // halves.read_width, store.bank // halves.whole_width
    return range(halves.columns_within(whole) + 1, halves.columns_within(most) + 1)


def _fitting(run: Run, ranked: Ranked, below: float = math.inf) -> Blocking | None:
    """Return the best mapping with some layouts; None if the buffer holds no pass.

    Args:
        run: the loops on a unit.
        ranked: the layouts.
        below: the rounds times words, or the words, that a mapping must stay below where these come first.
    """
    alike = [ranked]
    if run.store.fewest == "cycles":
        alike, below = [[*some] for _, some in groupby(ranked, itemgetter(0))], math.inf
    tried = (_least_traffic(run, some, below) for some in alike)
    found = next((own for own in tried if own is not None), None)
    return None if found is None else _widened(run, found)


def _least_traffic(run: Run, ranked: Ranked, below: float) -> Blocking | None:
    """Return the mapping of least rank with some layouts; None if none fits the buffer, or none of a lower rank."""
    numbers = [(rounds, layout.columns, layout.folds) for rounds, layout in ranked]
    turns, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None]
    # Words from memory and what mappings are chosen by first, with a row for each layout and a column for each tile.
    listed = []
    for tiles in map(run.tiles, _orders(run)):
        memory = run.memory_words(folds, tiles)
        first = memory * turns if run.store.fewest == "product" else memory
        fits = run.fits(columns, tiles.samples, tiles.filters, tiles.channels)
        listed.append((tiles, memory, np.where(fits, first, np.inf)))
    while (least := min([first.min() for _, _, first in listed])) < below:
        fitting = []
        for tiles, memory, first in listed:
            for row, tile in np.argwhere(first == least).tolist():
                (rounds, layout), words = ranked[row], memory[row, tile].item()
                own = _least_buffer(run, tiles, layout, tile, words)
                fitting += [] if own is None else [(own[0], rounds, own[1])]
                first[row, tile] = math.inf
        if fitting:
            return min(fitting, key=itemgetter(0, 1))[-1]
    return None


def _widened(run: Run, found: Blocking) -> Blocking:
    """Return the mapping with pieces as wide as array and buffer allow with as many pieces and sets."""
    array, loops, side = run.array, run.loops, found.grid[0] * found.interleaved[0]
    for layout in wider(found.layout, array.rows, array.columns, loops.height, line=array.line):
        if loops.whole_width and layout.columns not in _halved_columns(loops, run.store):
            continue
        if run.fits(layout.columns, *found.tile) and side <= run.most_channels(layout):
            return replace(found, layout=layout)
    return found


def _orders(run: Run) -> tuple[str, ...]:
    """Return the innermost loops to try: W that streams through the buffer is not kept for all samples."""
    if run.store.keeps_result:
        return (SAMPLES,) if run.loops.gradient else (CHANNELS,)
    return INNERMOST if run.shares else INNERMOST[:2]


def _least_buffer(
    run: Run, tiles: Tiles, layout: SetLayout, tile: int, memory: float
) -> tuple[float, Blocking] | None:
    """Return the mapping of one tile, of some words from memory, whose other words cost least; None if no pass fits the tile."""
    sizes = [own[tile].item() for own in (tiles.samples, tiles.filters, tiles.channels)]
    columns, cost = run.over(layout, tiles.innermost, sizes)
    place = int(cost.argmin())
    if math.isinf(cost[place]):
        return None
    return cost[place].item(), _chosen(layout, tiles.innermost, columns, place, memory)


def _least_bypassing(run: Run, ranked: Ranked) -> Blocking:
    """Return the mapping with the fewest rounds that reads the fewest words, for a buffer that holds no pass."""
    first = next(groupby(ranked, itemgetter(0)))[1]
    return min((_bypassing(run, layout) for _, layout in first), key=lambda found: found.buffer)


def _bypassing(run: Run, layout: SetLayout) -> Blocking:
    """Return the mapping whose passes read from memory, for a buffer that holds no pass."""
    loops, own = run.loops, run.passes(layout, run.loops.channels)
    filled = own.b, np.minimum(own.p * own.t, loops.filters), np.minimum(own.q * own.r, loops.channels)
    words = run._replace(store=Store(None)).buffer_words(layout.folds, CHANNELS, filled, own)
    place = int(words.argmin())
    return _chosen(layout, "", [*own, *filled, words], place, words[place].item())


def _chosen(layout: SetLayout, innermost: str, passes: list[Any], place: int, memory: float) -> Blocking:
    """Return the mapping of one of several passes, whose columns are as ``Run.over`` returns them."""
    columns = np.broadcast_arrays(*passes)
    r, t, b, q, p, n, m, c, buffer = (column[place].item() for column in columns)
    return Blocking(
        layout=layout,
        grid=(r, t, b),
        interleaved=(q, p),
        tile=(n, m, c),
        innermost=innermost,
        memory=float(memory),
        buffer=float(buffer),
    )
