"""The bytes that devices hold at once: the liveness of the buffers of one list of ops.

A buffer lives from the op that writes it to the last one that reads it. Buffers that share memory are one, as large as the
largest of them that lives, or is to come; what is saved of them for later ops lives on. A step in stages is the list of a
stage's ops, which belong to pieces of work, repeated for each microbatch in the order of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Bytes = NDArray[np.float64]
"""Bytes on each device, ``[devices]``."""

Flags = NDArray[np.bool_]
"""Whether something holds on each device, ``[devices]``."""

Piece = tuple[bool, int]
"""A piece of the work on a microbatch: whether it is backward, and the part, negative there, so that pieces sort in their order."""

Work = tuple[Piece, int]
"""A piece of work, and the microbatch."""

ALONE: tuple[Work, ...] = (((False, 0), 0), ((True, 0), 0))
"""The work of a step without stages."""


class Op(NamedTuple):
    """An op.

    Attributes:
        piece: the piece of work that it belongs to.
        reads: the buffers that it reads.
        writes: the buffers that it writes.
        saved: the buffers of which it reads what was saved for it.
    """

    piece: Piece
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()


class _Change(NamedTuple):
    """A change of the bytes that are held: when an op begins, or when it has ended."""

    op: int
    ended: bool
    num_bytes: Bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """A list of ops with buffers.

    Attributes:
        ops: the ops in the order of the work on a microbatch.
        sizes: the bytes of each buffer.
        shares: for a buffer the one whose memory it has, and on which devices.
        kept: returns the bytes of what is saved of some buffers of one memory, each element once.
    """

    ops: Sequence[Op]
    sizes: Mapping[str, Bytes]
    shares: Mapping[str, tuple[str, Flags]]
    kept: Callable[[Sequence[str]], Bytes]

    def peak(self, works: Sequence[Work], devices: NDArray[np.int64]) -> Bytes:
        """Return the most bytes that some devices hold at once over the work of their stage, ``[devices]``."""
        positions, found = self._positions(works), np.zeros(len(devices))
        shared = np.array([flags[devices] for _, flags in self.shares.values()]).reshape(-1, len(devices))
        for flags in np.unique(shared, axis=1).T:
            alike = (shared == flags[:, None]).all(axis=0)
            owners = {
                name: own for (name, (own, _)), here in zip(self.shares.items(), flags, strict=True) if here
            }
            bytes_at = np.zeros((positions.size + 1, alike.sum()))
            for change in self._changes(owners, devices[alike]):
                bytes_at[positions[:, change.op] + change.ended] += change.num_bytes
            found[alike] = np.cumsum(bytes_at, axis=0).max(axis=0)
        return found

    def _positions(self, works: Sequence[Work]) -> NDArray[np.int64]:
        """Return when each microbatch meets each op, ``[microbatches, ops]``."""
        pieces = groupby(range(len(self.ops)), lambda number: self.ops[number].piece)
        spans = {piece: [*numbers] for piece, numbers in pieces}
        rows = {item: row for row, item in enumerate(dict.fromkeys(item for _, item in works))}
        found, start = np.zeros((len(rows), len(self.ops)), np.int64), 0
        for piece, item in works:
            own = spans.get(piece, [])
            found[rows[item], own] = range(start, start + len(own))
            start += len(own)
        return found

    @cached_property
    def _lives(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The first and the last op of each buffer, and the last that reads what was saved of it."""
        first, last, later = dict[str, int](), dict[str, int](), dict[str, int]()
        for number, op in enumerate(self.ops):
            for name in (*op.reads, *op.writes):
                first.setdefault(name, number)
                last[name] = number
            later |= dict.fromkeys(op.saved, number)
        return first, last, later

    def _changes(self, owners: Mapping[str, str], devices: NDArray[np.int64]) -> Iterator[_Change]:
        """Yield the changes of the bytes on some devices on which buffers share memory alike."""
        first, last, later = self._lives
        memories: dict[str, list[str]] = {}
        for name in first:
            memories.setdefault(root_of(owners, name), []).append(name)
        for names in memories.values():
            sizes, until = [*self._sizes(names)], max(last[name] for name in names)
            saved = [name for name in names if later.get(name, 0) > until]
            if saved:
                sizes.append((until + 1, self.kept(saved)))
                until = max(later[name] for name in saved)
            before = np.zeros(len(devices))
            for op, num_bytes in sizes:
                more = num_bytes[devices] - before
                before = num_bytes[devices]
                yield _Change(op, False, np.maximum(more, 0.0))
                if (more < 0).any():
                    yield _Change(op - 1, True, np.minimum(more, 0.0))
            yield _Change(until, True, -before)

    def _sizes(self, names: Sequence[str]) -> Iterator[tuple[int, Bytes]]:
        """Yield the bytes of buffers of one memory from each op on: of the largest that is there, or else is to come."""
        first, last, _ = self._lives
        ends = sorted({first[name] for name in names} | {last[name] + 1 for name in names})
        for start, after in pairwise(ends):
            there = [name for name in names if first[name] <= start <= last[name]]
            there = there or [name for name in names if first[name] >= after]
            yield start, np.max([self.sizes[name] for name in there], axis=0)


def root_of(owners: Mapping[str, str], name: str) -> str:
    """Return the buffer whose memory a buffer has."""
    while name in owners:
        name = owners[name]
    return name
