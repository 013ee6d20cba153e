"""Layouts: the share of each dim of a layer that each device has, level by level, as a fraction of the piece of the level above."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import compress, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.placement import COPIES, IDLE, digits_of
from hypar.sharding.tree import Device, Node, Split, Stages, splits_of

T = TypeVar("T", bound=np.generic)

Numbers = NDArray[np.int64]

Shares = NDArray[np.float64]
"""The start and the end of each device's share of a dim, as fractions of its group's piece, ``[devices, 2]``."""

ALL: Shares = np.array((0.0, 1.0))
"""The share of a device whose group does not divide the dim."""

Working = NDArray[np.bool_]
"""Whether each device, or each part of a node, computes anything."""

PART = ""
"""The dim under which the part of each device stands at a level; 0 where a level has none."""

Given = tuple[str, int | tuple[float, ...]]
"""What a node divides of a layer: a dim, ``COPIES`` or ``IDLE``, and the number of equal parts or the share of each."""


class Copies(NamedTuple):
    """Whose terms are summed together.

    Attributes:
        number: which copy of the terms each device has, ``[*devices]``; each copy is summed by itself, -1 for none.
        parts: on an array of devices, for each of its axes the number of parts that have terms of one copy.
    """

    number: Numbers
    parts: tuple[int, ...] = ()


class GroupShare(NamedTuple):
    """A share of a layer at an uneven split.

    Attributes:
        dim: the dim that the split divides; None if all groups have all.
        ends: the ends of the share of each group as fractions; None of one without a share.
        own: the number of the group whose share it is.
    """

    dim: str | None
    ends: tuple[tuple[float, float] | None, ...]
    own: int


@lru_cache(maxsize=1024)
def shares_of(label: str, given: int | tuple[float, ...]) -> tuple[dict[str, Shares], Working]:
    """Return the share of each part of a node of the dim that it divides, ``[parts, 2]``, and whether each part works."""
    if isinstance(given, int):
        number = np.arange(given)
        starts, ends, works = number / given, (number + 1) / given, (number == 0) | (label != IDLE)
    else:
        starts = np.array([math.fsum(given[:part]) for part in range(len(given))])
        ends, works = starts + given, (np.array(given) > 0) | (label == COPIES)
    return {} if label in {COPIES, IDLE} else {label: np.stack([starts, ends], axis=1)}, works


def given_in(root: Node | None) -> dict[int, dict[str, tuple[Given, ...]]]:
    """Return what the splits of a tree, by identity, decide for each of their layers, digit by digit; under no name for others."""
    return {id(split): _given(split) for split in splits_of(root)}


def _given(split: Split) -> dict[str, tuple[Given, ...]]:
    if split.sides is not None:
        each = {name: ((split.dim(name) or COPIES, split.shares_of(name)),) for name in split.choices}
        return {**each, "": ((COPIES, split.ways),)}
    digits = digits_of([*map(split.choice, split.choices)], split.ways)
    rows = zip(*[[(label, own) for label in labels] for own, labels in digits], strict=True)
    return {**dict(zip(split.choices, rows, strict=True)), "": tuple((COPIES, own) for own, _ in digits)}


def laid(
    node: Node, name: str, splits: Mapping[int, Mapping[str, tuple[Given, ...]]]
) -> tuple[list[dict[str, Shares]], Working]:
    """Return the shares that each device below a node has of a layer at each level, and whether it works.

    Levels whose splits are not given, as of ``given_in``, are whole. The number of a device's part at a level is a share, too.
    """
    if isinstance(node, Device):
        return [], np.ones(1, bool)
    if isinstance(node, Stages):
        # A stage has its layers alone.
        given: tuple[Given, ...] = ((IDLE, tuple(float(name in own) for own in node.layers)),)
    else:
        decided = splits.get(id(node.split), {"": ((COPIES, node.split.ways),)})
        given = decided.get(name, decided[""])
    ways = [own if isinstance(own, int) else len(own) for _, own in given]
    below = [None if part is None else laid(part, name, splits) for part in node.below]
    each = enumerate(below * (math.prod(ways) // len(below)))
    numbers, parts = zip(*[(number, part) for number, part in each if part is not None], strict=True)
    sizes, working = [len(own) for _, own in parts], np.concatenate([own for _, own in parts])
    levels = list[dict[str, Shares]]()
    for part, own in zip(np.unravel_index(np.repeat(numbers, sizes), ways), given, strict=True):
        shares, works = shares_of(*own)
        levels.append(
            {PART: np.stack([part, part], axis=1), **{dim: ends[part] for dim, ends in shares.items()}}
        )
        working &= works[part]
    for level in zip_longest(*[own for own, _ in parts], fillvalue=dict[str, Shares]()):
        pairs = [*zip(level, [np.tile(ALL, (size, 1)) for size in sizes], strict=True)]
        dims = dict.fromkeys(dim for own in level for dim in own)
        levels.append({dim: np.concatenate([own.get(dim, rest) for own, rest in pairs]) for dim in dims})
    return levels, working


@dataclass(frozen=True, eq=False)
class Places:
    """Devices as leaves of a tree of parts.

    Attributes:
        parts: for each level, outermost first, the number of the part in which each device lies, ``[devices]``;
            devices of unlike parts of the level above are in unlike parts, also where their numbers are the same.
    """

    parts: tuple[Numbers, ...]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.parts[0]) if self.parts else 1

    def members(self, level: int) -> tuple[Numbers, ...]:
        """Return the devices of each part of a level."""
        return tuple(part for _, parts in self.inside[level] for part in parts)

    @cached_property
    def inside(self) -> tuple[tuple[tuple[Numbers, tuple[Numbers, ...]], ...], ...]:
        """For each level the groups that it splits, each with the parts that result."""
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

    @cached_property
    def content(self) -> object:
        """A key that layouts of the same shares have in common."""
        each = (((dim, len(shares), shares.tobytes()) for dim, shares in own.items()) for own in self.levels)
        return self.places, tuple(map(tuple, each)), self.working.shape, self.working.tobytes()

    def copies(self, dims: tuple[str, ...] | None = None) -> Copies:
        """Return which copy of its shards of some dims each device has; without any, of one copy of all devices that work.

        At every level the parts of a group that have the same shards are copies of one another. A copy at all levels is
        whole if its shards make up the dims; in a tree of unequal groups some are not. The devices of the first whole copy
        have 0, those of the next 1; idle devices and those of a copy that is not whole -1.
        """
        return Copies(np.where(self.working, 0, -1)) if dims is None else _copies(self, dims)

    def ranks(self, dims: Collection[str]) -> tuple[Numbers, int]:
        """Return the number of each device among those that divide other dims, level by level, and how many these are."""
        number, count = np.zeros([1] * self.working.ndim, np.int64), 1
        for level, shares in enumerate(self.levels):
            for own in (own for dim, own in shares.items() if dim not in dims):
                start, end = self._along(level, own)
                ways = np.rint(1 / (end - start)).astype(np.int64)
                number, count = (
                    number * ways + np.rint(start * ways).astype(np.int64),
                    count * int(ways.max()),
                )
        return number, count

    def _along(self, level: int, shares: Shares) -> tuple[Shares, Shares]:  # noqa: ARG002
        """Return where the shares of a level begin and end, ``[*devices]``."""
        return shares[:, 0], shares[:, 1]

    def of(self, names: Mapping[str, str]) -> Layout:
        """Return the layout of a tensor that has the dims that are named, by these names; parts are copies where others differ."""
        levels = [{names[dim]: own for dim, own in shares.items() if dim in names} for shares in self.levels]
        return replace(self, levels=tuple(levels))

    def scattered(
        self, reader: Layout, made_as: Mapping[str, str], read_as: Mapping[str, str], terms: Collection[str]
    ) -> Layout:
        """Return the layout of a layer's output whose sums go to the shards that its reader divides, level by level.

        Where a group of devices divides ``terms``, dims of which it leaves terms, sums are divided as the reader divides its
        input there, or go to all if it does not; elsewhere they lie as they are made. The tensor has its own names for the
        dims of this layout, and for those of the reader.
        """
        levels = []
        for level in range(len(self.levels)):
            goes = self._goes(level, reader, terms)
            made, read = (each.levels[level] for each in (self.of(made_as), reader.of(read_as)))
            both = {dim: (read.get(dim, ALL), made.get(dim, ALL)) for dim in made | read}
            levels.append({dim: np.where(goes, *shares) for dim, shares in both.items()})
        return replace(self, levels=tuple(levels))

    def _goes(self, level: int, reader: Layout, terms: Collection[str]) -> NDArray[np.bool_]:
        """Return for each device whether its group divides some dims, all of them terms, with all parts at work at both ends."""
        goes = np.zeros((self.places.devices, 1), bool)
        for group, parts in self.places.inside[level]:
            divided = {dim for dim, own in self.levels[level].items() if (own[group] != ALL).any()}
            works = all(self.working[part].any() and reader.working[part].any() for part in parts)
            goes[group] = bool(divided) and divided <= {*terms} and works
        return goes


@dataclass(frozen=True, eq=False)
class Grid(Layout):
    """The division of the loops of a layer, or of a tensor, by an array of identical devices, an axis a level.

    Below uneven splits the first axes are these, with the shares of all groups; what is below those of other groups is unknown, so
    that what their devices have together matters alone.

    Attributes:
        ways: the parts of each axis.
        levels: the shares of the parts of each axis, ``[ways, 2]``.
        working: as of all layouts, ``[*devices]``.
        own: the group of each split above that the devices are in.
        stops: for each split and each level the axis behind its last one.
    """

    ways: tuple[int, ...]
    own: tuple[int, ...]
    stops: tuple[int, ...]

    def copies(self, dims: tuple[str, ...] | None = None) -> Copies:
        """Return the last copy for every device that works: all copies are whole, and as many."""
        alike = [dims is not None and shares.keys().isdisjoint(dims) for shares in self.levels]
        parts = [int(self._at_work(level).sum()) for level in range(len(self.ways))]
        number = np.where(self.working, math.prod(compress(parts, alike)) - 1, -1)
        each = zip(alike, parts, strict=True)
        return Copies(number, tuple([1 if own else several for own, several in each]))

    def inside(self, amount: NDArray[T]) -> NDArray[T]:
        """Return an amount of each device on those of the group that the array is in."""
        each = zip(self.own, amount.shape, strict=False)
        return amount[tuple([slice(own, own + 1) if size > 1 else slice(None) for own, size in each])]

    def _along(self, level: int, shares: Shares) -> tuple[Shares, Shares]:
        along = [-1 if at == level else 1 for at in range(len(self.ways))]
        return shares[:, 0].reshape(along), shares[:, 1].reshape(along)

    def _at_work(self, level: int) -> NDArray[np.bool_]:
        others = tuple(at for at in range(len(self.ways)) if at != level)
        return np.broadcast_to(self.working.any(axis=others), self.ways[level])

    def _goes(self, level: int, reader: Layout, terms: Collection[str]) -> NDArray[np.bool_]:
        divided = {dim for dim, own in self.levels[level].items() if (own != ALL).any()}
        works = all(own._at_work(level).all() for own in (self, reader) if isinstance(own, Grid))
        return np.array([[bool(divided) and divided <= {*terms} and works]])


@lru_cache(maxsize=1024)
def places_of(array: tuple[int, ...]) -> Places:
    """Return the devices of an array."""
    return Places(tuple(own.reshape(-1) for own in np.indices(array)))


@lru_cache(maxsize=512)
def _copies(layout: Layout, dims: tuple[str, ...]) -> Copies:
    ranks = np.zeros((len(layout.levels), layout.places.devices), np.int64)
    share = np.where(layout.working, 1.0, 0.0)
    for level, shares in enumerate(layout.levels):
        own = np.reshape([shares[dim] for dim in sorted(shares) if dim in dims], (-1, len(share), 2))
        share *= (own[..., 1] - own[..., 0]).prod(axis=0)
        for _, parts in layout.places.inside[level]:
            seen: Counter[bytes] = Counter()
            for part in parts:
                if layout.working[part].any():
                    shards = own[:, part[0]].tobytes()
                    ranks[level, part] = seen[shards]
                    seen[shards] += 1
    _, copy = np.unique(ranks, axis=1, return_inverse=True)
    whole = np.isclose(np.bincount(copy.reshape(-1), share), 1.0)
    number = np.where(whole, np.cumsum(whole) - 1, -1)[copy.reshape(-1)]
    return Copies(np.where(layout.working, number, -1))
