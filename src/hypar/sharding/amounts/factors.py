"""The factors of one level, and the collectives of its transfers.

The shards of a dim are intervals, as wide as the shares of the groups, in the order of the groups; windows read beyond their
shard. A group receives what it reads and does not have, so every amount is a product of widths and of intersections of
intervals. The factors of an even level are the sums over equal shares; those of a grid are the products of those of its digits,
of which each divides one dim, as if these were levels.
"""

from __future__ import annotations

import operator
from functools import lru_cache, reduce
from itertools import product
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.ops.nest import IN_GROUP
from hypar.sharding.amounts.between import OUTERMOST, Between, Factors, Products, mapped, names_at, times
from hypar.sharding.amounts.windows import UNCUT, Cuts, Digit, Digits, Image, Shares, change, ratios
from hypar.sharding.collectives import CODE, COLLECTIVES, manners_of, undivided
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, WHOLE, cut, digits_of, dim_of, layout, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from hypar.ops.nest import Nest
    from hypar.sharding.collectives import Codes
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs

Array = NDArray[np.float64]

Taken = tuple["Choice", Shares]
"""The choice of a layer, with the shares of all groups that work."""

Labels = tuple[str, ...]
"""What options divide by a digit: a dim, ``COPIES`` or ``IDLE``."""

RATIOS = {
    "need": "need",
    "hold": "hold",
    "kept": "hold",
    "alone": "hold",
    "both": "both",
    "back": "back",
    "owned": "owned",
    "placed": "placed",
    "met": "met",
}
"""The count of an image in which each factor of E and of F is told."""


class Above(NamedTuple):
    """What the levels above leave of a tensor.

    Attributes:
        products: the products of their factors.
        image: the image that it is, if it is one.
        digits: what they divide of it.
    """

    products: Products = OUTERMOST
    image: Image = ()
    digits: Digits = ()

    def below(self, between: Between, pair: tuple[Choice, Choice], ways: int) -> tuple[Factors, Above]:
        """Return the factors of a level for a pair of choices, as numbers, and what is left below it."""
        factors, digits = _of_pair(between, pair, ways, self.image, self.digits)
        return factors, Above(times(self.products, factors), self.image, digits)


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


def fractions_of(
    between: Between, made: Offered, read: Offered, above: Above, reader: Nest | None = None
) -> Factors:
    """Return the factors of each group, for each pair of options with their shares.

    Args:
        between: the tensor's dims at both ends.
        made: the options of the producer.
        read: the options of the consumer.
        above: what the levels above leave of the tensor.
        reader: the consumer, where a level is counted by itself: half of what two neighbours both read lies on each side of a border.

    Returns:
        ``[..., options of producer, of consumer, groups]``: the fractions of one group each. Of E it owns a part of those of
        which it has a term, and of sums that ops between the layers take its share.
    """
    apart = between.apart
    ends, one = (made, read), made.shares.shape[-1] < 2
    made = Offered(made.options, made.shares[..., :, None, :], made=True)
    read = Offered(read.options, read.shares[..., None, :, :])
    mine, theirs = made.working(apart=apart), read.working(apart=apart)
    need, hold, kept, both = theirs, mine, mine, mine * theirs
    labels = [[dim_of(choice) or COPIES for choice in own.options] for own in ends]
    straight = np.array(
        [[not one and _straight(between, *pair) for pair in product([own], labels[1])] for own in labels[0]]
    )
    straight = straight[..., None] & (mine * theirs).all(axis=-1, keepdims=True)
    back = both
    for own, other in names_at(between):
        made_cut, read_cut = made.cut({own} - {None}), read.cut({other} - {None})
        if not (made_cut.any() or read_cut.any()):
            continue
        held = made.shares
        if not (apart or own in SPATIAL or theirs.all()) and made_cut.any():
            # Groups that do not work for the consumer come behind the others; rows of an image stay consecutive.
            held = held * theirs
        there, place = shards_of(read.shares, read_cut), shards_of(held, made_cut)
        border = windowed(reader).get(other or "", 0.0) / 2 if reader is not None else 0.0
        reads = Interval(np.maximum(there.low - border, 0.0), np.minimum(there.high + border, 1.0))
        width = np.where(made_cut, made.shares, 1.0)
        need, hold = need * reads.width, hold * width
        kept = kept * np.where(straight, there.width, width)
        rests = Interval(*(np.where(straight, *bounds) for bounds in zip(there, place, strict=True)))
        both, back = both * rests.shared(reads), back * rests.shared(there)
    terms = made.share({*between.makes}) * made.working()
    contracted = {op for op, dim in between.makes.items() if dim in between.contracted}
    found = Factors(
        need=need,
        hold=hold,
        kept=kept,
        both=both,
        back=back,
        owned=both / np.maximum(both.sum(axis=-1, keepdims=True), 1.0),
        alone=kept * made.share(contracted),
        terms=terms,
        left=np.where(straight, kept, terms),
        placed=np.ones_like(terms) / terms.shape[-1],
        met=np.where(straight, kept, terms),
    )
    return _with_rows(found, between, ends, above) if above.image else found


def _with_rows(factors: Factors, between: Between, ends: tuple[Offered, Offered], above: Above) -> Factors:
    """Return the factors of groups with the rows that these read and hold where an option divides an image."""
    shape, groups = factors.both.shape, factors.both.shape[-1]
    each = {name: np.broadcast_to(getattr(factors, name), shape).copy() for name in RATIOS}
    before, ((made, held), (read, needed)) = ratios(above.image, above.digits), [own[:2] for own in ends]
    for *lead, one, other in np.ndindex(shape[:-1]):
        pair = (
            (made[one], tuple(held[(*lead, one)].tolist())),
            (read[other], tuple(needed[(*lead, other)].tolist())),
        )
        digit, labels = digit_of(between, *pair), [(dim_of(choice) or COPIES,) for choice, _ in pair]
        for group, part in enumerate(digit.parts if digit else ()):
            own = ratios(above.image, (*above.digits, part))
            even, ratio = _of_digit(between, groups, *labels), change(before, own)
            for name, count in RATIOS.items():
                number = getattr(even, name).item() / groups * getattr(ratio, count)
                each[name][(*lead, one, other, group)] = number
    return factors._replace(**each)


@lru_cache(maxsize=4096)
def _straight(between: Between, made: str, read: str) -> bool:
    """Return whether every group has terms of the whole F_out, so that its sum goes where the consumer divides it."""
    summed = between.onward and made not in {*between.makes, COPIES, IDLE}
    return summed and read in {theirs for _, theirs in names_at(between)} - {"groups", None}


@lru_cache(maxsize=4096)
def _in_image(between: Between, made: str, read: str) -> tuple[str, str, str | None] | None:
    """Return the names in an image of what both ends divide by a digit, and of terms that go on; None if neither divides the image."""
    makes, reads = {IDLE: IDLE}, {IDLE: IDLE}
    for dim, (own, theirs) in zip(("batch", *between.dims, IN_GROUP), names_at(between), strict=True):
        makes[own or ""], reads[theirs or ""] = (dim if dim in SPATIAL else "",) * 2
    there, terms = reads.get(read, COPIES), makes.get(made, COPIES)
    lies = there if _straight(between, made, read) else terms
    return None if {*SPATIAL}.isdisjoint((lies, there)) else (lies, there, terms if between.onward else None)


def digit_of(between: Between, made: Taken, read: Taken) -> Digit | None:
    """Return what a split divides of an image; None for nothing."""
    labels, equal = (
        [dim_of(choice) or COPIES for choice, _ in (made, read)],
        (1 / len(read[1]),) * len(read[1]),
    )
    names = _in_image(between, *labels)
    if names is None:
        return None
    held, needed = (
        equal if label == COPIES else own[1] for label, own in zip(labels, (made, read), strict=True)
    )
    return Digit(*names[:2], (needed if _straight(between, *labels) else held, needed), None, names[2])


@lru_cache(maxsize=4096)
def of_input(nest: Nest) -> Between:
    """Return the input of a layer, without sizes, as a tensor of which every device has a copy."""
    return Between(nest.unsized, nest.unsized, tuple(nest.input_sizes), frozenset())


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
    return mapped(
        lambda own: own.sum(axis=-1)[:, None], fractions_of(between, offered[0], offered[1], Above())
    )


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
    between: Between,
    options: tuple[Options, Options],
    ways: int,
    above: Cuts = UNCUT,
    spread: Callable[[Any], Any] = lambda own: own,
) -> tuple[Factors, Cuts]:
    """Return the factors of a level, with the cuts of the image below it.

    Args:
        between: the tensor's dims at both ends.
        options: the options of producer and consumer.
        ways: the ways of the level.
        above: the cuts above the level.
        spread: returns an array over pairs of options for each pair of tuples.
    """
    factors, below = mapped(spread, plain(between, options, ways)), above
    for every, which in _image_digits(between, options, ways) if above.image else ():
        below = below.below(every, spread(which))
    if below is above:
        return factors, above
    ratio = change(above.counts, below.counts)
    found = {name: getattr(factors, name) * getattr(ratio, count) for name, count in RATIOS.items()}
    return factors._replace(**found), below


@lru_cache(maxsize=4096)
def _image_digits(
    between: Between, options: tuple[Options, Options], ways: int
) -> list[tuple[tuple[Digit | None, ...], NDArray[np.int64]]]:
    """Return what pairs of options divide of an image by each digit, and which of these each pair does, ``[made, 1, read]``."""
    found = []
    for own, made, read in _digits(options, ways):
        kinds: dict[Digit | None, int] = {None: 0}
        each = [[*dict.fromkeys(end)] for end in (made, read)]
        table = np.empty([*map(len, each)], np.int64)
        for place in np.ndindex(table.shape):
            names = _in_image(between, *[end[at] for end, at in zip(each, place, strict=True)])
            digit = names and Digit.even(own, *names)
            table[place] = kinds.setdefault(digit, len(kinds))
        rows, columns = ([*map(of.index, end)] for of, end in zip(each, (made, read), strict=True))
        if len(kinds) > 1:
            found.append((tuple(kinds), table[np.ix_(rows, columns)][:, None]))
    return found


def divides_image(between: Between, options: tuple[Options, Options], ways: int, image: Image) -> Any:
    """Return which pairs of options divide an image at either end, ``[made, 1, read]``."""
    digits = _image_digits(between, options, ways) if image else ()
    return reduce(operator.or_, (which > 0 for _, which in digits), np.zeros((1, 1, 1), bool))


@lru_cache(maxsize=2**16)
def _of_pair(
    between: Between, pair: tuple[Choice, Choice], ways: int, image: Image, digits: Digits
) -> tuple[Factors, Digits]:
    factors, cuts = factors_of(between, ((pair[0],), (pair[1],)), ways, Cuts(image, (digits,)))
    return Factors._make([factor.item() for factor in factors]), cuts.digits[0]


def apart_of(
    reader: Nest, between: Between, options: tuple[Options, Options], sizes: LocalSizes, ways: int
) -> Factors:
    """Return the factors of a level that is counted by itself, whose choices above leave the consumer some sizes."""
    factors, borders = plain(between, options, ways), windowed(reader)
    need, both = factors.need, np.ones((1, 1, 1))
    for own, dim in names_at(between):
        if dim is None or dim not in borders or not any(choice.degree(dim) > 1 for choice in options[1]):
            continue
        # Digits by which the producer divides the dim as well bring it none of the rows beyond its shards.
        met, before, degrees = np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(len(options[1]), np.int64)
        for degree, made, read in _digits(options, ways):
            degrees = degrees * np.where(np.array(read) == dim, degree, 1)
            more = halo(borders[dim], degrees, sizes.of(dim)[:, None])
            found = _of_digit(between, degree, made, read)
            lacks = (np.array(made) != own)[:, None, None] & (found.kept == found.hold)
            met, before = met + np.where(lacks, more - before, 0.0), more
        need, both = need * (1.0 + before), both * met
    owned = np.minimum(factors.owned * both, 1.0)
    return factors._replace(need=need, both=factors.both * both, owned=owned)


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
