"""The least bytes of a block of layers for each state of its two ends, of which one, the pivot, leaves a forest.

By counts alone a table has the best meeting of every two layers. An entry is raised by theorem 4 of ``docs/optimal.md``: the options of
the pivot part the levels into cells; on the forest that is left, how often each layer takes each option in each cell is all that matters.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.studies.certificates.problem import Counts, Problem, Table

AT_ONCE, MOST_PAIRS = 2**20, 2**28
"""Pairs of states of two layers whose bytes are computed at once, and in all."""

SLACK = 1e-9
"""Share of a cost by which states are kept that cost more, as sums are rounded."""


class TooLargeError(Exception):
    """A block has too many states."""


class Block(NamedTuple):
    """A block.

    Attributes:
        pivot: the pivot.
        port: the other end.
        inner: the other layers, outer ones first, each with the next one towards the root of its tree; -1 for a root.
    """

    pivot: int
    port: int
    inner: tuple[tuple[int, int], ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of layers of a tree or beside the pivot, linked or not."""
        spokes = [(node, self.pivot) for node in (self.port, *(node for node, _ in self.inner))]
        return [(min(pair), max(pair)) for pair in (*spokes, *self.inner) if min(pair) >= 0]


class Tables:
    """The tables of a block.

    Attributes:
        first: the least bytes without those inside pivot and port, by counts alone, ``[states of the pivot, states of the port]``.
        costs: the same with the entries that are raised.
    """

    def __init__(self, problem: Problem, states: Sequence[Counts], block: Block) -> None:
        """Compute the table, all states of the pivot at once where they are few.

        Raises:
            TooLargeError: there are too many.
        """
        self.problem, self.states, self.block = problem, states, block
        self.own = {node: problem.costs(node, states[node]) for node, _ in block.inner}
        self.own[block.port] = np.zeros(len(states[block.port]))
        self.spokes = {node: self._between(block.pivot, node, states) for node in self.own}
        self._trees = {
            (node, after): self._between(after, node, states) for node, after in block.inner if after >= 0
        }
        self.first = np.stack([self._row(row) for row in range(len(states[block.pivot]))])
        self.costs = self.first.copy()

    def _between(self, one: int, other: int, states: Sequence[Counts] | dict[int, Counts]) -> Table:
        """Return the least bytes between two layers, ``[states of the one, states of the other]``; 0 if they are not linked."""
        pair = (min(one, other), max(one, other))
        if len(states[one]) * len(states[other]) > MOST_PAIRS:
            raise TooLargeError
        if pair not in self.problem.links:
            return np.zeros((len(states[one]), len(states[other])))
        found = self.problem.shared(pair, (states[pair[0]], states[pair[1]]))
        return found if pair[0] == one else found.T

    def _up(self, row: int) -> tuple[dict[int, Table], dict[int, Table], float]:
        """Return the least bytes behind each layer, what each sends on, and those of other trees, for one state of the pivot."""
        least = {node: own + self.spokes[node][row] for node, own in self.own.items()}
        sent, whole = {}, 0.0
        for node, after in self.block.inner:
            if after < 0:
                whole += float(least[node].min())
            else:
                sent[node] = (self._trees[node, after] + least[node]).min(axis=1)
                least[after] = least[after] + sent[node]
        return least, sent, whole

    def _row(self, row: int) -> Table:
        least, _, whole = self._up(row)
        return least[self.block.port] + whole

    def exact(self, row: int, column: int, most: float) -> float:
        """Return the least bytes for a state of pivot and port, or ``most`` if they are more.

        Raises:
            TooLargeError: too many states cost less by counts alone.
        """
        least, beside = self._up(row)[0], self._beside(row, column)
        pivot = self.states[self.block.pivot][row]
        used = np.flatnonzero(pivot)
        cells = {self.block.pivot: np.diag(pivot)[used][None]}
        best: dict[int, Table] = {}
        whole = 0.0
        limit = most * (1 + SLACK)
        for node, after in (*self.block.inner, (self.block.port, -1)):
            # States that are too dear by counts leave before they are parted, and then by what they cost in cells.
            near = np.flatnonzero(least[node] + beside[node] <= limit)
            parted = [
                _splits(tuple(own), tuple(pivot[used].tolist())) for own in self.states[node][near].tolist()
            ]
            if not parted:
                return most
            place = np.repeat(near, [len(own) for own in parted])
            cells[node] = np.concatenate(parted)
            own = self.own[node][place] + self._between(self.block.pivot, node, cells)[0]
            rest = least[node] + beside[node] - self.own[node] - self.spokes[node][row]
            kept = own + rest[place] <= limit
            cells[node], own, place = cells[node][kept], own[kept], place[kept]
            for kid, to in self.block.inner:
                if to == node:
                    if not len(best[kid]):
                        return most
                    own = own + self._least(node, kid, cells, best[kid])
            kept = own + beside[node][place] <= limit
            cells[node], best[node] = cells[node][kept], own[kept]
            if not kept.any():
                return most
            whole += float(best[node].min()) if after < 0 else 0.0
        return min(whole, most)

    def _least(self, node: int, kid: int, cells: dict[int, Counts], costs: Table) -> Table:
        """Return the least bytes of the states of a layer with those of one behind it, some states at once."""
        if len(cells[node]) * len(costs) > MOST_PAIRS:
            raise TooLargeError
        step = max(1, AT_ONCE // len(costs))
        parts = [slice(first, first + step) for first in range(0, len(cells[node]), step)]
        return np.concatenate(
            [
                (self._between(node, kid, cells | {node: cells[node][rows]}) + costs).min(axis=1)
                for rows in parts
            ]
            or [np.zeros(0)]
        )

    def _beside(self, row: int, column: int) -> dict[int, Table]:
        """Return for each layer the least bytes of all that is not behind it, by counts, for one state of pivot and port."""
        least, sent, whole = self._up(row)
        total = whole + float(least[self.block.port][column])
        found = {self.block.port: np.full(len(least[self.block.port]), np.inf)}
        found[self.block.port][column] = total - float(least[self.block.port][column])
        for node, after in reversed(self.block.inner):
            if after < 0:
                found[node] = np.full(len(least[node]), total - float(least[node].min()))
            else:
                rest = least[after] - sent[node] + found[after]
                found[node] = (self._trees[node, after] + rest[:, None]).min(axis=0)
        return found


@lru_cache(maxsize=2**14)
def _splits(counts: tuple[int, ...], sizes: tuple[int, ...]) -> Counts:
    """Return the ways to spread counts over cells of some sizes, ``[ways, cells, options]``.

    Raises:
        TooLargeError: there are too many.

    Examples:
        >>> _splits((1, 2), (2, 1)).tolist()
        [[[0, 2], [1, 0]], [[1, 1], [0, 1]]]
    """
    if len(sizes) == 1:
        return np.array([[counts]])
    found = []
    for first in product(*(range(min(own, sizes[0]) + 1) for own in counts)):
        if sum(first) == sizes[0]:
            rest = _splits(tuple(have - own for have, own in zip(counts, first, strict=True)), sizes[1:])
            found.append(
                np.concatenate([np.broadcast_to(np.array(first), (len(rest), 1, len(first))), rest], axis=1)
            )
    return np.concatenate(found)
