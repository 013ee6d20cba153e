"""The states of a layer: how often it takes each of its options, in each set of levels; their costs, and tiers of levels that cost the same.

A cost that counts what enters at each level at the level's own weight is, summed by parts, a sum over tiers: what all levels
down to the end of a tier multiply, times the weight of the tier less that of the next one. Where outer levels are dearer no
such coefficient is negative, so that the least of every tier is a bound of their sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.solve.edge import Costs

Numbers = NDArray[np.int8]
Counts = NDArray[np.integer[Any]]


def number_of_states(depths: tuple[int, ...], offered: tuple[tuple[int, ...], ...]) -> int:
    """Return the number of states of a layer with some options in each group."""
    pairs = zip(depths, offered, strict=True)
    return math.prod(math.comb(depth + len(own) - 1, len(own) - 1) for depth, own in pairs)


@lru_cache(maxsize=256)
def all_states(depths: tuple[int, ...], offered: tuple[tuple[int, ...], ...], options: int) -> Numbers:
    """Return all states of a layer with some options in each group, ``[states, groups, options]``."""
    one = np.eye(options, dtype=np.int8)
    each = [([*_parts(depth, (depth,) * len(own))], own) for depth, own in zip(depths, offered, strict=True)]
    return _crossed([(np.array(parts, dtype=np.int8) @ one[[*own]])[:, None] for parts, own in each])


def _crossed(tables: Sequence[Numbers]) -> Numbers:
    """Return every combination of the tables of each group, ``[combinations, rows of all, columns]``."""
    picks = np.indices([*map(len, tables)]).reshape(len(tables), -1)
    return np.concatenate([own[pick] for own, pick in zip(tables, picks, strict=True)], axis=1)


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
    return _crossed([*map(_tables, counts, sizes)])


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


MOST_LEVELS = 60
"""Most levels: the least and largest powers that are held."""

ROUNDING = 1e-12
"""Largest rounding error of a sum, relative to it."""


class Tier(NamedTuple):
    """A set of consecutive levels: the number of groups from the outermost one down to its end, and its weight less that of the next tier."""

    groups: int
    weight: float


class Cells(NamedTuple):
    """Sets of levels whose order among each other does not matter: the number of levels of each and its group; ways, tiers and latencies of the groups."""

    sizes: tuple[int, ...]
    groups: tuple[int, ...]
    ways: tuple[int, ...]
    tiers: tuple[Tier, ...]
    latencies: tuple[float, ...] = ()

    @property
    def alike(self) -> bool:
        """Whether all levels cost the same and have equal ways."""
        return len(self.tiers) == 1 and len({*self.ways}) == 1

    def by_group(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each group's cells, which are next to each other, ``[groups, ...]``."""
        if len(self.groups) == len(self.ways):
            return numbers
        starts = np.searchsorted(self.groups, range(len(self.ways)))
        return np.asarray(np.add.reduceat(numbers, starts, axis=0, dtype=np.int8))

    def products(self, powers: NDArray[Any] | Sequence[NDArray[Any]], weight: float) -> Iterator[Costs]:
        """Yield for each tier its weight, times another, times the ways raised to the power of each group down to its end."""
        reached: dict[int, Counts] = {}
        first = 0
        for tier in self.tiers:
            for own, power in zip(self.ways[first : tier.groups], powers[first : tier.groups], strict=True):
                reached[own] = reached[own] + power if own in reached else power
            first = tier.groups
            (own, power), *others = reached.items()
            product = (weight * tier.weight * _powers(own))[power]
            yield reduce(np.multiply, [_powers(own)[power] for own, power in others], product)


@lru_cache(maxsize=64)
def _powers(ways: int) -> Costs:
    """Return the powers of the ways; negative ones at negative indices."""
    powers = np.arange(MOST_LEVELS + 1.0)
    return np.asarray(float(ways) ** np.concatenate([powers, [-np.inf], -powers[:0:-1]]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Own:
    """The states that a layer may take, ``[states, groups, options]``, and the cost of each; of equal states the first counts."""

    states: Numbers
    costs: Costs

    @cached_property
    def _known(self) -> tuple[NDArray[np.void], NDArray[np.intp]]:
        return np.unique(_codes(self.states), return_index=True)

    def of(self, states: Counts) -> Costs:
        """Return the costs of some states, ``[..., groups, options]``; infinite if the layer may not take one."""
        (known, first), wanted = self._known, _codes(states)
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[found] == wanted, self.costs[first[found]], np.inf)


def _codes(states: Counts) -> NDArray[np.void]:
    """Return the counts of each state, ``[..., groups, options]``, as one value that can be sorted."""
    counts = np.ascontiguousarray(states, dtype=np.int8).reshape(*states.shape[:-2], -1)
    return counts.view(f"V{counts.shape[-1]}")[..., 0]
