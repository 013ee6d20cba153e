"""Mapping of a phase of a layer to an array of processing elements with a buffer: sets, and loop blocking.

A set has R rows of the kernel by ``columns`` rows of the output; see ``compute_models/row_stationary.py``. Several may work side by
side. Which words pass the array, the buffer and the memory follows from the best of all mappings.

A phase is the loops of three loops over passes of the array: input channels, filters, and samples with their pieces of
rows. W does not depend on the samples, F_in not on the filters, F_out not on the channels, so a tile of one of them
stays in the buffer while the innermost loop outside the buffer runs. Yang et al., A Systematic Approach to Blocking
Convolutional Neural Networks (2016), and Gao et al., TETRIS (ASPLOS 2017), describe this search.

A mapping is a layout of sets, a grid of sets, the channels and filters that a processing element interleaves, a tile of
the buffer, and the innermost loop. The mapping of least ``Unit.rank`` is used: by default that of the fewest cycles, of
equal ones the one with the fewest words from memory, then the fewest words from the buffer. Pieces and tiles that divide
their loops evenly are tried; pieces are then as wide as the buffer allows with as many of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Passes = tuple[Numbers, Numbers, Numbers, Numbers, Numbers]
"""Passes of the array, as columns: channels, filters and samples side by side; channels and filters of an element."""

CHANNELS, FILTERS, SAMPLES = "channels", "filters", "samples"
"""Loops that may be the innermost one outside the buffer."""

_STAYS = {FILTERS: 0, CHANNELS: 1, SAMPLES: 2}
"""Which of F_in, F_out and W stays in the buffer while a loop is the innermost one outside it."""

ANY, BANK = "any", "bank"
"""Where the rows of F_in lie that a pass reads of a sample."""


# Sets


class SetLayout(NamedTuple):
    """A layout of sets on the array.

    Attributes:
        kernel_rows: rows of a set that the array holds at once, R unless R exceeds the rows of the array.
        kernel_folds: parts of a kernel that is taller than the array.
        columns: output rows of one piece of a set.
        folds: pieces of a set, processed one after another.
        sets: sets processed side by side.
    """

    kernel_rows: int
    kernel_folds: int
    columns: int
    folds: int
    sets: int

    @property
    def active(self) -> int:
        """Processing elements active in a full piece."""
        return self.kernel_rows * self.columns * self.sets

    def rounds(self, planes: int, units: int) -> int:
        """Return the pieces that the array processes one after another for a number of planes."""
        return -(-planes // (self.sets * units)) * self.folds * self.kernel_folds


@lru_cache(maxsize=4096)
def layouts(
    rows: int, columns: int, kernel: int, height: int, *, line: bool = False
) -> tuple[SetLayout, ...]:
    """Return every layout of sets of ``kernel`` by ``height`` on an array, the widest pieces first.

    Pieces have equal widths but for the last, and two columns at least, so that F_in is shared along diagonals, unless
    the output has one row or the array has no room for two columns. On a ``line`` sets of several columns stand only below or only beside
    one another, and not both.
    """
    kernel_folds = -(-kernel // rows)
    kernel_rows = -(-kernel // kernel_folds)
    bands = rows // kernel_rows
    widest = min(height, bands * columns)
    widths = [*dict.fromkeys(-(-height // pieces) for pieces in range(-(-height // widest), height + 1))]
    kept = [width for width in widths if height // -(-height // width) >= 2] or widths[:1]
    each = [(width, -(-height // width), _sets(bands, columns, width, line=line)) for width in kept]
    return tuple(SetLayout(kernel_rows, kernel_folds, *own) for own in each)


def wider(
    layout: SetLayout, rows: int, columns: int, height: int, *, line: bool = False
) -> Iterator[SetLayout]:
    """Yield the layouts with wider pieces, but as many sets and pieces, the widest first; the last piece is narrower."""
    bands = rows // layout.kernel_rows
    widest = height if layout.folds == 1 else (height - 1) // (layout.folds - 1)
    for width in range(min(widest, bands * columns), layout.columns, -1):
        if _sets(bands, columns, width, line=line) == layout.sets:
            yield layout._replace(columns=width)


def _sets(bands: int, columns: int, width: int, *, line: bool) -> int:
    stacked = -(-width // columns)
    below, beside = bands // stacked, columns // width if stacked == 1 else 1
    return max(below, beside) if line and width > 1 else below * beside


@lru_cache(maxsize=1024)
def grids(sets: int, channels: int, filters: int, samples: int) -> tuple[tuple[int, int, int], ...]:
    """Return the grids of sets over channels, filters and samples that leave no room for one more along any of them."""
    found = []
    for r in range(1, min(sets, channels) + 1):
        room = sets // r
        for t in range(1, min(room, filters) + 1):
            b = min(room // t, samples)
            taken = t * b
            if (r == channels or (r + 1) * taken > sets) and (t == filters or taken + b > room):
                found.append((r, t, b))
    return tuple(found)


# Blocking


class Unit(NamedTuple):
    """An array of processing elements with a buffer.

    Fields are called as in a hardware file: see ``docs/compute_models/blocked_row_stationary.md``.

    Attributes:
        buffer: words of F_in, of F_out, and of W unless it has a part of its own, the ``weight_buffer_words``.
        costs: cost of a word from the buffer and of one from the array's network, by which mappings with equal words from
            memory are chosen.
    """

    rows: int
    columns: int
    weight_words: int
    input_words: int
    output_words: int
    buffer: float = math.inf
    bank_words: int = 1
    weight_buffer_words: int = 0
    resident: str = "any"
    fewest: str = "cycles"
    sets: str = "any"
    pass_rows: str = ANY
    costs: tuple[float, float] = (1.0, 0.0)

    def rank(self, cycles: float, memory: float, buffer: float) -> tuple[float, ...]:
        """Return what mappings are compared by, the least first: cycles, words from memory, words from the buffer."""
        if self.fewest == "words":
            return memory, buffer, cycles
        return (cycles, memory, buffer) if self.fewest == "cycles" else (cycles * memory, buffer)


class PhaseLoops(NamedTuple):
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
        across: input columns between output columns.
        packed: words in memory for an element of F_in and for one of F_out.
        whole_width: ``read_width`` of whole rows if these are halves of rows, which count as samples; otherwise 0.
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
    across: int = 1
    packed: tuple[float, ...] = (1.0, 1.0)
    whole_width: int = 0

    @property
    def planes(self) -> int:
        """Sets of the phase."""
        return self.samples * self.groups * self.channels * self.filters

    @property
    def all_samples(self) -> int:
        """Samples of all groups, which share nothing but, within a group, W."""
        return self.samples * self.groups

    def held_rows(self, columns: Any) -> Any:
        """Return the input rows that some output rows read."""
        return columns * self.stride + (self.extent - self.stride)

    def words(self, folds: Any) -> tuple[Any, int, int]:
        """Return the words of F_in, padding and what two pieces of a set both read included, of F_out and of W."""
        rows = folds * (self.extent - self.stride) + self.height * self.stride
        read = self.all_samples * self.channels * self.read_width * rows
        made = self.all_samples * self.filters * self.height * self.width
        return read / self.zeros, made, self.groups * self.filters * self.channels * self.kernel * self.taps

    def halved(self) -> PhaseLoops:
        """Return the loops over halves of rows, the first of which is longer by a column if the width is odd."""
        width = -(-self.width // 2)
        return self._replace(
            samples=2 * self.samples,
            width=width,
            read_width=self.read_width - (self.width - width) * self.across,
            whole_width=self.read_width,
        )

    def array_words(self, channels: Any, filters: Any, samples: Any) -> Any:
        """Return the words that elements with some channels and filters take from the array's network, of samples in the buffer."""
        # Rows of F_in and W, and terms of F_out.
        rows = self.planes * self.kernel * self.height
        return rows * (self.read_width / (filters * self.zeros) + self.width / channels + self.taps / samples)


_Turn = tuple[int, SetLayout]
"""A layout behind its rounds."""


class Blocking(NamedTuple):
    """A mapping of a phase to a unit.

    Attributes:
        loops: the loops, over halves of rows if a pass reads these.
        layout: the sets on the array.
        grid: sets side by side over channels, filters and samples.
        interleaved: channels and filters of a processing element.
        tile: samples, filters and channels of the tile in the buffer.
        innermost: the innermost loop outside the buffer; empty if the buffer holds no pass and is bypassed.
        counts: cycles, words read from and written to the memory, and words between buffer and array.
    """

    loops: PhaseLoops
    layout: SetLayout
    grid: tuple[int, int, int]
    interleaved: tuple[int, int]
    tile: tuple[int, int, int]
    innermost: str
    counts: tuple[int, float, float]


@lru_cache(maxsize=16384)
def best_blocking(loops: PhaseLoops, unit: Unit, planes: int, units: int) -> Blocking:
    """Return the best mapping of a part of a phase, of which all units together share ``planes`` sets."""
    whole = _Run(loops, unit, planes, units)
    tried = [whole.fitting()]
    if unit.pass_rows == BANK and loops.width > 1:
        tried.append(_Run(loops.halved(), unit, 2 * planes, units).fitting())
    found = [own for own in tried if own is not None]
    return min(found, key=lambda own: unit.rank(*own.counts)) if found else whole.bypassing()


class _Run(NamedTuple):
    """The search for the mapping of some loops to one of some units; fields as in ``best_blocking``."""

    loops: PhaseLoops
    unit: Unit
    planes: int
    units: int

    @property
    def shares(self) -> bool:
        """Whether W takes room in the buffer beside the other tensors, as a result always does."""
        return self.loops.gradient or not self.unit.weight_buffer_words

    @property
    def ranked(self) -> list[_Turn]:
        """Layouts, that of the fewest rounds first."""
        own, line = self.unit, self.unit.sets == "line"
        every = layouts(own.rows, own.columns, self.loops.kernel, self.loops.height, line=line)
        found = [(layout.rounds(self.planes, self.units), layout) for layout in every if self.halves(layout)]
        return sorted(found, key=itemgetter(0))

    def halves(self, layout: SetLayout) -> bool:
        """Return whether rows may be halved, if they are: one channel's fit a bank then, and otherwise do not."""
        rows, bank = self.loops.held_rows(layout.columns), self.unit.bank_words
        whole = self.loops.whole_width
        return not whole or rows * self.loops.read_width <= bank < rows * whole

    def most_channels(self, layout: SetLayout) -> int:
        """Return the most channels that a pass may have: more than a bank holds only if the array is not full without."""
        loops = self.loops
        if self.unit.pass_rows != BANK:
            return loops.channels + layout.sets * loops.channels
        held: int = self.unit.bank_words // (loops.held_rows(layout.columns) * loops.read_width)
        full = -(-layout.sets // (loops.filters * loops.all_samples))
        return held if loops.whole_width else max(1, held, full)

    # Words

    def fits(self, columns: Any, samples: Any, filters: Any, channels: Any) -> Any:
        loops, bank = self.loops, self.unit.bank_words
        sizes = [samples * channels * (loops.held_rows(columns) * loops.read_width)]
        sizes.append(samples * filters * (columns * loops.width))
        if self.shares:
            sizes.append(filters * channels * (loops.kernel * loops.taps) * -(-samples // loops.samples))
        return bank * sum(-(-words // bank) for words in sizes) <= self.unit.buffer

    def weight_times(self, folds: Any, samples: Any) -> Any:
        """Return how often W comes: for every piece of rows and every tile of samples."""
        loops = self.loops
        return folds * (np.maximum(-(-loops.all_samples // samples), loops.groups) / loops.groups)

    def memory_words(self, folds: Any, innermost: str, tile: Sequence[Any]) -> Any:
        """Return the words between memory and buffer: each tensor once for each time that its tile changes."""
        loops, (samples, filters, channels) = self.loops, tile
        times = [loops.filters / filters, loops.channels / channels, self.weight_times(folds, samples)]
        times[_STAYS[innermost]] = 1
        # A result that is not finished is written, and read again.
        result = 2 if loops.gradient else 1
        times[result] = 2 * times[result] - 1
        every = zip(loops.words(folds), (*loops.packed, 1), times, strict=True)
        return sum(own * each * often for own, each, often in every)

    def buffer_words(self, folds: int, innermost: str, tile: Sequence[Any], side: Any, deep: Any) -> Any:
        """Return the words between buffer and array, whose passes add up the terms of ``side`` channels, and read for ``deep`` filters."""
        loops, (samples, filters, channels) = self.loops, tile
        f_in, f_out, weights = loops.words(folds)
        often = self.weight_times(folds, samples) if self.shares else 0
        if innermost == SAMPLES:
            often = np.where((filters <= deep) & (channels <= side), 1, often)
        f_in = f_in * (-(-loops.filters // filters) * -(-filters // deep))
        f_out = f_out * (-(-loops.channels // channels) * -(-channels // side))
        weights = weights * often
        # A result is read, added to and written.
        return f_in + (f_out + 2 * weights if loops.gradient else 2 * f_out + weights)

    # Search

    def fitting(self) -> Blocking | None:
        ranked = self.ranked
        alike = groupby(ranked, itemgetter(0)) if self.unit.fewest == "cycles" else [(0, ranked)]
        tried = (self.least_traffic([*some]) for _, some in alike if ranked)
        found = next((own for own in tried if own is not None), None)
        return None if found is None else self.widened(found)

    def least_traffic(self, ranked: list[_Turn]) -> Blocking | None:
        """Return the mapping of least rank with some layouts; None if none fits the buffer."""
        loops, listed = self.loops, []
        numbers = [(rounds, layout.columns, layout.folds) for rounds, layout in ranked]
        turns, columns, folds = np.array(numbers, dtype=np.int64).T[:, :, None]
        # Words from memory and what mappings are chosen by first, with a row for each layout and a column for each tile.
        for inner in self.orders:
            tiles = _tiles(inner, loops.all_samples, loops.filters, loops.channels)
            memory = self.memory_words(folds, inner, tiles)
            first = memory * turns if self.unit.fewest == "product" else memory
            listed.append((inner, tiles, memory, np.where(self.fits(columns, *tiles), first, np.inf)))
        while (least := min([first.min() for *_, first in listed])) < math.inf:
            fitting = []
            for inner, tiles, memory, first in listed:
                for row, at in np.argwhere(first == least).tolist():
                    tile = [own[at].item() for own in tiles]
                    own = self.least_buffer(ranked[row], inner, tile, memory[row, at].item())
                    fitting += [] if own is None else [(own[0], ranked[row][0], own[1])]
                    first[row, at] = math.inf
            if fitting:
                return min(fitting, key=itemgetter(0, 1))[-1]
        return None

    @property
    def orders(self) -> tuple[str, ...]:
        """The innermost loops to try: W that streams through the buffer is not kept for all samples."""
        if self.unit.resident == "result":
            return (SAMPLES,) if self.loops.gradient else (CHANNELS,)
        return (CHANNELS, FILTERS, SAMPLES) if self.shares else (CHANNELS, FILTERS)

    def least_buffer(
        self, turn: _Turn, inner: str, tile: Sequence[Any], memory: float
    ) -> tuple[float, Blocking] | None:
        """Return the mapping of one tile whose words besides those from memory cost least, with the cost; None if no pass fits."""
        loops, unit, layout, (samples, filters, channels) = self.loops, self.unit, turn[1], tile
        most = self.most_channels(layout)
        r, t, b, q, p = self.passes(layout, most)
        side: Any = q * r
        samples = b if inner == SAMPLES else samples
        channels = np.minimum(side, loops.channels) if inner == CHANNELS else channels
        # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
        fine = (side <= most) & (side < loops.channels + r if inner == CHANNELS else side <= channels)
        p = np.minimum(p, (loops.filters + t - 1) // t if inner == FILTERS else filters // t)
        if not self.shares:
            held = unit.weight_buffer_words // (t * side * loops.kernel * loops.taps)
            p = np.minimum(p, np.maximum(held, side * t == 1))
        if inner == FILTERS:
            # As many as fit: what fits has room for all smaller ones.
            each = np.arange(1, p.max(initial=0) + 1)[:, None]
            room = self.fits(layout.columns, samples, np.minimum(each * t, loops.filters), channels)
            p = (room & (each <= p)).sum(axis=0)
            filters = np.minimum(np.maximum(p, 1) * t, loops.filters)
        fine &= self.fits(layout.columns, samples, filters, channels) & (b <= samples) & (p > 0)
        p, filled = np.maximum(p, 1), (samples, filters, channels)
        words = self.buffer_words(layout.folds, inner, filled, side, p * t)
        cost = words * unit.costs[0]
        if unit.costs[1]:
            cost = cost + unit.costs[1] * loops.array_words(q, p, samples)
        cost = np.where(fine, cost, np.inf)
        place = int(cost.argmin())
        if math.isinf(cost[place]):
            return None
        return cost[place].item(), self.mapping(turn, inner, [r, t, b, q, p, *filled, words], place, memory)

    def passes(self, layout: SetLayout, most: int) -> Passes:
        """Return the passes with a layout that may be chosen from, of some channels and of as many filters as registers hold."""
        own, unit = self.loops, self.unit
        loops = min(most, own.channels), own.filters, own.all_samples
        # An element holds a window of each channel and the next word of it, which arrives meanwhile.
        held = max(1, min(unit.input_words // (own.taps + 1), loops[0], unit.weight_words // own.taps))
        every = grids(layout.sets, *(min(size, layout.sets) for size in loops))
        r, t, b = np.array(every, dtype=np.int64).repeat(held, axis=0).T
        q = np.arange(len(r)) % held + 1
        return r, t, b, q, np.minimum(np.maximum(1, unit.weight_words // own.taps // q), unit.output_words)

    def mapping(
        self, turn: _Turn, inner: str, columns: Sequence[Any], place: int, memory: Any = None
    ) -> Blocking:
        """Return one of several mappings: columns are of passes, tiles and words from the buffer, which no ``memory`` equals."""
        (rounds, layout), each = turn, [column[place].item() for column in np.broadcast_arrays(*columns)]
        r, t, b, q, p, n, m, c, buffer = each
        counts = rounds * self.loops.taps * self.loops.width, float(memory or buffer), float(buffer)
        return Blocking(self.loops, layout, (r, t, b), (q, p), (n, m, c), inner, counts)

    def widened(self, found: Blocking) -> Blocking:
        """Return the mapping with pieces as wide as array and buffer allow with as many pieces and sets."""
        unit, line, side = self.unit, self.unit.sets == "line", found.grid[0] * found.interleaved[0]
        for layout in wider(found.layout, unit.rows, unit.columns, self.loops.height, line=line):
            fits = self.fits(layout.columns, *found.tile) and side <= self.most_channels(layout)
            if fits and self.halves(layout):
                return found._replace(layout=layout)
        return found

    def bypassing(self) -> Blocking:
        """Return the mapping with the fewest rounds whose passes read the fewest words from memory, as the buffer holds none."""
        loops, found = self.loops, []
        bare = self._replace(unit=self.unit._replace(weight_buffer_words=0))
        for turn in next(groupby(self.ranked, itemgetter(0)))[1]:
            r, t, b, q, p = self.passes(turn[1], loops.channels)
            tile = b, np.minimum(p * t, loops.filters), np.minimum(q * r, loops.channels)
            words = bare.buffer_words(turn[1].folds, CHANNELS, tile, q * r, p * t)
            found.append(self.mapping(turn, "", [r, t, b, q, p, *tile, words], int(words.argmin())))
        return min(found, key=lambda own: own.counts[-1])


@lru_cache(maxsize=4096)
def _tiles(innermost: str, samples: int, filters: int, channels: int) -> tuple[Numbers, ...]:
    """Return samples, filters and channels of the tiles that divide their loops evenly; 1 along the innermost loop."""
    loops = (SAMPLES, samples), (FILTERS, filters), (CHANNELS, channels)
    sizes = [_divisors(1 if loop == innermost else size) for loop, size in loops]
    each = np.ones([len(own) for own in sizes], np.int64)
    return tuple((own * each).ravel() for own in np.ix_(*sizes))


@lru_cache(maxsize=4096)
def _divisors(number: int) -> Numbers:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return np.array(sorted({*small, *(number // part for part in small)}))
