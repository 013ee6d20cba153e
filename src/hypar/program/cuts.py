"""The cuts of a layer: where each device's share of each dim lies inside the piece of its group, level by level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.places import Places, array_places
from hypar.sharding.grids.layouts import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hypar.sharding.placement import Choice

Shares = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevelCut:
    """The division of a layer at one level.

    Attributes:
        bounds: for each divided dim the start and the end of each device's share, as fractions of its group's
            piece, ``[devices]`` each.
        working: whether each device computes anything, ``[devices]``.
    """

    bounds: Mapping[str, tuple[Shares, Shares]]
    working: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cuts:
    """The divisions of a layer at all levels, outermost first, over the same places."""

    places: Places
    levels: tuple[LevelCut, ...]

    def divides(self, *dims: str) -> bool:
        """Return whether any level divides one of some dims."""
        return any(dim in level.bounds for level in self.levels for dim in dims)

    def copies(self, dims: Collection[str]) -> NDArray[np.int64]:
        """Return which copy of its shards of some dims each device has.

        At every level the parts of a group that have the same shards are copies of one another. A copy at all levels is
        whole if its shards make up the dims; in a tree of unequal groups some are not.

        Returns:
            0 for the devices of the first copy, 1 for those of the next whole one; -1 for a device that is idle, or whose
            copy is not whole.
        """
        ranks = np.zeros((len(self.levels), self.places.devices), np.int64)
        share = np.where(self.working, 1.0, 0.0)
        for level, cut in enumerate(self.levels):
            bounds = [cut.bounds[dim] for dim in sorted(cut.bounds) if dim in dims]
            for low, high in bounds:
                share *= high - low
            for _, parts in self.places.inside(level):
                seen: Counter[object] = Counter()
                for part in parts:
                    if cut.working[part[0]]:
                        shards = tuple((float(low[part[0]]), float(high[part[0]])) for low, high in bounds)
                        ranks[level, part] = seen[shards]
                        seen[shards] += 1
        _, copy = np.unique(ranks, axis=1, return_inverse=True)
        whole = np.isclose(np.bincount(copy.reshape(-1), share), 1.0)
        number = np.where(whole, np.cumsum(whole) - 1, -1)[copy.reshape(-1)]
        return np.where(self.working, number, -1)

    def meets(self, other: Cuts) -> bool:
        """Return whether some device works for both layers; those of two stages have none in common."""
        return bool((self.working & other.working).any())

    def without(self, dims: Collection[str]) -> Cuts:
        """Return the cuts of a tensor that no longer has some dims: parts that these alone divided are copies."""
        levels = [
            LevelCut({dim: own for dim, own in cut.bounds.items() if dim not in dims}, cut.working)
            for cut in self.levels
        ]
        return Cuts(self.places, tuple(levels))

    @property
    def working(self) -> NDArray[np.bool_]:
        """Whether each device works at every level."""
        found = np.ones(self.places.devices, bool)
        for level in self.levels:
            found &= level.working
        return found


def array_cuts(array: tuple[int, ...], choices: Sequence[Choice]) -> Cuts:
    """Return the cuts of a layer that an array of identical devices makes by a choice at each level."""
    return _array_cuts(array, tuple(choices))


@lru_cache(maxsize=1024)
def _array_cuts(array: tuple[int, ...], choices: tuple[Choice, ...]) -> Cuts:
    places = _places(array)
    coordinates = np.unravel_index(np.arange(places.devices), array) if array else ()
    levels = []
    for ways, choice, own in zip(array, choices, coordinates, strict=True):
        grid = layout((choice,), ways)
        bounds = {
            dim: (
                grid.rows[dim][0][own] / choice.degree(dim),
                (grid.rows[dim][0][own] + 1) / choice.degree(dim),
            )
            for dim in choice.divided
        }
        levels.append(LevelCut(bounds, grid.active[0][own]))
    return Cuts(places, tuple(levels))


def uncut(places: Places) -> Cuts:
    """Return cuts that divide nothing."""
    return Cuts(places, tuple(LevelCut({}, np.ones(places.devices, bool)) for _ in places.parts))


READ_AS = {
    "batch": "batch",
    "in_channels": "channels",
    "channels": "channels",
    "height": "height",
    "width": "width",
}
MADE_AS = {
    "batch": "batch",
    "out_channels": "channels",
    "groups": "channels",
    "height": "height",
    "width": "width",
}


def scattered(
    maker: Cuts,
    reader: Cuts,
    names: tuple[Mapping[str, str], Mapping[str, str]] = (MADE_AS, READ_AS),
    terms: frozenset[str] = frozenset({"in_channels"}),
) -> Cuts:
    """Return the cuts of a maker's output whose sums go to the shards that its reader divides, level by level.

    At a level that leaves terms the sums are divided as the reader divides its input there, or go to all where it does
    not; at any other level they lie as they are made. Dims are those of the tensor.

    Args:
        maker: the cuts of the layer that makes the tensor.
        reader: the cuts of its only reader.
        names: the tensor's names for the dims of both.
        terms: the maker's dims whose division leaves terms.
    """
    each = zip(maker.levels, reader.levels, strict=True)
    levels = [_scattered(*pair, names, terms, maker.places.members(at - 1)) for at, pair in enumerate(each)]
    return Cuts(maker.places, tuple(levels))


def _scattered(
    made: LevelCut,
    read: LevelCut,
    names: tuple[Mapping[str, str], Mapping[str, str]],
    terms: frozenset[str],
    groups: Sequence[NDArray[np.int64]],
) -> LevelCut:
    """Return the division of sums at a level, whose groups of devices may divide unlike dims."""
    goes = np.zeros(len(made.working), bool)
    for group in groups:
        own, other = _divided(made, group), _divided(read, group)
        works = made.working[group].all() and read.working[group].all()
        goes[group] = bool(own) and own <= terms and len(other) == 1 and works
    bounds: dict[str, tuple[Shares, Shares]] = {}
    for own_names, cut, here in ((names[0], made, ~goes), (names[1], read, goes)):
        for dim, (low, high) in cut.bounds.items() if here.any() else ():
            if dim in own_names:
                before = bounds.get(own_names[dim], (np.zeros_like(low), np.ones_like(high)))
                bounds[own_names[dim]] = (np.where(here, low, before[0]), np.where(here, high, before[1]))
    return LevelCut(bounds, made.working)


def _divided(cut: LevelCut, group: NDArray[np.int64]) -> set[str]:
    """Return the dims that a level divides in a group of devices: other groups may divide others."""
    return {
        dim for dim, (low, high) in cut.bounds.items() if (low[group] > 0).any() or (high[group] < 1).any()
    }


@lru_cache(maxsize=64)
def _places(array: tuple[int, ...]) -> Places:
    return array_places(array)
