"""How often some options were taken over the levels of a run, as numbers of states, and where one more option leads."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hypar.solve.edge import Indices


class Run:
    """The counts of some options over up to some levels, which all offer the same options.

    Attributes:
        counts: for each number of levels the counts, ``[states, options]``; of one level state ``k`` is option ``k``.
        after: for each number of levels the state after one more option, ``[states, options]``.
    """

    def __init__(self, options: int, levels: int) -> None:
        """List the counts."""
        self.counts: list[Indices] = [_parts(level, options) for level in range(levels + 1)]
        # The states before one that leaves so many levels to the options after each.
        self._before = np.array(
            [
                [math.comb(left + after - 1, after) for left in range(levels + 1)]
                for after in range(options - 1, 0, -1)
            ],
            dtype=np.intp,
        )
        unit = np.eye(options, dtype=np.intp)
        self.after: list[Indices] = [
            self.states(level + 1, own[:, None] + unit) for level, own in enumerate(self.counts[:-1])
        ]
        self._sums: dict[tuple[int, int], Indices] = {}

    def added(self, above: int, below: int) -> Indices:
        """Return the state of the sum of the counts over two numbers of levels, ``[states above, states below]``."""
        if (above, below) not in self._sums:
            sums = self.counts[above][:, None] + self.counts[below]
            self._sums[above, below] = self.states(above + below, sums)
        return self._sums[above, below]

    def halves(self, above: int, below: int) -> tuple[Indices, Indices]:
        """Return the states above and below that make each sum, ``[ways, 2]`` sum by sum, and the ways of each."""
        sums = self.added(above, below)
        order = np.argsort(sums, axis=None, kind="stable")
        pairs = np.stack(np.unravel_index(order, sums.shape), axis=1)
        return pairs, np.bincount(sums.reshape(-1), minlength=len(self.counts[above + below]))

    def states(self, level: int, counts: Indices) -> Indices:
        """Return the states of some counts over a number of levels, ``[..., options]``."""
        left = level - np.cumsum(counts[..., :-1], axis=-1)
        found = np.zeros(counts.shape[:-1], dtype=np.intp)
        for option, before in enumerate(self._before):
            found += before[left[..., option]]
        return found


def number_of(options: int, levels: int) -> int:
    """Return the number of counts of some options over some levels.

    Examples:
        >>> number_of(3, 4)
        15
    """
    return math.comb(levels + options - 1, options - 1)


@lru_cache(maxsize=64)
def run_of(options: int, levels: int) -> Run:
    """Return the counts of some options, computed once."""
    return Run(options, levels)


class Lattice:
    """The counts of a node's options over all levels, run by run.

    Attributes:
        runs: the number of levels of each run.
        options: the number of options at each run.
    """

    def __init__(self, runs: tuple[int, ...], options: tuple[int, ...]) -> None:
        """Take the counts of each run."""
        self.runs, self.options = runs, options
        self._runs = [run_of(own, levels) for own, levels in zip(options, runs, strict=True)]
        self._place = [(run, at) for run, levels in enumerate(runs) for at in range(levels)]

    def run(self, level: int) -> Run:
        """Return the counts of the run of a level."""
        return self._runs[self._place[level][0]]

    def number(self, level: int) -> int:
        """Return the number of states above a level."""
        run, at = self._place[level]
        outer = math.prod(number_of(*own) for own in zip(self.options[:run], self.runs[:run], strict=True))
        return outer * number_of(self.options[run], at)

    def below(self, level: int, width: int) -> Indices:
        """Return the state below some levels of one run, ``[states above them, counts over them]``."""
        at = self._place[level][1]
        inner = self.run(level).added(at, width)
        outer = np.arange(self.number(level) // len(inner))[:, None, None]
        size = len(self.run(level).counts[at + width])
        found: Indices = (outer * size + inner).reshape(-1, inner.shape[1])
        return found


@lru_cache(maxsize=64)
def lattice_of(runs: tuple[int, ...], options: tuple[int, ...]) -> Lattice:
    """Return the counts of some options, computed once."""
    return Lattice(runs, options)


@lru_cache(maxsize=256)
def _parts(total: int, options: int) -> Indices:
    """Return the ways to write a number as a sum of some numbers, ``[ways, numbers]``, larger first ones first."""
    if options == 1:
        return np.array([[total]], dtype=np.intp)
    rests = [_parts(total - first, options - 1) for first in range(total, -1, -1)]
    firsts = np.repeat(np.arange(total, -1, -1), [*map(len, rests)])
    return np.column_stack((firsts, np.concatenate(rests)))
