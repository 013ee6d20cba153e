"""The fractions of a tensor that each group of an uneven split reads and has, for many options with shares at once.

The shards of a dim are intervals, as wide as the shares, in the order of the groups; windows read beyond their shard. A
group receives what it reads and does not have, so every amount is a product of widths and of intersections of intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.amounts.between import Factors, names_at
from hypar.sharding.amounts.rows import border_of
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import dim_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hypar.ops.nest import Nest
    from hypar.ops.windows import Window
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.placement import Choice, Options

Array = NDArray[np.float64]

TINY = 1e-9
"""Fraction of a row within which a bound counts as whole."""


class Offered(NamedTuple):
    """Options of a layer, each with shares.

    Attributes:
        options: the options, each of one dim at most.
        shares: the shares of the groups, ``[..., options, groups]``; 0 for a group that has nothing of the layer.
    """

    options: Options
    shares: Array

    @classmethod
    def of(cls, taken: Iterable[tuple[Choice, tuple[float, ...]]]) -> Offered:
        """Return some choices with the shares of each."""
        options, shares = zip(*taken, strict=True)
        return cls(options, np.array(shares, dtype=np.float64))


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
    mine, theirs = as_producer(working(made, apart=apart)), as_consumer(working(read, apart=apart))
    need, hold, core, both, back = theirs, mine, theirs, mine * theirs, mine * theirs
    scattered, returned = theirs, theirs
    for own, other in names_at(between):
        made_cut, read_cut = cut_by(made, {own} - {None}), cut_by(read, {other} - {None})
        if not (made_cut.any() or read_cut.any()):
            continue
        held = _held(made, made_cut, theirs, consecutive=apart or own in SPATIAL)
        shard = Interval(*map(as_consumer, shards_of(read, read_cut)))
        window = reader.windows.get(other or "") if read_cut.any() or reader.windows else None
        sizes = (reader.sizes[other], reader.input_sizes[other]) if window and other else (0, 0)
        border = border_of(reader, str(other)) if apart else None
        rows = Rows(window, sizes, as_consumer(read_cut), border)
        place, kept = (Interval(rows.at(one.low), rows.at(one.high)) for one in (held, shard))
        reads, summed = rows.read(shard), rows.owned(shard, place, as_producer(made_cut))
        width = as_producer(np.where(made_cut, made.shares, 1.0)) if not rows.gaps else place.width
        taken, has, returns = reads.width, place.shared(reads), place.shared(summed)
        if apart:
            # What a group lacks depends on its own share alone, whatever those of the others add up to.
            share = as_consumer(np.where(read_cut, read.shares, 1.0))
            taken, same = share + (reads.width - shard.width), as_producer(made_cut) & as_consumer(read_cut)
            has, returns = np.where(same, has, width * taken), np.where(same, returns, width * share)
        need, hold, core = need * taken, hold * width, core * kept.width
        both, back = both * has, back * returns
        scattered, returned = scattered * kept.shared(reads), returned * kept.shared(summed)
    straight, terms = _straight(between, made, read), as_producer(_terms(between, made))
    keeps, shared = np.where(straight, core, hold), np.where(straight, scattered, both)
    contracted = {op for op, dim in between.makes.items() if dim in between.contracted}
    # All terms together are the sum, whatever the shares add up to.
    share = np.where(cut_by(made, contracted), made.shares / made.shares.sum(axis=-1, keepdims=True), 1.0)
    return Factors(
        need=need,
        hold=hold,
        kept=keeps,
        both=shared,
        back=np.where(straight, returned, back),
        owned=shared / np.maximum(shared.sum(axis=-1, keepdims=True), 1.0),
        alone=keeps * as_producer(share),
        terms=terms,
        left=np.where(straight, core, terms),
    )


def _held(made: Offered, cut: NDArray[np.bool_], readers: Array, *, consecutive: bool) -> Interval:
    """Return the shards that the producer leaves: those of groups that do not work for the consumer behind the others.

    Rows of an image stay consecutive.
    """
    if consecutive or readers.all() or not cut.any():
        return Interval(*map(as_producer, shards_of(made, cut)))
    shares, own = as_producer(made.shares) * readers, as_producer(cut)
    high = np.cumsum(shares, axis=-1)
    return Interval(np.where(own, high - shares, 0.0), np.where(own, high, 1.0))


def as_producer(found: NDArray[Any]) -> NDArray[Any]:
    """Return an array over a producer's options with an axis for its consumer's options."""
    return found[..., :, None, :]


def as_consumer(found: NDArray[Any]) -> NDArray[Any]:
    """Return an array over a consumer's options with an axis for its producer's options."""
    return found[..., None, :, :]


def cut_by(offered: Offered, dims: Collection[str | None]) -> NDArray[np.bool_]:
    """Return whether each option divides one of some dims; None stands for no dim at all, ``[options, 1]``."""
    return np.array([[dim_of(choice) in dims] for choice in offered.options])


def working(offered: Offered, *, apart: bool = False) -> Array:
    """Return 1 for each group that computes something of a layer, ``[..., options, groups]``.

    Where a level is counted by itself one without a share computes nothing of a layer that no option divides either.
    """
    whole = cut_by(offered, {None}) & (not apart)
    return np.where(whole | (offered.shares > 0), 1.0, 0.0)


def shards_of(offered: Offered, cut: NDArray[np.bool_]) -> Interval:
    """Return the shards of a dim: as wide as the shares where an option divides it, else the whole."""
    high = np.cumsum(offered.shares, axis=-1)
    return Interval(np.where(cut, high - offered.shares, 0.0), np.where(cut, high, 1.0))


def _straight(between: Between, made: Offered, read: Offered) -> NDArray[np.bool_]:
    """Return whether every group has terms of the whole F_out, so that its sum goes where the consumer divides it."""
    if not between.onward or made.shares.shape[-1] < 2:
        return np.zeros((1, 1, 1), bool)
    dims = {theirs for _, theirs in names_at(between)} - {"groups", None}
    summed = ~cut_by(made, {*between.makes, None}) & working(made).all(axis=-1, keepdims=True)
    divides = cut_by(read, dims) & working(read).all(axis=-1, keepdims=True)
    return np.asarray(as_producer(summed) & as_consumer(divides))


def _terms(between: Between, made: Offered) -> Array:
    """Return the fraction of F_out of which each group has terms, ``[..., options, groups]``."""
    return np.where(cut_by(made, {*between.makes}), made.shares, 1.0) * working(made)


class Rows:
    """A dim of a tensor as the windows of its consumer read it: positions are fractions of the elements that are read.

    With a ``border``, the fraction that two neighbours both read, half of it lies on each side of each.
    """

    def __init__(
        self,
        window: Window | None,
        sizes: tuple[float, float],
        cut: NDArray[np.bool_],
        border: float | None = None,
    ) -> None:
        self.window = window
        self.made, self.size = sizes
        self.cut, self.border = cut, border
        known = window is not None and border is None and self.size > 0
        self.gaps = known and window is not None and window.gaps
        self.reaches = known and not self.gaps

    def at(self, place: Array) -> Array:
        """Return the fraction of the elements that are read before a position."""
        if not self.gaps or self.window is None:
            return place
        window, ends = self.window, self._ends()
        number, within = np.divmod(place * self.size + window.padding + TINY, window.stride)
        return _within(number * window.extent + np.minimum(within, window.extent), ends)

    def read(self, shard: Interval) -> Interval:
        """Return what windows read to make the outputs of some shards."""
        if self.border:
            low, high = shard.low - self.border / 2, shard.high + self.border / 2
            high = np.minimum(high, shard.high[..., -1:])
            return Interval(np.where(self.cut, np.maximum(low, 0.0), 0.0), np.where(self.cut, high, 1.0))
        if self.gaps and self.window is not None:
            low, high = (_within(bound * self.made * self.window.extent, self._ends()) for bound in shard)
            return Interval(np.where(self.cut, low, 0.0), np.where(self.cut, high, 1.0))
        if not self.reaches or self.window is None:
            return shard
        low, high = self.window.reads(shard.low * self.made, shard.high * self.made)
        low, high = np.clip(low, 0.0, self.size) / self.size, np.clip(high, 0.0, self.size) / self.size
        low = np.where(shard.low <= TINY, 0.0, low)
        high = np.where(shard.high >= 1.0 - TINY, 1.0, np.maximum(high, low))
        empty = shard.width <= 0
        return Interval(np.where(self.cut, low, 0.0), np.where(self.cut, np.where(empty, low, high), 1.0))

    def owned(self, shard: Interval, held: Interval, made_cut: NDArray[np.bool_]) -> Interval:
        """Return the rows of E that each shard adds up: of those that two read, the ones that it has, or up to the middle."""
        if not self.reaches or self.window is None:
            return shard if self.border else self.read(shard)
        window = self.window
        after, before = window.reads(shard.high * self.made, shard.high * self.made)
        after, before = (np.clip(place, 0.0, self.size) for place in (after, before))
        middle = after + np.floor((before - after) / 2 + TINY)
        cut = np.where(made_cut, np.clip(held.high * self.size, after, np.maximum(before, after)), middle)
        cut = np.where(shard.high >= 1.0 - TINY, 1.0, np.clip(cut / self.size, 0.0, 1.0))
        first = np.zeros((*cut.shape[:-1], 1))
        low = np.concatenate([first, cut[..., :-1]], axis=-1)
        return Interval(np.where(self.cut, low, 0.0), np.where(self.cut, cut, 1.0))

    def _ends(self) -> tuple[float, float]:
        """Return the elements that windows read before the first row, in their padding, and before the last one."""
        assert self.window is not None  # noqa: S101 (there are gaps)
        window = self.window
        found = []
        for place in (0.0, self.size):
            number, within = divmod(place + window.padding, window.stride)
            found.append(min(number * window.extent + min(within, window.extent), self.made * window.extent))
        return found[0], found[1]


def _within(places: Array, ends: tuple[float, float]) -> Array:
    """Return places as fractions of the way from one end to the other."""
    return np.clip((places - ends[0]) / max(ends[1] - ends[0], TINY), 0.0, 1.0)
