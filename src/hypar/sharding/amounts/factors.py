"""The factors of one level, and the collectives of its transfers.

The shards of a dim are intervals, as wide as the shares of the groups, in the order of the groups; windows read beyond their
shard. A group receives what it reads and does not have, so every amount is a product of widths and of intersections of
intervals. The factors of an even level are the sums over equal shares; those of a grid are the products of those of its digits,
of which each divides one dim, as if these were levels.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.amounts.between import Factors, mapped, names_at
from hypar.sharding.collectives import CODE, COLLECTIVES, manners_of, undivided
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, WHOLE, cut, digits_of, dim_of, layout, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hypar.ops.nest import Nest
    from hypar.ops.windows import Window
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.collectives import Codes
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Numbers, Options
    from hypar.solve.edge import Costs

Array = NDArray[np.float64]

Labels = tuple[str, ...]
"""What options divide by a digit: a dim, ``COPIES`` or ``IDLE``."""

TINY = 1e-9
"""Fraction of a row within which a bound counts as whole."""


class Offered(NamedTuple):
    """Options of a layer, each with shares.

    Attributes:
        options: the options, each of one dim at most.
        shares: the shares of the groups, ``[..., options, groups]``; 0 for a group that has nothing of the layer.
        made: whether an axis for the options of the consumer stands between these two.
    """

    options: Options
    shares: Array
    made: bool = False

    @classmethod
    def of(cls, taken: Iterable[tuple[Choice, tuple[float, ...]]]) -> Offered:
        """Return some choices with the shares of each."""
        options, shares = zip(*taken, strict=True)
        return cls(options, np.array(shares, dtype=np.float64))

    def cut(self, dims: Collection[str | None]) -> NDArray[np.bool_]:
        """Return whether each option divides one of some dims; None stands for no dim at all."""
        found = np.array([[dim_of(choice) in dims] for choice in self.options])
        return found[:, None] if self.made else found

    def share(self, dims: Collection[str | None]) -> Array:
        """Return the share of each group of what is divided by some dims."""
        return np.where(self.cut(dims), self.shares, 1.0)

    def working(self, *, apart: bool = False) -> Array:
        """Return 1 for each group that computes something of a layer.

        Where a level is counted by itself one without a share computes nothing of a layer that no option divides either.
        """
        whole = self.cut({None}) & (not apart)
        return np.where(whole | (self.shares > 0), 1.0, 0.0)


class Interval(NamedTuple):
    """The shards of a dim, as fractions of it."""

    low: Array
    high: Array

    @property
    def width(self) -> Array:
        """The width of each shard."""
        return np.asarray(self.high - self.low)

    def shared(self, other: Interval) -> Array:
        """Return the width of the intersection of each shard with another's."""
        return np.maximum(np.minimum(self.high, other.high) - np.maximum(self.low, other.low), 0.0)  # type: ignore[no-any-return]


def shards_of(shares: Array, cut: NDArray[np.bool_]) -> Interval:
    """Return the shards of a dim: as wide as the shares where an option divides it, else the whole."""
    high = np.cumsum(shares, axis=-1)
    return Interval(np.where(cut, high - shares, 0.0), np.where(cut, high, 1.0))


class Rows:
    """A dim of a tensor as the windows of its consumer read it: positions are fractions of the elements that are read.

    Where a level is counted by itself half of what two neighbours both read lies on each side of a border.
    """

    def __init__(self, nest: Nest, dim: str, cut: NDArray[np.bool_], *, apart: bool) -> None:
        """Read a dim of a layer, which some options divide."""
        self.cut, self.border = cut, windowed(nest).get(dim, 0.0) if apart else 0.0
        self.made: float = nest.sizes.get(dim, 0)
        self.size: float = nest.input_sizes.get(dim, 0)
        known = nest.windows.get(dim) if self.size > 0 and not apart else None
        self.gaps = known if known is not None and known.gaps else None
        self.reaches = known if self.gaps is None else None

    def at(self, place: Array) -> Array:
        """Return the fraction of the elements that are read before a position."""
        if self.gaps is None:
            return place
        return self._within(read_before(self.gaps, self.made, place * self.size + TINY))

    def _within(self, read: Array) -> Array:
        """Return as a fraction what windows read, of which the first elements are in their padding."""
        assert self.gaps is not None  # noqa: S101 (there are gaps)
        first, last = (read_before(self.gaps, self.made, place) for place in (0.0, self.size))
        return np.asarray(np.clip((read - first) / max(last - first, TINY), 0.0, 1.0))

    def read(self, shard: Interval) -> Interval:
        """Return what windows read to make the outputs of some shards."""
        low, high = shard
        if self.border:
            low, high = np.maximum(low - self.border / 2, 0.0), np.minimum(high + self.border / 2, 1.0)
        elif self.gaps is not None:
            low, high = (self._within(bound * self.made * self.gaps.extent) for bound in shard)
        elif self.reaches is not None:
            reads = self.reaches.reads(low * self.made, high * self.made)
            low, high = (np.clip(bound, 0.0, self.size) / self.size for bound in reads)
            low = np.where(shard.low <= TINY, 0.0, low)
            high = np.where(shard.high >= 1.0 - TINY, 1.0, np.maximum(high, low))
            high = np.where(shard.width <= 0, low, high)
        return Interval(np.where(self.cut, low, 0.0), np.where(self.cut, high, 1.0))

    def owned(self, shard: Interval, held: Interval, made_cut: NDArray[np.bool_]) -> Interval:
        """Return the rows of E that each shard adds up: of those that two read, the ones that it has, or up to the middle."""
        if self.reaches is None:
            return shard if self.border else self.read(shard)
        reads = self.reaches.reads(shard.high * self.made, shard.high * self.made)
        after, before = (np.clip(place, 0.0, self.size) for place in reads)
        middle = after + np.floor((before - after) / 2 + TINY)
        cut = np.where(made_cut, np.clip(held.high * self.size, after, np.maximum(before, after)), middle)
        cut = np.where(shard.high >= 1.0 - TINY, 1.0, np.clip(cut / self.size, 0.0, 1.0))
        first = np.zeros((*cut.shape[:-1], 1))
        low = np.concatenate([first, cut[..., :-1]], axis=-1)
        return Interval(np.where(self.cut, low, 0.0), np.where(self.cut, cut, 1.0))


def fractions_of(reader: Nest, between: Between, made: Offered, read: Offered) -> Factors:
    """Return the factors of each group, for each pair of options with their shares.

    Args:
        reader: the consumer, with the sizes that the splits above leave.
        between: the tensor's dims at both ends.
        made: the options of the producer.
        read: the options of the consumer.

    Returns:
        ``[..., options of producer, of consumer, groups]``: the fractions of one group each. Of E it owns a part of those of
        which it has a term, and of sums that ops between the layers take its share.
    """
    apart = between.apart
    made = Offered(made.options, made.shares[..., :, None, :], made=True)
    read = Offered(read.options, read.shares[..., None, :, :])
    mine, theirs = made.working(apart=apart), read.working(apart=apart)
    need, hold, kept, both, back = theirs, mine, mine, mine * theirs, mine * theirs
    straight = _straight(between, made, read)
    for own, other in names_at(between):
        made_cut, read_cut = made.cut({own} - {None}), read.cut({other} - {None})
        if not (made_cut.any() or read_cut.any()):
            continue
        held = made.shares
        if not (apart or own in SPATIAL or theirs.all()) and made_cut.any():
            # Groups that do not work for the consumer come behind the others; rows of an image stay consecutive.
            held = held * theirs
        shard, rows = shards_of(read.shares, read_cut), Rows(reader, other or "", read_cut, apart=apart)
        place, there = (
            Interval(rows.at(one.low), rows.at(one.high)) for one in (shards_of(held, made_cut), shard)
        )
        reads, summed = rows.read(shard), rows.owned(shard, place, made_cut)
        width = place.width if rows.gaps else np.where(made_cut, made.shares, 1.0)
        need, hold, kept = need * reads.width, hold * width, kept * np.where(straight, there.width, width)
        rests = Interval(*(np.where(straight, *bounds) for bounds in zip(there, place, strict=True)))
        both, back = both * rests.shared(reads), back * rests.shared(summed)
    terms = made.share({*between.makes}) * made.working()
    contracted = {op for op, dim in between.makes.items() if dim in between.contracted}
    return Factors(
        need=need,
        hold=hold,
        kept=kept,
        both=both,
        back=back,
        owned=both / np.maximum(both.sum(axis=-1, keepdims=True), 1.0),
        alone=kept * made.share(contracted),
        terms=terms,
        left=np.where(straight, kept, terms),
    )


def _straight(between: Between, made: Offered, read: Offered) -> NDArray[np.bool_]:
    """Return whether every group has terms of the whole F_out, so that its sum goes where the consumer divides it."""
    if not between.onward or made.shares.shape[-1] < 2:
        return np.zeros((1, 1, 1), bool)
    dims = {theirs for _, theirs in names_at(between)} - {"groups", None}
    summed = ~made.cut({*between.makes, None}) & made.working().all(axis=-1, keepdims=True)
    return np.asarray(summed & read.cut(dims) & read.working().all(axis=-1, keepdims=True))


@lru_cache(maxsize=4096)
def _of_digit(between: Between, ways: int, made: Labels, read: Labels) -> Factors:
    """Return the factors of a digit, for each pair of options: the sums over equal shares."""
    known, ends = tuple([tuple(dict.fromkeys(end)) for end in (made, read)]), (made, read)
    if known != ends:
        rows, columns = ([*map(of.index, end)] for of, end in zip(known, ends, strict=True))

        def taken(factor: Costs) -> Costs:
            factor = factor[rows] if len(factor) > 1 else factor
            return factor[:, :, columns] if factor.shape[2] > 1 else factor

        return mapped(taken, _of_digit(between, ways, *known))
    shares = {IDLE: (1.0, *(0.0,) * (ways - 1))}
    offered = [
        Offered.of(
            (WHOLE if label == COPIES else cut(label, ways), shares.get(label, (1 / ways,) * ways))
            for label in end
        )
        for end in ends
    ]
    return mapped(lambda own: own.sum(axis=-1)[:, None], fractions_of(between.read, between, *offered))


@lru_cache(maxsize=4096)
def _digits(options: tuple[Options, Options], ways: int) -> tuple[tuple[int, Labels, Labels], ...]:
    """Return the ways of each digit of a level, and what each option of both ends divides by it."""
    count, found = len(options[0]), digits_of([*options[0], *options[1]], ways)
    return tuple([(own, labels[:count], labels[count:]) for own, labels in found])


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Factors:
    """Return the factors of a level without halos."""
    # A level of one device has no digits.
    whole = Factors._make([np.ones((len(options[0]), 1, len(options[1])))] * len(Factors._fields))
    each = [_of_digit(between, *digit) for digit in _digits(options, ways)] or [whole]
    return reduce(lambda one, other: mapped(mul, one, other), each)


def factors_of(
    reader: Nest, between: Between, options: tuple[Options, Options], sizes: LocalSizes, ways: int
) -> Factors:
    """Return the factors of a level below the levels above, whose choices leave the consumer some sizes."""
    factors, dims = plain(between, options, ways), cut_windows(reader, options[1])
    if not dims:
        return factors
    need, both = factors.need, np.ones((1, 1, 1))
    for own, dim in names_at(between):
        if dim not in dims:
            continue
        # Digits by which the producer divides the dim as well bring it none of the rows beyond its shards.
        met, before, degrees = np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(len(options[1]), np.int64)
        for degree, made, read in _digits(options, ways):
            degrees = degrees * np.where(np.array(read) == dim, degree, 1)
            more = beyond(reader, dim, degrees, sizes, apart=between.apart)
            found = _of_digit(between, degree, made, read)
            lacks = (np.array(made) != own)[:, None, None] & (found.kept == found.hold)
            met, before = met + np.where(lacks, more - before, 0.0), more
        need, both = need * (1.0 + before), both * met
    owned = np.minimum(factors.owned * both, 1.0)
    return factors._replace(need=need, both=factors.both * both, owned=owned)


def factors_of_pair(
    reader: Nest, between: Between, pair: tuple[Choice, Choice], sizes: LocalSizes, ways: int
) -> Factors:
    """Return the factors of one pair of choices below one tuple as numbers."""
    found = factors_of(reader, between, ((pair[0],), (pair[1],)), sizes, ways)
    return Factors._make([factor.item() for factor in found])


@lru_cache(maxsize=4096)
def collectives_of(between: Between, options: tuple[Options, Options], ways: int, manner: str) -> Codes:
    """Return the collectives of a transfer at a level, as indices into ``COLLECTIVES``, on the axes of factors."""
    factors, names = plain(between, options, ways), names_at(between)
    made, read = layout(options[0], ways), layout(options[1], ways)
    straight = factors.kept != factors.hold
    if manner == "sums":
        return np.where(straight, CODE["reduce_scatter"], CODE["all_reduce"])
    forward, backward = (codes[:, None] for codes in manners_of(made, read, names))
    if manner == "forward":
        return np.where(straight, CODE["neighbours"], forward)
    if manner == "backward":
        return backward
    whole = undivided(made, [own for own, _ in names])[:, None, None] & ~straight
    added = np.where(whole, CODE["all_reduce"], CODE["reduce_scatter"])
    has_terms = np.asarray(terms(between.read, between.operand, read.chosen)) > 1
    return np.where(has_terms, added, np.where(straight, CODE["all_to_all"], backward))


def collective_of(between: Between, pair: tuple[Choice, Choice], ways: int, manner: str) -> str:
    """Return the name of the collective of one pair of choices."""
    return COLLECTIVES[collectives_of(between, ((pair[0],), (pair[1],)), ways, manner).item()]


@lru_cache(maxsize=4096)
def windowed(nest: Nest) -> Mapping[str, float]:
    """Return the dims of which neighbouring shards read the same rows, and the fraction of F_in that two of them share."""
    sizes = nest.input_sizes
    return {dim: own.halo / sizes[dim] for dim, own in nest.windows.items() if sizes[dim] and own.halo}


@lru_cache(maxsize=4096)
def cut_windows(nest: Nest, options: Options) -> tuple[str, ...]:
    """Return the dims of ``windowed`` that some option divides."""
    return tuple(dim for dim in windowed(nest) if any(choice.degree(dim) > 1 for choice in options))


def beyond(nest: Nest, dim: str, degrees: Numbers, sizes: LocalSizes, *, apart: bool) -> Costs:
    """Return how much more than its shards of a dim each option reads, ``[tuples above, options]``.

    Below other levels a group has border rows as well, but where each level is counted by itself.
    """
    left = sizes.of(dim)
    rest = left if apart else left * rows_read(windowed(nest)[dim], left)
    return np.asarray(halo(windowed(nest)[dim], degrees, rest[:, None]))


def rows_read(border: float, left: Costs) -> Costs:
    """Return the rows that all shards read together, as a multiple of the rows, for the fraction of each shard.

    Examples:
        >>> rows_read(0.0625, np.array([1.0, 0.5, 0.25])).tolist()
        [1.0, 1.0625, 1.1875]
    """
    return np.asarray(1.0 + halo(border, np.rint(1.0 / left), 1.0))


def halo(border: float, shards: Any, size: Any) -> Any:
    """Return the fraction of a group's F_in that its devices together read beyond their own shards.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to shards - 1 of min(i / shards, halo / 2))``.

    Args:
        border: the fraction of the whole F_in that the windows of two neighbouring shards both read.
        shards: the number of shards, or an array of numbers.
        size: the fraction of the dim that the levels above leave: a number, or an array over their choices.
    """
    fraction = np.minimum(border / size, 1.0)
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return short * (short + 1) / shards + (shards - 1 - short) * fraction


def read_before(window: Window, made: float, place: Any) -> Any:
    """Return the elements before a position that windows with gaps between them read, padding included."""
    number, within = np.divmod(place + window.padding, window.stride)
    return np.minimum(number * window.extent + np.minimum(within, window.extent), made * window.extent)


@lru_cache(maxsize=4096)
def fraction_read(nest: Nest) -> float:
    """Return the fraction of F_in that the windows of a layer read: below 1 if their stride leaves gaps.

    Examples:
        >>> from hypar import load_model
        >>> layer = next(one for one in load_model("resnet18").contracted.layers if one.name == "layer2.0.downsample.0")
        >>> fraction_read(layer.nest)
        0.25
    """
    found = 1.0
    for dim, window in nest.windows.items():
        size, made = nest.input_sizes[dim], nest.sizes[dim]
        if window.gaps and size and made != round(made):
            # An uneven split may leave a part of a row.
            found *= min(1.0, made * window.extent / size)
        elif window.gaps and size:
            first, last = (float(read_before(window, made, place)) for place in (0, size))
            found *= (last - first) / size
    return found
