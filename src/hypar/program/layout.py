"""Who works on what: the devices of a plan, and the shares of each dim that its levels leave each of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.grids.layouts import layout
from hypar.sharding.numbering import digits_of
from hypar.sharding.placement import ALONE, WHOLE, Choice
from hypar.sharding.tree import Device, Level, Stages, Uneven, splits_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.sharding.tree import Node

Numbers = NDArray[np.int64]

Shares = NDArray[np.float64]
"""The start and the end of each device's share of a dim, as fractions of its group's piece, ``[devices, 2]``."""

ALL = np.array((0.0, 1.0))
"""The share of a device whose group does not divide the dim."""


@dataclass(frozen=True, eq=False)
class Places:
    """Devices as leaves of a tree of parts.

    Attributes:
        parts: for each level, outermost first, the number of the part in which each device lies, ``[devices]``;
            every part lies in one part of the level above.
    """

    parts: tuple[Numbers, ...]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.parts[0]) if self.parts else 1

    def members(self, level: int) -> tuple[Numbers, ...]:
        """Return the devices of each part of a level."""
        return tuple(part for _, parts in self.inside(level) for part in parts)

    def inside(self, level: int) -> tuple[tuple[Numbers, tuple[Numbers, ...]], ...]:
        """Return the groups that a level splits, each with the parts that result."""
        return self._inside[level]

    @cached_property
    def _inside(self) -> tuple[tuple[tuple[Numbers, tuple[Numbers, ...]], ...], ...]:
        found, groups = [], (np.arange(self.devices),)
        for own in self.parts:
            each = [tuple(group[own[group] == part] for part in np.unique(own[group])) for group in groups]
            found.append(tuple(zip(groups, each, strict=True)))
            groups = tuple(part for parts in each for part in parts)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Layout:
    """The division of the loops of a layer, or of a tensor.

    Attributes:
        places: the devices; a level of theirs may be several here.
        levels: for each level, outermost first, the shares of the dims that it divides.
        working: whether each device computes anything, ``[devices]``.
    """

    places: Places
    levels: tuple[dict[str, Shares], ...]
    working: NDArray[np.bool_]

    @property
    def dims(self) -> dict[str, None]:
        """The dims that some level divides, in order."""
        return dict.fromkeys(dim for shares in self.levels for dim in shares)

    def copies(self, dims: Collection[str]) -> Numbers:
        """Return which copy of its shards of some dims each device has.

        At every level the parts of a group that have the same shards are copies of one another. A copy at all levels is
        whole if its shards make up the dims; in a tree of unequal groups some are not.

        Returns:
            0 for the devices of the first copy, 1 for those of the next whole one; -1 for a device that is idle, or whose
            copy is not whole.
        """
        ranks = np.zeros((len(self.levels), self.places.devices), np.int64)
        share = np.where(self.working, 1.0, 0.0)
        for level, shares in enumerate(self.levels):
            own = np.reshape([shares[dim] for dim in sorted(shares) if dim in dims], (-1, len(share), 2))
            share *= (own[..., 1] - own[..., 0]).prod(axis=0)
            for _, parts in self.places.inside(level):
                seen: Counter[bytes] = Counter()
                for part in parts:
                    if self.working[part].any():
                        shards = own[:, part[0]].tobytes()
                        ranks[level, part] = seen[shards]
                        seen[shards] += 1
        _, copy = np.unique(ranks, axis=1, return_inverse=True)
        whole = np.isclose(np.bincount(copy.reshape(-1), share), 1.0)
        number = np.where(whole, np.cumsum(whole) - 1, -1)[copy.reshape(-1)]
        return np.where(self.working, number, -1)

    def meets(self, other: Layout) -> bool:
        """Return whether some device works for both layers; those of two stages have none in common."""
        return bool((self.working & other.working).any())

    def of(self, names: Mapping[str, str]) -> Layout:
        """Return the layout of a tensor that has the dims that are named, by these names; parts are copies where others differ."""
        levels = [{names[dim]: own for dim, own in shares.items() if dim in names} for shares in self.levels]
        return Layout(self.places, tuple(levels), self.working)

    def scattered(
        self, reader: Layout, names: tuple[Mapping[str, str], Mapping[str, str]], terms: Collection[str]
    ) -> Layout:
        """Return the layout of a layer's output whose sums go to the shards that its reader divides, level by level.

        At a level that leaves terms the sums are divided as the reader divides its input there, or go to all where it does
        not; at any other level they lie as they are made. Groups of devices may divide unlike dims.

        Args:
            reader: the layout of the tensor's only reader.
            names: the tensor's names for the dims of both.
            terms: the dims whose division leaves terms.
        """
        levels = []
        made_as, read_as = self.of(names[0]).levels, reader.of(names[1]).levels
        for level, (made, read) in enumerate(zip(self.levels, reader.levels, strict=True)):
            goes = np.zeros((self.places.devices, 1), bool)
            for group, parts in self.places.inside(level):
                own, other = _divided(made, group), _divided(read, group)
                works = all(self.working[part].any() and reader.working[part].any() for part in parts)
                goes[group] = bool(own) and own <= {*terms} and len(other) == 1 and works
            before, after = made_as[level], read_as[level]
            levels.append(
                {dim: np.where(goes, after.get(dim, ALL), before.get(dim, ALL)) for dim in before | after}
            )
        return Layout(self.places, tuple(levels), self.working)


def _divided(shares: Mapping[str, Shares], group: Numbers) -> set[str]:
    """Return the dims that a level divides in a group of devices."""
    return {dim for dim, own in shares.items() if (own[group] != ALL).any()}


_Where = tuple[Numbers, Numbers]
"""The devices below a node, and the part of it in which each of them lies."""

_Given = tuple[Choice, int | tuple[float, ...]]
"""What a node decides for a layer: a choice, and the number of equal parts or the share of each; a stage has it alone."""

_Inner = Level | Uneven | Stages


def array_places(array: Sequence[int]) -> Places:
    """Return the devices of an array, numbered through its levels, outermost first.

    Examples:
        >>> [part.tolist() for part in array_places((2, 2)).parts]
        [[0, 0, 1, 1], [0, 1, 2, 3]]
    """
    devices = np.arange(math.prod(array))
    return Places(tuple(devices // math.prod(array[level:]) for level in range(1, len(array) + 1)))


def array_layout(array: tuple[int, ...], choices: Sequence[Choice]) -> Layout:
    """Return the layout that an array of identical devices gives a layer by a choice at each level."""
    return _array_layout(array, tuple(choices))


@lru_cache(maxsize=1024)
def _array_layout(array: tuple[int, ...], choices: tuple[Choice, ...]) -> Layout:
    places = _array_places(array)
    every = np.arange(places.devices)
    parts = np.unravel_index(every, array) if array else ()
    return _laid(
        places, [[(every, part)] for part in parts], [[own] for own in zip(choices, array, strict=True)]
    )


_array_places = lru_cache(maxsize=64)(array_places)


def layouts_of(plan: Plan) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a plan and the layout of each of its layers; layers that are cut alike share one object."""
    paths = [*_paths(plan.root)]
    nodes = [_nodes(paths, level) for level in range(max(map(len, paths)))]
    places = Places(tuple(_parts(paths, level) for level in range(len(nodes))))
    if not any(isinstance(node, Stages | Uneven) for level in nodes for node, _ in level):
        splits = [*splits_of(plan.root)]
        chosen = tuple(tuple(split.choice(name) for split in splits) for name in plan.layers)
        digits = digits_of(tuple(split.ways for split in splits), chosen)
        if digits is not None:
            # Pieces are laid digit by digit, transfers are counted level by level.
            each = (array_layout(digits.array, own) for own in digits.chosen)
            return places, dict(zip(plan.layers, each, strict=True))
    found, known = {}, dict[object, Layout]()
    for name in plan.layers:
        given = tuple(tuple(_given(node, name) for node, _ in level) for level in nodes)
        if given not in known:
            known[given] = _laid(places, [[at for _, at in level] for level in nodes], given)
        found[name] = known[given]
    return places, found


def _paths(node: Node) -> Iterator[tuple[tuple[_Inner, int], ...]]:
    """Yield for each device below a node the nodes on the way to it, each with the part in which the device lies."""
    if isinstance(node, Device):
        yield ()
        return
    for part, below in enumerate((node.below,) * node.split.ways if isinstance(node, Level) else node.below):
        if below is not None:
            yield from (((node, part), *path) for path in _paths(below))


def _parts(paths: Sequence[tuple[tuple[_Inner, int], ...]], level: int) -> Numbers:
    """Return the number of each device's part of a level; a branch that ends above has one."""
    numbers: dict[object, int] = {}
    prefixes = (tuple(part for _, part in path[: level + 1]) for path in paths)
    return np.array([numbers.setdefault(own, len(numbers)) for own in prefixes])


def _nodes(paths: Sequence[tuple[tuple[_Inner, int], ...]], level: int) -> list[tuple[_Inner, _Where]]:
    """Return the nodes of a level, each with the devices below it."""
    found: dict[int, tuple[_Inner, list[int], list[int]]] = {}
    for device, path in enumerate(paths):
        for node, part in path[level : level + 1]:
            _, devices, parts = found.setdefault(id(node), (node, [], []))
            devices.append(device)
            parts.append(part)
    return [(node, (np.array(devices), np.array(parts))) for node, devices, parts in found.values()]


def _given(node: _Inner, name: str) -> _Given:
    """Return what a node decides for a layer; one of another stage nothing."""
    if isinstance(node, Stages):
        return ALONE, tuple(float(name in own) for own in node.layers)
    if name not in node.split.choices:
        return WHOLE, node.split.ways
    shares = node.split.shares_of(name) if isinstance(node, Uneven) else node.split.ways
    return node.split.choice(name), shares


def _laid(places: Places, where: Sequence[Sequence[_Where]], given: Sequence[Sequence[_Given]]) -> Layout:
    """Return the layout of a layer, from the devices below the nodes of each level and what these decide."""
    working, levels = np.ones(places.devices, bool), []
    for nodes, own in zip(where, given, strict=True):
        level: dict[str, Shares] = {}
        for (devices, part), of in zip(nodes, own, strict=True):
            shares, works = _shares(*of)
            working[devices] &= works[part]
            for dim, ends in shares.items():
                level.setdefault(dim, np.tile(ALL, (len(working), 1)))[devices] = ends[part]
        levels.append(level)
    return Layout(places, tuple(levels), working)


@lru_cache(maxsize=1024)
def _shares(choice: Choice, given: int | tuple[float, ...]) -> tuple[dict[str, Shares], NDArray[np.bool_]]:
    """Return the share of each part of a node of the dims that it divides, ``[parts, 2]``, and whether each part works."""
    if isinstance(given, int):
        grid, found = layout((choice,), given), {}
        for dim in choice.divided:
            first = grid.rows[dim][0]
            found[dim] = np.stack([first, first + 1], axis=1) / choice.degree(dim)
        return found, grid.active[0]
    starts = [math.fsum(given[:part]) for part in range(len(given))]
    ends = np.stack([starts, np.add(starts, given)], axis=1)
    return dict.fromkeys(choice.divided, ends), (np.array(given) > 0) | (choice == WHOLE)
