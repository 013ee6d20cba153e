"""Who works on what: the devices of a plan, the shares of each dim that its levels leave each of them, and their pieces.

A piece is divided in the order of its indices, or in an order that keeps elements where they are: channels and samples
need not be consecutive, so a reader takes those that its maker's devices already have.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise, repeat
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import Members, by_content, key_of, kinds_of
from hypar.program.steps import Copies
from hypar.sharding.levels import TINY, whole_ends
from hypar.sharding.placement import Options, choice_of
from hypar.sharding.shares import ALL, PART, GroupShare, Shares, digits_of_each, given_in, laid, shares_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan

T = TypeVar("T", bound=np.generic)

Numbers = NDArray[np.int64]


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

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.places.devices

    @cached_property
    def content(self) -> object:
        """A key that layouts of the same shares have in common."""
        return self.places, key_of(tuple(tuple(own.items()) for own in self.levels)), key_of(self.working)

    @by_content
    def copies(self, dims: tuple[str, ...]) -> Copies:
        """Return which copy of its shards of some dims each device has.

        At every level the parts of a group that have the same shards are copies of one another. A copy at all levels is
        whole if its shards make up the dims; in a tree of unequal groups some are not. The devices of the first whole copy
        have 0, those of the next 1; idle devices and those of a copy that is not whole -1.
        """
        ranks = np.zeros((len(self.levels), self.places.devices), np.int64)
        share = np.where(self.working, 1.0, 0.0)
        for level, shares in enumerate(self.levels):
            own = np.reshape([shares[dim] for dim in sorted(shares) if dim in dims], (-1, len(share), 2))
            share *= (own[..., 1] - own[..., 0]).prod(axis=0)
            for _, parts in self.places.inside[level]:
                seen: Counter[bytes] = Counter()
                for part in parts:
                    if self.working[part].any():
                        shards = own[:, part[0]].tobytes()
                        ranks[level, part] = seen[shards]
                        seen[shards] += 1
        _, copy = np.unique(ranks, axis=1, return_inverse=True)
        whole = np.isclose(np.bincount(copy.reshape(-1), share), 1.0)
        number = np.where(whole, np.cumsum(whole) - 1, -1)[copy.reshape(-1)]
        return Copies(np.where(self.working, number, -1))

    def copy(self) -> Copies:
        """Return the copy of all devices that work."""
        return Copies(np.where(self.working, 0, -1))

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

    def pieces(self, size: int, dim: str, held: Sequence[Members]) -> Members:
        """Return the indices of a dim that each device gets; arguments as of ``divide``."""
        # Devices whose pieces were alike so far have one number: pieces depend on the levels that divide the dim alone.
        alike, pieces = np.where(self.working, 0, -1), [np.arange(size)]
        for level, shares in enumerate(self.levels):
            if dim in shares:
                groups = [group[alike[group] >= 0] for group, _ in self.places.inside[level]]
                after, below = np.full(len(alike), -1), list[NDArray[np.intp]]()
                for number, given in _sharing([own for own in groups if len(own)], alike, shares[dim]):
                    piece, ends = _shared(pieces[number], held, given)
                    for devices, (start, end) in zip(given.values(), ends, strict=True):
                        after[devices] = len(below)
                        below.append(np.sort(piece[start:end]))
                alike, pieces = after, below
        found = np.zeros((len(alike), size), bool)
        for number, piece in enumerate(pieces):
            found[np.ix_(np.flatnonzero(alike == number), piece)] = True
        return found


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

    def copies(self, dims: tuple[str, ...]) -> Copies:
        """Return the last copy for every device that works: all copies are whole, and as many."""
        alike = [shares.keys().isdisjoint(dims) for shares in self.levels]
        count = math.prod(int(self._at_work(level).sum()) for level, own in enumerate(alike) if own)
        parts = zip(alike, self.copy().parts, strict=True)
        return Copies(
            np.where(self.working, count - 1, -1), tuple([1 if own else several for own, several in parts])
        )

    def copy(self) -> Copies:
        """Return the copy of all devices that work."""
        parts = tuple([int(self._at_work(level).sum()) for level in range(len(self.ways))])
        return Copies(np.where(self.working, 0, -1), parts)

    def inside(self, amount: NDArray[T]) -> NDArray[T]:
        """Return an amount of each device on those of the group that the array is in."""
        each = zip(self.own, amount.shape, strict=False)
        return amount[tuple([slice(own, own + 1) if size > 1 else slice(None) for own, size in each])]

    def _at_work(self, level: int) -> NDArray[np.bool_]:
        others = tuple(at for at in range(len(self.ways)) if at != level)
        return np.broadcast_to(self.working.any(axis=others), self.ways[level])

    def _goes(self, level: int, reader: Layout, terms: Collection[str]) -> NDArray[np.bool_]:
        divided = {dim for dim, own in self.levels[level].items() if (own != ALL).any()}
        works = all(own._at_work(level).all() for own in (self, reader) if isinstance(own, Grid))
        return np.array([[bool(divided) and divided <= {*terms} and works]])

    def pieces(self, size: int, dim: str, held: Sequence[Members]) -> Members:
        """Return consecutive pieces, unless they are to be chosen among others: then those of the devices of the levels that matter."""
        own = self._in_order(size, dim)
        if all(each.all() or (own == each).all() for each in held):
            return own
        over = np.broadcast_shapes(self.working.shape, *[each.shape[:-1] for each in held])
        varies = [dim in shares or at > 1 for shares, at in zip(self.levels, over, strict=True)]
        ways = tuple(count if varied else 1 for count, varied in zip(self.ways, varies, strict=True))
        places = places_of(ways)
        levels = tuple(
            {dim: own[dim][part]} if dim in own else {}
            for own, part in zip(self.levels, places.parts, strict=True)
        )
        working = np.broadcast_to(self.working, ways).reshape(-1)
        tables = [np.broadcast_to(own, (*ways, own.shape[-1])).reshape(-1, own.shape[-1]) for own in held]
        return Layout(places, levels, working).pieces(size, dim, tables).reshape(*ways, size)

    def _in_order(self, size: int, dim: str) -> Members:
        start, end = np.zeros([1] * len(self.ways), np.int64), np.full([1] * len(self.ways), size)
        for level, shares in enumerate(self.levels):
            if dim in shares:
                along = [-1 if at == level else 1 for at in range(len(self.ways))]
                each = (np.floor((end - start) * share.reshape(along) + TINY) for share in shares[dim].T)
                start, end = (start + part.astype(np.int64) for part in each)
        at = np.arange(size)
        return (start[..., None] <= at) & (at < end[..., None]) & self.working[..., None]


@lru_cache(maxsize=4096)
def grid_of(digits: tuple[tuple[tuple[int, str], ...], ...], above: tuple[GroupShare, ...]) -> Grid:
    """Return the layout of a layer on an array.

    Args:
        digits: for each of its levels the ways of each digit, and what the layer divides there.
        above: its shares at the uneven splits above.
    """
    each = [*chain.from_iterable(digits)]
    array = (*(len(own.ends) for own in above), *(ways for ways, _ in each))
    parts = [
        *(own.of_groups for own in above),
        *(shares_of(choice_of(label, ways), ways) for ways, label in each),
    ]
    working = np.ones([1] * len(parts), bool)
    for level, (_, works) in enumerate(parts):
        if not works.all():
            working = working & works.reshape([-1 if at == level else 1 for at in range(len(parts))])
    stops, levels = accumulate((*[1] * len(above), *map(len, digits))), tuple(shares for shares, _ in parts)
    return Grid(places_of(array), levels, working, array, tuple(own.own for own in above), tuple(stops))


def grids(
    choices: Sequence[Options], above: Sequence[tuple[GroupShare, ...]], array: Sequence[int]
) -> list[Grid]:
    """Return the layouts of layers on an array, from their choices at each level and their shares at the uneven splits above."""
    each = [
        digits_of_each(tuple(dict.fromkeys(own)), ways)
        for own, ways in zip(zip(*choices, strict=True), array, strict=True)
    ]
    rows = (tuple([level[choice] for level, choice in zip(each, own, strict=True)]) for own in choices)
    # Layers without shares of their own, as those that nothing divides, have all below each split.
    none = tuple(own._replace(dim=None) for own in above[0]) if above else ()
    return [grid_of(row, own) for row, own in zip(rows, chain(map(tuple, above), repeat(none)), strict=False)]


@lru_cache(maxsize=1024)
def places_of(array: tuple[int, ...]) -> Places:
    """Return the devices of an array."""
    return Places(tuple(own.reshape(-1) for own in np.indices(array)))


def layouts_of(plan: Plan) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a plan and the layout of each of its layers.

    Pieces are laid digit by digit, transfers are counted level by level.
    """
    splits = given_in(plan.root)
    each = {name: laid(plan.root, name, splits) for name in plan.layers}
    levels, _ = next(iter(each.values()))
    digits, places = _places(levels), _places(laid(plan.root, "", {})[0])
    for own in (level for levels, _ in each.values() for level in levels):
        del own[PART]
    return places, {name: Layout(digits, tuple(own), working) for name, (own, working) in each.items()}


def _places(levels: Sequence[Mapping[str, Shares]]) -> Places:
    return Places(tuple(own[PART][:, 0].astype(np.int64) for own in levels))


@by_content
def divide(size: int, layout: Layout, dim: str, held: Sequence[Members] = ()) -> Members:
    """Return the indices of a dim that each device gets, ``[*devices, size]``; nothing for an idle one.

    Args:
        size: number of indices.
        layout: the layout of the layer.
        dim: the dim of the layer's op.
        held: the indices of some tensors that each device has already; the pieces are then chosen among them where
            shares allow. Nothing for pieces of consecutive indices.
    """
    return layout.pieces(size, dim, held)


def _sharing(
    groups: Sequence[Numbers], alike: Numbers, shares: Shares
) -> Iterator[tuple[int, dict[tuple[float, float], Numbers]]]:
    """Yield the devices of each share of a piece, the first share first, for all groups that share it alike together."""
    found: dict[tuple[int, tuple[tuple[float, float], ...]], list[Numbers]] = {}
    for group in groups:
        given = tuple(sorted({*map(tuple, shares[group].tolist())}))
        found.setdefault((int(alike[group[0]]), given), []).append(group)
    for (number, given), members in found.items():
        devices = np.concatenate(members)
        yield number, {share: devices[(shares[devices] == share).all(axis=1)] for share in given}


def _shared(
    piece: NDArray[np.intp], held: Sequence[Members], given: Mapping[tuple[float, float], Numbers]
) -> tuple[NDArray[np.intp], list[tuple[int, int]]]:
    """Return the indices of a piece in the order in which its shares stay where they are, with the ends of each share.

    Indices that the devices of the first share have of most tensors come first, those of the next one after them; where
    as many tensors speak for two shares, the first tensor decides. Indices that all have alike are mixed, so that each
    share has as many of every device's. Indices that none has fill up the shares that would else take those of others.
    """
    shares, ends = [*given.values()], whole_ends(len(piece), [*given])
    if not held:
        return piece, ends
    each = ([own[np.ix_(devices, piece)].any(axis=0) for devices in shares] for own in held)
    having = np.sum([(1 + 2.0**-number) * np.stack(own) for number, own in enumerate(each, start=1)], axis=0)
    first = np.where(having.any(axis=0), having.argmax(axis=0), len(shares))
    sizes = [end - start for start, end in ends]
    lacking = np.maximum(sizes - np.bincount(first, minlength=len(shares) + 1)[: len(shares)], 0)
    free, filled = np.flatnonzero(first == len(shares)), np.repeat(np.arange(len(shares)), lacking)
    first[free[: len(filled)]] = filled[: len(free)]
    working = np.concatenate(shares)
    _, kind, counts = kinds_of(np.concatenate([own[np.ix_(working, piece)] for own in held]))
    if len(counts) <= 1:
        return piece, ends
    order = np.argsort(kind, kind="stable")
    rank = np.empty(len(piece))
    rank[order] = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.lexsort((kind, (rank + 0.5) / counts[kind], first))
    return np.asarray(piece[order]), [*pairwise(accumulate(sizes, initial=0))]
