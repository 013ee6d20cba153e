"""The bytes that devices hold at once: the liveness of the buffers of one list of ops.

A buffer lives from the op that writes it to the last one that reads it. Buffers that share memory are one, as large as the
largest of them that lives, or is to come; what is saved of them for later ops lives on. Ops belong to pieces of work, between
which devices work on other microbatches. Errors of one tensor are added up as they arrive, as training frameworks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = float | NDArray[np.float64]
"""Bytes on a device, or on each one of some, ``[devices]``."""

Kept = Callable[[Sequence[int]], Bytes]
"""Returns the bytes of what is saved of some buffers of one memory, each element once."""


class Piece(NamedTuple):
    """A piece of the work on a microbatch.

    Attributes:
        most: the most bytes at any moment of it.
        behind: the bytes that stay until the next piece.
    """

    most: Bytes
    behind: Bytes


def held_at(pieces: Sequence[Piece], moments: Iterable[tuple[int, Sequence[int]]]) -> Bytes:
    """Return the most bytes that are held at once.

    Args:
        pieces: the pieces of the work on a microbatch.
        moments: the number of a piece, and the numbers of other microbatches that wait behind each piece but the last.
    """
    found: Bytes = 0.0
    for at, waiting in moments:
        held = pieces[at].most
        for count, piece in zip(waiting, pieces, strict=False):
            held = held + count * piece.behind
        found = larger(found, held)
    return found


def larger(one: Bytes, other: Bytes) -> Bytes:
    """Return the larger number, on each device if they differ."""
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    return np.maximum(one, other)


class Ledger:
    """Buffers with the ops between which they live, written down op by op.

    Attributes:
        op: the number of the op that is being written down.
        sizes: the bytes of each buffer.
        made: the op that writes it.
        last: the last op that reads it.
        later: the last op that reads what was saved of it; -1 for none.
        owners: the buffer whose memory it has; -1 for a memory of its own.
        passed: whether it is an error that several tensors have, so that nothing is added to it.
        outside: whether it is in the buffer of a transfer until its reader adds it to another.
    """

    def __init__(self) -> None:
        """Start without ops."""
        self.op = -1
        self.ends: list[int] = []
        self.sizes: list[Bytes] = []
        self.made: list[int] = []
        self.last: list[int] = []
        self.later: list[int] = []
        self.owners: list[int] = []
        self.passed: list[bool] = []
        self.outside: list[bool] = []

    def next(self, *reads: int, saved: Iterable[int] = ()) -> None:
        """Begin an op that reads some buffers, and what was saved of others."""
        self.op += 1
        for buffer in reads:
            self.last[buffer] = self.op
        for buffer in saved:
            self.later[buffer] = self.op

    def end(self) -> None:
        """End a piece of work."""
        self.ends.append(self.op + 1)

    def write(self, size: Bytes, owner: int = -1, *, passed: bool = False, outside: bool = False) -> int:
        """Write a buffer, in a memory of its own or in that of another one, and return it."""
        self.sizes.append(size)
        self.made.append(self.op)
        self.last.append(self.op)
        self.later.append(-1)
        self.owners.append(owner)
        self.passed.append(passed or (owner >= 0 and self.passed[owner]))
        self.outside.append(outside)
        return len(self.sizes) - 1

    def receive(self, size: Bytes) -> int:
        """Write an error that another stage sends, behind what makes room for it."""
        self.next()
        self.next()
        return self.write(size, outside=True)

    def add(self, arrived: Iterable[int], size: Bytes) -> int:
        """Return the sum of errors of one tensor, which is formed as they arrive.

        An error is added in its place to those before; from another stage in the buffer, so that both are not held at once. Nothing
        is added to an error that is passed on, as others may have the same memory.
        """
        before, *others = sorted(arrived, key=lambda buffer: (self.made[buffer], buffer))
        for buffer in others:
            at = self.made[buffer]
            self.last[before] = max(self.last[before], at - self.outside[buffer])
            self.last[buffer] = max(self.last[buffer], at)
            owner = next((own for own in (buffer, before) if not self.passed[own]), -1)
            before = self.write(size, owner)
            self.made[before] = self.last[before] = at
        self.next(before)
        return self.write(size if others else self.sizes[before], before)

    def course(self, kept: Kept) -> tuple[list[Bytes], list[Bytes]]:
        """Return the bytes that are held during each op, and behind it."""
        begun: list[Bytes] = [0.0] * (self.op + 1)
        ended: list[Bytes] = [0.0] * (self.op + 1)
        for buffers in self._memories():
            changes, until = self._sizes_of(buffers, kept)
            before: Bytes = 0.0
            for op, size in changes:
                more = size - before
                if isinstance(more, float):
                    if more > 0:
                        begun[op] += more
                    else:
                        ended[op - 1] += more
                else:
                    begun[op] = begun[op] + np.maximum(more, 0.0)
                    ended[op - 1] = ended[op - 1] + np.minimum(more, 0.0)
                before = size
            ended[until] = ended[until] - before
        now: Bytes = 0.0
        during, behind = [], []
        for more, less in zip(begun, ended, strict=True):
            during.append(now + more)
            now = during[-1] + less
            behind.append(now)
        return during, behind

    def pieces(self, kept: Kept) -> list[Piece]:
        """Return the pieces of work."""
        return self.pieces_of(*self.course(kept))

    def pieces_of(self, during: Sequence[Bytes], behind: Sequence[Bytes]) -> list[Piece]:
        """Return the pieces of work, from the bytes during each op and behind it."""
        found = []
        for start, end in pairwise([0, *self.ends]):
            most: Bytes = 0.0
            for held in during[start:end]:
                most = larger(most, held)
            found.append(Piece(most, behind[end - 1] if end else 0.0))
        return found

    def _memories(self) -> Iterable[list[int]]:
        """Return the buffers of each memory."""
        found: dict[int, list[int]] = {}
        for buffer in range(len(self.owners)):
            root = buffer
            while self.owners[root] >= 0:
                root = self.owners[root]
            found.setdefault(root, []).append(buffer)
        return found.values()

    def _sizes_of(self, buffers: Sequence[int], kept: Kept) -> tuple[list[tuple[int, Bytes]], int]:
        """Return the bytes of a memory from each of some ops on, and its last op."""
        own = buffers[0]
        if len(buffers) == 1 and self.later[own] <= self.last[own]:
            return [(self.made[own], self.sizes[own])], self.last[own]
        found: list[tuple[int, Bytes]] = []
        ends = sorted({self.made[own] for own in buffers} | {self.last[own] + 1 for own in buffers})
        for start, after in pairwise(ends):
            there = [own for own in buffers if self.made[own] <= start <= self.last[own]]
            size: Bytes = 0.0
            for own in there or [own for own in buffers if self.made[own] >= after]:
                size = larger(size, self.sizes[own])
            found.append((start, size))
        until = ends[-1] - 1
        saved = [own for own in buffers if self.later[own] > until]
        if saved:
            found.append((until + 1, kept(saved)))
            until = max(self.later[own] for own in saved)
        return found, until
