"""The states of a layer: how often it takes each of its options, in each set of levels."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers


def number_of(graph: CountGraph, node: int) -> int:
    """Return the number of states of a layer."""
    return number_of_states(graph.depths, graph.offered[node])


def number_of_states(depths: tuple[int, ...], offered: tuple[tuple[int, ...], ...]) -> int:
    """Return the number of states of a layer with some options in each group."""
    pairs = zip(depths, offered, strict=True)
    return math.prod(math.comb(depth + len(own) - 1, len(own) - 1) for depth, own in pairs)


def states_of(graph: CountGraph, node: int) -> Numbers:
    """Return all states of a layer, ``[states, groups, options]``."""
    return all_states(graph.depths, graph.offered[node], graph.options(node))


@lru_cache(maxsize=256)
def all_states(depths: tuple[int, ...], offered: tuple[tuple[int, ...], ...], options: int) -> Numbers:
    """Return all states of a layer with some options in each group, ``[states, groups, options]``."""
    by_group = []
    for depth, own in zip(depths, offered, strict=True):
        found = np.zeros((math.comb(depth + len(own) - 1, len(own) - 1), options), dtype=np.int8)
        found[:, own] = list(_parts(depth, (depth,) * len(own)))
        by_group.append(found)
    return _crossed(by_group)


def _crossed(by_group: Sequence[Numbers]) -> Numbers:
    """Return every combination of the rows of arrays, ``[combinations, arrays, columns]``."""
    picks = np.indices([len(rows) for rows in by_group]).reshape(len(by_group), -1)
    return np.stack([rows[pick] for rows, pick in zip(by_group, picks, strict=True)], axis=1)


def _parts(total: int, most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a sum of numbers up to some limits, larger first ones first."""
    if len(most) == 1:
        if total <= most[0]:
            yield (total,)
        return
    for first in range(min(total, most[0]), -1, -1):
        for rest in _parts(total - first, most[1:]):
            yield (first, *rest)


def splits(counts: tuple[tuple[int, ...], ...], sizes: tuple[tuple[int, ...], ...]) -> Numbers:
    """Return the ways to spread the counts of each group over cells of some sizes, ``[ways, cells, options]``.

    Examples:
        >>> splits(((1, 2),), ((2, 1),)).tolist()
        [[[1, 1], [0, 1]], [[0, 2], [1, 0]]]
    """
    tables = [_tables(own, cells) for own, cells in zip(counts, sizes, strict=True)]
    picks = np.indices([len(table) for table in tables]).reshape(len(tables), -1)
    return np.concatenate([table[pick] for table, pick in zip(tables, picks, strict=True)], axis=1)


@lru_cache(maxsize=2**15)
def _tables(counts: tuple[int, ...], sizes: tuple[int, ...]) -> Numbers:
    """Return the tables of some sums of rows and of columns, ``[tables, rows, columns]``."""
    if len(sizes) == 1:
        return np.array([[counts]], dtype=np.int8)
    found = []
    for row in _parts(sizes[0], counts):
        rest = _tables(tuple(have - taken for have, taken in zip(counts, row, strict=True)), sizes[1:])
        first = np.broadcast_to(np.array(row, dtype=np.int8), (len(rest), 1, len(row)))
        found.append(np.concatenate([first, rest], axis=1))
    return np.concatenate(found)
