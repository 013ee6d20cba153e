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
from hypar.sharding.amounts.windows import UNCUT, Cuts, Digit, Digits, Image, Shares, change, image_of, ratios
from hypar.sharding.collectives import CODE, COLLECTIVES, manners_of, undivided
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, digits_of, dim_of, layout, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
    """

    options: Options
    shares: Array

    @classmethod
    def of(cls, taken: Iterable[Taken]) -> Offered:
        """Return some choices with the shares of each."""
        options, shares = zip(*taken, strict=True)
        return cls(options, np.array(shares, dtype=np.float64))

    @property
    def labels(self) -> Labels:
        """What each option divides: a dim, or ``COPIES``."""
        return tuple([dim_of(choice) or COPIES for choice in self.options])

    def cut(self, dims: Collection[str]) -> NDArray[np.bool_]:
        """Return whether each option divides one of some dims, or makes copies, if these are among them, ``[options, 1]``."""
        return np.array([[label in dims] for label in self.labels])


def working(label: str, shares: Array, *, apart: bool = False) -> Array:
    """Return 1 for each group that computes something of a layer.

    Where a level is counted by itself one without a share computes nothing of a layer that no option divides either.
    """
    return np.where((label == COPIES and not apart) | (shares > 0), 1.0, 0.0)


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
        ``[..., options of producer, of consumer, groups]``: the fractions of one group each.
    """
    borders = {} if reader is None else windowed(reader)
    every = [
        _of_split(
            between,
            (mine, theirs),
            (made.shares[..., at, :], read.shares[..., to, :]),
            above,
            borders.get(theirs, 0.0) / 2,
        )
        for at, mine in enumerate(made.labels)
        for to, theirs in enumerate(read.labels)
    ]
    shape = (*made.shares.shape[:-2], len(made.options), len(read.options), made.shares.shape[-1])
    return mapped(lambda *own: np.stack(own, axis=-2).reshape(shape), *every)


def _of_split(
    between: Between, labels: tuple[str, str], shares: tuple[Array, Array], above: Above, border: float = 0.0
) -> Factors:
    """Return the fractions that each group has by what both ends divide, ``[..., groups]``.

    Of E a group owns a part of those of which it has a term, and of sums that ops between the layers take its share.
    """
    made, read = labels
    makes, reads = named(between)
    (held, needed), apart = shares, between.apart
    works = [working(*own, apart=apart) for own in zip(labels, shares, strict=True)]
    high = np.cumsum(needed, axis=-1)
    wide = np.minimum(high + border, 1.0) - np.maximum(high - needed - border, 0.0)
    hold = held if made in makes else works[0]
    need, inside = (wide, needed) if read in reads else (works[1], works[1])
    both, back = hold * need, hold * inside
    if read in reads and makes.get(made) == reads[read]:
        # Groups that do not work for the consumer come behind the others; rows of an image stay consecutive.
        mine = held if apart or made in SPATIAL else held * works[1]
        end = np.cumsum(mine, axis=-1)
        both, back = (
            np.maximum(np.minimum(end, high + own) - np.maximum(end - mine, high - needed - own), 0.0)
            for own in (border, 0.0)
        )
    kept, terms = hold, held * works[0] if made in between.makes else working(made, held)
    left = terms
    if _straight(between, made, read) and needed.shape[-1] > 1:
        straight = np.logical_and(*works).all(axis=-1, keepdims=True)
        kept, both, back, left = (np.where(straight, inside, own) for own in (kept, both, back, left))
    gone = {op for op, dim in between.makes.items() if dim in between.contracted}
    found = Factors(
        need=need,
        hold=hold,
        kept=kept,
        both=both,
        back=back,
        owned=both / np.maximum(both.sum(axis=-1, keepdims=True), 1.0),
        alone=kept * held if made in gone else kept,
        terms=terms,
        left=left,
        placed=np.full_like(terms, 1 / terms.shape[-1]),
        met=left,
        added=need,
    )
    return _with_rows(found, between, labels, shares, above) if above.image else found


def _with_rows(
    factors: Factors, between: Between, labels: tuple[str, str], shares: tuple[Array, Array], above: Above
) -> Factors:
    """Return the factors of groups with the rows that these read and hold, where the image is divided."""
    names, groups = _in_image(between, *labels), shares[0].shape[-1]
    if names is None:
        return factors
    each = {name: own.copy() for name, own in factors._asdict().items()}
    even, before = (
        _of_digit(between, groups, *[(label,) for label in labels]),
        ratios(above.image, above.digits),
    )
    for lead in np.ndindex(shares[0].shape[:-1]):
        digit = digit_of(between, labels, [tuple(own[lead].tolist()) for own in shares])
        for group, part in enumerate(digit.parts if digit else ()):
            ratio = change(before, ratios(above.image, (*above.digits, part)))
            for name in Factors._fields:
                if name not in {"terms", "left"} and (
                    name not in {"placed", "met"} or {names[0], names[2]} & {*SPATIAL}
                ):
                    each[name][(*lead, group)] = getattr(even, name).item() / groups * getattr(ratio, name)
    return Factors(**each)


@lru_cache(maxsize=4096)
def _straight(between: Between, made: str, read: str) -> bool:
    """Return whether every group has terms of the whole F_out, so that its sum goes where the consumer divides it."""
    summed = between.onward and made not in {*between.makes, COPIES, IDLE}
    return summed and read in {*named(between)[1]} - {"groups"}


@lru_cache(maxsize=4096)
def named(between: Between) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the dims of producer and consumer with their names in the tensor; of those that ops on the way sum none is left."""
    dims = ("batch", *between.dims, IN_GROUP)
    ends = zip(*names_at(between), strict=True)
    makes, reads = ({own: dim for own, dim in zip(end, dims, strict=True) if own} for end in ends)
    return makes, reads


@lru_cache(maxsize=4096)
def _in_image(between: Between, made: str, read: str) -> tuple[str, str, str | None] | None:
    """Return the names in an image of what both ends divide by a digit, and of terms that go on; None if neither divides the image."""
    known = zip((made, read), named(between), strict=True)
    terms, there = (
        label if label == IDLE else COPIES if label not in of else of[label] if of[label] in SPATIAL else ""
        for label, of in known
    )
    lies = there if _straight(between, made, read) else terms
    return None if {*SPATIAL}.isdisjoint((lies, there)) else (lies, there, terms if between.onward else None)


def digit_of(between: Between, labels: Sequence[str], shares: Sequence[Shares]) -> Digit | None:
    """Return what a split divides of an image; None for nothing."""
    names, (made, read), ways = _in_image(between, *labels), labels, len(shares[0])
    held, needed = (
        (1 / ways,) * ways if label == COPIES else own for label, own in zip(labels, shares, strict=True)
    )
    lies = needed if _straight(between, made, read) else held
    return names and Digit(ways, *names, (lies, needed))


@lru_cache(maxsize=4096)
def of_input(nest: Nest) -> Between:
    """Return the input of a layer, without sizes, as a tensor of which every device has a copy."""
    return Between(nest.unsized, nest.unsized, tuple(nest.input_sizes), frozenset())


@lru_cache(maxsize=4096)
def input_of(nest: Nest) -> Above:
    """Return what there is of the input of a layer above all levels, as the same tensor."""
    return Above(image=image_of(nest, "input", tuple(nest.input_sizes.items())))


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
    first, equal = np.where(np.arange(ways) == 0, 1.0, 0.0), np.full(ways, 1 / ways)
    every = [
        _of_split(
            between, pair, (first if pair[0] == IDLE else equal, first if pair[1] == IDLE else equal), Above()
        )
        for pair in product(made, read)
    ]

    def summed(*own: Array) -> Costs:
        found: Costs = np.sum(own, axis=-1).reshape(len(made), 1, len(read))
        found = found[:1] if (found == found[:1]).all() else found
        return found[:, :, :1] if (found == found[:, :, :1]).all() else found

    return mapped(summed, *every)


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
    return mapped(mul, factors, change(above.counts, below.counts)), below


@lru_cache(maxsize=4096)
def _image_digits(
    between: Between, options: tuple[Options, Options], ways: int
) -> list[tuple[Digits, NDArray[np.int64]]]:
    """Return what pairs of options divide of an image by each digit, and which of these each pair does, ``[made, 1, read]``."""
    found = []
    for own, made, read in _digits(options, ways):
        kinds = {Digit(own, "", ""): 0}
        each = [[*dict.fromkeys(end)] for end in (made, read)]
        table = np.empty([*map(len, each)], np.int64)
        for place in np.ndindex(table.shape):
            names = _in_image(between, *[end[at] for end, at in zip(each, place, strict=True)])
            digit = Digit(own, *(names or ("", "")))
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
    factors, cuts = factors_of(between, ((pair[0],), (pair[1],)), ways, Cuts.of(image, digits))
    divided = tuple([every[own] for every, own in zip(cuts.digits, cuts.ways[0].tolist(), strict=True)])
    return mapped(lambda factor: factor.item(), factors), tuple(
        [own for own in divided if own.made or own.read]
    )


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
