"""The bytes that devices hold at once: the liveness of the buffers of one list of ops.

A buffer lives from the op that writes it to the last one that reads it. Buffers that share memory are one, as large as the
largest of them that lives, or is to come; what is saved of them for later ops lives on. Ops belong to pieces of work, between
which devices work on other microbatches. Errors of one tensor are added up as they arrive, as training frameworks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.float64]
"""Bytes on a device of each kind, ``[kinds]``."""

Kept = Callable[[Sequence[int]], Bytes]
"""Returns the bytes of what is saved of some buffers of one memory, each element once."""


class Ledger:
    """Buffers with the ops between which they live, written down op by op.

    Attributes:
        op: the number of the op that is being written down.
        sizes: the bytes of each buffer.
        made: the op that writes it.
        last: the last op that reads it.
        owners: the buffer whose memory it has; its own number for a memory of its own.
        later: for a buffer of which something is saved the last op that reads that.
        passed: the errors that several tensors have, so that nothing is added to them.
        outside: the errors that lie in the buffer of a transfer until they are added to others.
        ends: the number of ops at the end of each piece of work.
    """

    def __init__(self) -> None:
        self.op = -1
        self.sizes: list[Bytes] = []
        self.made: list[int] = []
        self.last: list[int] = []
        self.owners: list[int] = []
        self.later: dict[int, int] = {}
        self.passed: set[int] = set()
        self.outside: set[int] = set()
        self.ends: list[int] = []

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

    def write(self, size: Bytes, owner: int = -1) -> int:
        """Write a buffer, in a memory of its own or in that of another one, and return it."""
        buffer = len(self.sizes)
        self.sizes.append(size)
        self.made.append(self.op)
        self.last.append(self.op)
        self.owners.append(buffer if owner < 0 else self.owners[owner])
        if owner in self.passed:
            self.passed.add(buffer)
        return buffer

    def pass_on(self, error: int) -> int:
        """Write an error that is a slice of another one, or that error itself: as large as the whole, whose memory it has."""
        buffer = self.write(self.sizes[error], error)
        self.passed.add(buffer)
        return buffer

    def receive(self, size: Bytes) -> int:
        """Write an error that another stage sends, behind what makes room for it."""
        self.next()
        self.next()
        buffer = self.write(size)
        self.outside.add(buffer)
        return buffer

    def add(self, arrived: Sequence[int], size: Bytes) -> int:
        """Return the sum of errors of one tensor, which is formed as they arrive.

        An error is added in its place to those before; from another stage in the buffer, so that both are not held at once. Nothing
        is added to an error that is passed on, as others may have the same memory.
        """
        before, *others = sorted(arrived, key=lambda own: (self.made[own], own)) if arrived[1:] else arrived
        for buffer in others:
            at = self.made[buffer]
            self.last[before] = max(self.last[before], at - (buffer in self.outside))
            self.last[buffer] = max(self.last[buffer], at)
            before = self.write(size, next((own for own in (buffer, before) if own not in self.passed), -1))
            self.made[before] = self.last[before] = at
        self.next(before)
        return before

    def course(self, kept: Kept) -> tuple[Bytes, Bytes]:
        """Return the bytes during each op, and behind it, no more than during it and the next one: ``[ops, kinds]``."""
        during, behind = list[tuple[int, Bytes]](), list[tuple[int, Bytes]]()
        each: dict[int, list[int]] = {}
        for buffer, owner in enumerate(self.owners):
            each.setdefault(owner, []).append(buffer)
        for buffers in each.values():
            spans = self._spans(buffers, kept)
            for start, end, size in spans:
                during += (start, size), (end + 1, -size)
                behind += (start, size), (end, -size)
            for (_, end, size), (*_, after) in pairwise(spans):
                both = np.minimum(size, after)
                behind += (end, both), (end + 1, -both)
        return self._held(during), self._held(behind)

    def _held(self, changes: Sequence[tuple[int, Bytes]]) -> Bytes:
        found = np.zeros((self.op + 2, *np.shape(changes[0][1] if changes else 0.0)))
        np.add.at(found, [op for op, _ in changes], [size for _, size in changes])
        total: Bytes = found[:-1].cumsum(axis=0)
        return total

    def pieces(self, during: Bytes, behind: Bytes) -> tuple[Bytes, Bytes]:
        """Return the most bytes of each piece of work, and those that stay until the next one: ``[pieces, kinds]``."""
        most = [during[start:end].max(axis=0, initial=0.0) for start, end in pairwise([0, *self.ends])]
        return np.array(most), np.array([behind[end - 1] * (end > 0) for end in self.ends])

    def _spans(self, buffers: Sequence[int], kept: Kept) -> list[tuple[int, int, Bytes]]:
        """Return the bytes of a memory from one op to another: of its largest buffer there, or else to come; then of what is saved."""
        made, last, sizes = self.made, self.last, self.sizes
        first = sizes[buffers[0]]
        if all(sizes[own] is first for own in buffers):
            found = [(min([made[own] for own in buffers]), max([last[own] for own in buffers]), first)]
        else:
            found, ends = [], sorted({at for own in buffers for at in (made[own], last[own] + 1)})
            for start, after in pairwise(ends):
                there = [own for own in buffers if made[own] <= start <= last[own]]
                there = there or [own for own in buffers if made[own] >= after]
                found.append((start, after - 1, np.maximum.reduce([sizes[own] for own in there])))
        until = found[-1][1]
        if saved := [own for own in buffers if self.later.get(own, -1) > until]:
            found.append((until + 1, max([self.later[own] for own in saved]), kept(saved)))
        return found
