"""Tables that say which device has which index of a dim: their equal rows and columns, found fast.

Few different tables occur in a program, however many layers it has, so what is found of one is kept by its content.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.bool_]
"""Whether each device has each index, ``[devices, size]``."""

Content = tuple[tuple[int, int], bytes]
"""The shape of a table and its entries: a key."""

WORD = 8
"""Bytes that are compared at once."""


class Kinds(NamedTuple):
    """The different columns of a table in lexicographic order.

    Attributes:
        first: the first column of each kind.
        which: the kind of each column.
        counts: the number of columns of each kind.
    """

    first: NDArray[np.int64]
    which: NDArray[np.int64]
    counts: NDArray[np.int64]


def content_of(table: Table) -> Content:
    """Return a key that tables with equal entries share."""
    return (len(table), table.shape[1]), np.packbits(table).tobytes()


def kinds_of(table: Table) -> Kinds:
    """Return the different columns of a table.

    Examples:
        >>> kinds_of(np.array([[True, True, False], [False, False, True]])).counts.tolist()
        [1, 2]
    """
    packed = np.packbits(table, axis=0)
    keys: NDArray[np.uint64] | NDArray[np.void]
    if len(packed) <= WORD:
        words = np.zeros((table.shape[1], WORD), np.uint8)
        words[:, : len(packed)] = packed.T
        keys = words.view(">u8").reshape(-1).astype(np.uint64)
    else:
        keys = np.ascontiguousarray(packed.T).view(np.dtype((np.void, len(packed)))).reshape(-1)
    _, first, which, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return Kinds(first, which.reshape(-1), counts)


def indices_of(table: Table) -> tuple[NDArray[np.intp], ...]:
    """Return the indices that each device has."""
    return _indices(content_of(table))


@lru_cache(maxsize=4096)
def _indices(content: Content) -> tuple[NDArray[np.intp], ...]:
    table = table_of(content)
    return tuple(np.flatnonzero(row) for row in table)


def table_of(content: Content) -> Table:
    """Return the table of a key."""
    (devices, size), packed = content
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=devices * size)
    return bits.astype(bool).reshape(devices, size)
