"""Passes of the array over a tile: the grids and registers that they fill, and their words from buffer and network."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.spatial.columns import larger, parts, smaller
from hypar.machine.spatial.loops import CHANNELS, FILTERS, SAMPLES, Array
from hypar.machine.spatial.sets import grids
from hypar.machine.spatial.tiles import shares, tile_fits, weight_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.machine.spatial.loops import PhaseLoops, Store
    from hypar.machine.spatial.sets import SetLayout


FEW = 12
"""Most passes that are tried one by one; more of them are columns."""


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
    """Return the passes with all grids of sets and all channels that an element may interleave."""
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


def passes_of(loops: PhaseLoops, array: Array, layout: SetLayout, most: int) -> list[Pass]:
    """Return the passes with a layout that may be chosen from: several of numbers, or one of columns."""
    return _passes(
        array, loops.taps, layout.sets, min(most, loops.channels), loops.filters, loops.all_samples
    )


def most_channels(loops: PhaseLoops, store: Store, layout: SetLayout) -> int:
    """Return the most channels that a pass may have: more than a bank holds only if the array is not full without."""
    if not store.pass_in_bank:
        return loops.channels + layout.sets * loops.channels
    held = store.bank // (loops.held_rows(layout.columns) * loops.read_width)
    return held if loops.whole_width else max(1, held, -(-layout.sets // (loops.filters * loops.all_samples)))


def pass_words(
    loops: PhaseLoops,
    store: Store,
    layout: SetLayout,
    inner: str,
    tile: tuple[int, int, int],
    most: int,
    own: Pass,
) -> tuple[Any, tuple[Any, Any, Any], Any, Any]:
    """Return of passes the filters of an element, the tile, the words from the buffer and the cost, infinite if one does not fit.

    Args:
        loops: the loops.
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
        channels = smaller(side, loops.channels)
    # A pass has no more channels and filters than its tile, but where the pass is the tile and the last is incomplete.
    fine = (side <= most) & (side < loops.channels + r if inner == CHANNELS else side <= channels)
    p = smaller(p, (loops.filters + t - 1) // t if inner == FILTERS else filters // t)
    if not shares(loops, store):
        p = smaller(p, larger(store.weights // (t * side * loops.kernel * loops.taps), side * t == 1))
    if inner == FILTERS:
        p = _most_allowed(
            lambda p: tile_fits(
                loops, store, layout.columns, samples, smaller(p * t, loops.filters), channels
            ),
            p,
        )
        filters = smaller(larger(p, 1) * t, loops.filters)
    else:
        fine &= tile_fits(loops, store, layout.columns, samples, filters, channels)
    fine &= (b <= samples) & (p > 0)
    p = larger(p, 1)
    words = buffer_words(loops, store, layout, inner, (samples, filters, channels), side, p * t)
    cost = words * store.costs[0]
    if store.costs[1]:
        cost = cost + store.costs[1] * array_words(loops, (q, p), samples)
    cost = np.where(fine, cost, np.inf) if isinstance(side, np.ndarray) else cost if fine else math.inf
    return p, (samples, filters, channels), words, cost


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


def buffer_words(
    loops: PhaseLoops,
    store: Store,
    layout: SetLayout,
    innermost: str,
    tile: tuple[Any, Any, Any],
    side: Any,
    deep: Any,
) -> Any:
    """Return the words between buffer and array.

    Args:
        loops: the loops.
        store: the buffer.
        layout: the sets.
        innermost: the innermost loop outside the buffer.
        tile: samples, filters and channels in the buffer.
        side: channels of a pass, whose terms are added up in the array.
        deep: filters of a pass, which share a read of F_in.
    """
    samples, filters, channels = tile
    f_in, f_out, weights = loops.words(layout.folds)
    times_in = parts(loops.filters, filters) * parts(filters, deep)
    times_out = parts(loops.channels, channels) * parts(channels, side)
    if not shares(loops, store):
        return f_in * times_in + 2 * f_out * times_out
    often = layout.folds * weight_times(loops.all_samples, loops.groups, samples)
    if innermost == SAMPLES:
        stays = (filters <= deep) & (channels <= side)
        often = np.where(stays, 1, often) if isinstance(stays, np.ndarray) else 1 if stays else often
    loaded = weights * often
    if loops.gradient:
        return f_in * times_in + f_out * times_out + 2 * loaded
    return f_in * times_in + 2 * f_out * times_out + loaded


def _most_allowed(allowed: Callable[[Any], Any], upper: Any) -> Any:
    """Return the largest number up to ``upper`` that is allowed, 0 for none; what is allowed allows all smaller ones."""
    if not isinstance(upper, np.ndarray):
        return _most_allowed(allowed, np.array([upper]))[0].item()
    low, high = np.zeros_like(upper), upper
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = allowed(middle)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.maximum(low, 0)
