"""The factors of one level, and the collectives of its transfers.

The shards of a dim are intervals, as wide as the shares of the groups, in the order of the groups; windows read beyond their
shard. A group receives what it reads and does not have, so every amount is a product of widths and of intersections of
intervals. The factors of an even level are the sums over equal shares; those of a grid are the products of those of its digits,
of which each divides one dim, as if these were levels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache, reduce
from itertools import product
from operator import and_, mul, or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.ops.nest import IN_GROUP, Nest
from hypar.sharding.amounts.cuts import Above, Cuts, Digit, Digits, Shares, change, ratios, unequal
from hypar.sharding.amounts.transfers import Between, Factors, Sums, fraction_read, image_of, mapped, names_at
from hypar.sharding.conventions import CODE, COLLECTIVES, Codes
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import COPIES, IDLE, Choice, LocalSizes, Options, digits_of, layout, terms
from hypar.solve.edge import Costs

Taken = tuple["Choice", Shares]
"""The choice of a layer, with the shares of all groups that work."""

Labels = tuple[str, ...]
"""What options divide by a digit: a dim, ``COPIES`` or ``IDLE``."""


class Offered(NamedTuple):
    """Options of a layer, each with shares.

    Attributes:
        options: the options, each of one dim at most.
        shares: the shares of the groups, ``[..., options, groups]``; 0 for a group that has nothing of the layer.
    """

    options: Options
    shares: Costs

    @classmethod
    def of(cls, taken: Iterable[Taken]) -> Offered:
        """Return some choices with the shares of each."""
        options, shares = zip(*taken, strict=True)
        return cls(options, np.array(shares, dtype=np.float64))

    @property
    def labels(self) -> Labels:
        """What each option divides: a dim, or ``COPIES``."""
        return tuple([next(iter(choice.divided), COPIES) for choice in self.options])

    def cut(self, dims: Collection[str]) -> NDArray[np.bool_]:
        """Return whether each option divides one of some dims, or makes copies, if these are among them, ``[options, 1]``."""
        return np.array([[label in dims] for label in self.labels])


def at_work(whole: bool | NDArray[np.bool_], shares: Costs, *, apart: bool = False) -> Costs:
    """Return 1 for each group that computes something of a layer, of which all have the whole, or shares.

    Where a level is counted by itself one without a share computes nothing of a layer that no option divides either.
    """
    return np.where((whole & (not apart)) | (shares > 0), 1.0, 0.0)


def fractions_of(between: Between, made: Offered, read: Offered, above: Above) -> Factors:
    """Return the factors of each group, for each pair of options with their shares, given what the levels above leave of the tensor.

    Where a level is counted by itself half of what two neighbours both read lies on each side of a border. The fractions of one group each
    are ``[..., options of producer, of consumer, groups]``.
    """
    borders, every = dict(between.borders), []
    for (at, mine), (to, theirs) in product(enumerate(made.labels), enumerate(read.labels)):
        split = (between, (mine, theirs), (made.shares[..., at, :], read.shares[..., to, :]))
        own = _of_split(*split, borders.get(theirs, 0.0) / 2)
        every.append(_with_rows(own, *split, above) if above.image else own)
    shape = (*made.shares.shape[:-2], len(made.options), len(read.options), made.shares.shape[-1])
    return mapped(lambda *own: np.stack(own, axis=-2).reshape(shape), *every)


def _of_split(
    between: Between, labels: tuple[str, str], shares: tuple[Costs, Costs], border: float = 0.0
) -> Factors:
    """Return the fractions that each group has by what both ends divide, ``[..., groups]``.

    Of E a group owns a part of those of which it has a term, and of sums that ops between the layers take its share.
    """
    (made, read), (held, needed), names = labels, shares, names_at(between)
    makes, reads = zip(*names, strict=True)
    each = zip(labels, shares, strict=True)
    works = [at_work(label == COPIES, own, apart=between.apart) for label, own in each]
    high = np.cumsum(needed, axis=-1)
    wide = np.minimum(high + border, 1.0) - np.maximum(high - needed - border, 0.0)
    kept = held if made in makes else works[0]
    need, inside = (wide, needed) if read in reads else (works[1], works[1])
    both, back = kept * need, kept * inside
    if (made, read) in names:
        # Groups that do not work for the consumer come behind the others; rows of an image stay consecutive.
        mine = held if between.apart or made in SPATIAL else held * works[1]
        end = np.cumsum(mine, axis=-1)
        both, back = (
            np.maximum(np.minimum(end, high + own) - np.maximum(end - mine, high - needed - own), 0.0)
            for own in (border, 0.0)
        )
    left = terms = held * works[0] if made in between.makes else at_work(made == COPIES, held)
    if _straight(between, made, read) and needed.shape[-1] > 1:
        straight = np.logical_and(*works).all(axis=-1, keepdims=True)
        kept, both, back, left = (np.where(straight, inside, own) for own in (kept, both, back, left))
    return Factors(
        need=need,
        kept=kept,
        both=both,
        back=back,
        owned=both / np.maximum(both.sum(axis=-1, keepdims=True), 1.0),
        alone=kept * held if between.makes.get(made) in between.contracted else kept,
        terms=terms,
        left=left,
        placed=np.full_like(terms, 1 / terms.shape[-1]),
        met=left,
        added=inside,
    )


def _with_rows(
    factors: Factors, between: Between, labels: tuple[str, str], shares: tuple[Costs, Costs], above: Above
) -> Factors:
    """Return the factors of groups with the rows that these read and hold, where the image is divided."""
    places, groups = [*np.ndindex(shares[0].shape[:-1])], shares[0].shape[-1]
    if not min(own.min() for own in shares):
        # No sum goes straight to groups of which one has nothing.
        between = between._replace(onward=False)
    digits = [
        digit_of(between, labels, (tuple(shares[0][at].tolist()), tuple(shares[1][at].tolist())))
        for at in places
    ]
    if digits[0] is None:
        return factors
    even = _of_digit(between, groups, *[(label,) for label in labels])
    sums = {digits[0].made, digits[0].terms}.isdisjoint(SPATIAL)
    changed = {*Factors._fields} - ({"terms", "left", "placed", "met"} if sums else set())
    each = factors._replace(**{name: getattr(factors, name).copy() for name in changed})
    for at, digit in zip(places, digits, strict=True):
        for group, own in enumerate(above.parted(digit, groups)):
            ratio = mapped(change, ratios(*above[1:]), ratios(*own[1:]))
            for name in changed:
                share = getattr(even, name).item() / groups
                getattr(each, name)[(*at, group)] = share * getattr(ratio, name)
    return each


def _straight(between: Between, made: str, read: str) -> bool:
    """Return whether every group has terms of the whole F_out, so that its sum goes where the consumer divides it."""
    summed = between.onward and made not in {*between.makes, COPIES, IDLE}
    return summed and read != "groups" and any(read == own for _, own in names_at(between))


@lru_cache(maxsize=2**14)
def digit_of(between: Between, labels: tuple[str, str], shares: tuple[Shares, Shares]) -> Digit | None:
    """Return what a split divides of an image; None if neither end divides it."""
    ends, dims, names = zip(*names_at(between), strict=True), ("batch", *between.dims, IN_GROUP), []
    for label, end in zip(labels, ends, strict=True):
        place = {IDLE: IDLE, **dict(zip(end, dims, strict=True))}.get(label, COPIES)
        names.append(place if place in {*SPATIAL, COPIES, IDLE} else "")
    held, needed = (
        (1 / len(own),) * len(own) if label == COPIES else own
        for label, own in zip(labels, shares, strict=True)
    )
    lies, terms = names[0], names[0] if between.onward else None
    if _straight(between, *labels) and min(*held, *needed) > 0:
        lies, held = names[1], needed
    if {*SPATIAL}.isdisjoint((lies, names[1])):
        return None
    return Digit(len(held), lies, names[1], terms, (held, needed))


@lru_cache(maxsize=4096)
def of_input(nest: Nest) -> Between:
    """Return the input of a layer, without sizes, as a tensor of which every device has a copy."""
    return Between(nest.unsized, nest.unsized, tuple(nest.input_sizes), frozenset())


@lru_cache(maxsize=4096)
def input_of(nest: Nest) -> Above:
    """Return what there is of the input of a layer above all levels, as the same tensor."""
    return Above(image=image_of(nest, "input", tuple(nest.input_sizes.items())))


def elements_of(nest: Nest, sums: Sums, above: Cuts | None = None) -> Costs:
    """Return the elements of each tensor, none of those whose sums are not added up inside the layer.

    Of the rows of an input a group of an uneven split is taken to have an equal share, as their ratios say what it has.
    """
    above = above or input_of(nest).cuts
    rows = 1.0 if sums.apart else fraction_read(above.image) / (unequal(above.divided) or 1.0)
    read = nest.input_elements * rows if sums.input else 0.0
    made = (sums.as_read if sums.apart else nest.elements("output")) if sums.output else 0.0
    weight = nest.elements("weight") if sums.weight else 0.0
    others = [[nest.elements(tensor) if sums.input else 0.0] for tensor in nest.others]
    return np.array([[read], [weight], [made], *others], dtype=np.float64)


@lru_cache(maxsize=4096)
def _of_digit(between: Between, ways: int, made: Labels, read: Labels) -> Factors:
    """Return the factors of a digit, for each pair of labels: the sums over equal shares."""
    each = [Digit(ways, *pair) for pair in product(made, read)]
    every = [_of_split(between, own[1:3], (np.array(own.of(0)), np.array(own.of(1)))) for own in each]

    def summed(*own: Costs) -> Costs:
        found: Costs = np.sum(own, axis=-1).reshape(len(made), 1, len(read))
        found = found[:1] if (found == found[:1]).all() else found
        return found[:, :, :1] if (found == found[:, :, :1]).all() else found

    return mapped(summed, *every)


class _Divided(NamedTuple):
    """A digit of a level: its ways, what options of both ends divide by it, and which of that each option does."""

    ways: int
    labels: tuple[Labels, Labels]
    which: tuple[list[int], list[int]]

    def over(self, array: Any) -> Any:
        """Return an array over labels, ``[made, 1, read]``, for the options; one entry where it is the same."""
        array = array[self.which[0]] if len(array) > 1 else array
        return array[:, :, self.which[1]] if array.shape[2] > 1 else array


@lru_cache(maxsize=4096)
def _digits(options: tuple[Options, Options], ways: int) -> tuple[_Divided, ...]:
    count, found = len(options[0]), []
    for own, every in digits_of([*options[0], *options[1]], ways):
        ends = (every[:count], every[count:])
        made, read = (tuple(dict.fromkeys(end)) for end in ends)
        which = ([*map(made.index, ends[0])], [*map(read.index, ends[1])])
        found.append(_Divided(own, (made, read), which))
    return tuple(found)


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Factors:
    """Return the factors of a level without halos."""
    # A level of one device has no digits.
    whole = Factors._make([np.ones((len(options[0]), 1, len(options[1])))] * len(Factors._fields))
    each = [mapped(own.over, _of_digit(between, own.ways, *own.labels)) for own in _digits(options, ways)]
    return reduce(lambda one, other: mapped(mul, one, other), each or [whole])


def factors_of(
    between: Between,
    options: tuple[Options, Options],
    ways: int,
    above: Cuts,
    spread: Callable[[Any], Any] = lambda own: own,
) -> tuple[Factors, Cuts]:
    """Return the factors of a level for options of producer and consumer, with the cuts of the image below it.

    ``above`` are the cuts above the level; ``spread`` returns an array over pairs of options for each pair of tuples.
    """
    factors, below = mapped(spread, plain(between, options, ways)), above
    for every, which in _image_digits(between, options, ways) if above.image else ():
        below = below.below(every, spread(which))
    if below is above:
        return factors, above
    return mapped(mul, factors, mapped(change, above.factors, below.factors)), below


@lru_cache(maxsize=2**16)
def below(above: Above, between: Between, pair: tuple[Choice, Choice], ways: int) -> tuple[Factors, Above]:
    """Return the factors of a level for a pair of choices, as numbers, and what is left below it."""
    found, cuts = factors_of(between, ((pair[0],), (pair[1],)), ways, above.cuts)
    factors = mapped(lambda own: own.item(), found)
    return factors, Above(mapped(mul, above.products, factors), above.image, cuts.divided)


@lru_cache(maxsize=4096)
def _image_digits(
    between: Between, options: tuple[Options, Options], ways: int
) -> list[tuple[Digits, NDArray[np.int64]]]:
    """Return what pairs of options divide of an image by each digit, and which of these each pair does, ``[made, 1, read]``."""
    found = []
    for own in _digits(options, ways):
        nothing = Digit(own.ways, "", "")
        kinds, which = {nothing: 0}, []
        for pair in product(*own.labels):
            equal = Digit(own.ways, *pair)
            digit = digit_of(between, pair, (equal.of(0), equal.of(1)))
            which.append(kinds.setdefault(digit._replace(shares=None) if digit else nothing, len(kinds)))
        if len(kinds) > 1:
            found.append((tuple(kinds), own.over(np.array(which).reshape(len(own.labels[0]), 1, -1))))
    return found


def divides_image(between: Between, options: tuple[Options, Options], ways: int) -> Any:
    """Return which pairs of options divide an image at either end, ``[made, 1, read]``."""
    digits = _image_digits(between, options, ways)
    return reduce(or_, (which > 0 for _, which in digits), np.zeros((1, 1, 1), bool))


def apart_of(between: Between, options: tuple[Options, Options], sizes: LocalSizes, ways: int) -> Factors:
    """Return the factors of a level that is counted by itself, whose choices above leave the consumer some sizes."""
    factors, borders = plain(between, options, ways), dict(between.borders)
    need, both = factors.need, np.ones((1, 1, 1))
    for own, dim in names_at(between):
        if dim not in borders or not any(choice.degree(dim) > 1 for choice in options[1]):
            continue
        # Digits by which the producer divides the dim as well bring it none of the rows beyond its shards.
        met, before, degrees = np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(len(options[1]), np.int64)
        for digit in _digits(options, ways):
            made, read = (np.array(end)[which] for end, which in zip(digit.labels, digit.which, strict=True))
            degrees = degrees * np.where(read == dim, digit.ways, 1)
            more = halo(borders[dim], degrees, sizes.of(dim)[:, None])
            met, before = met + np.where((made != own)[:, None, None], more - before, 0.0), more
        need, both = need * (1.0 + before), both * met
    owned = np.minimum(factors.owned * both, 1.0)
    return factors._replace(need=need, both=factors.both * both, owned=owned)


@lru_cache(maxsize=4096)
def computing(roles: Nest, options: Options, ways: int) -> Costs:
    """Return the devices that compute each element of each tensor, and the copies of it that are received as terms.

    Returns:
        ``[tensors, options, 2]``; no copies are received of the results of an op that multiplies nothing.
    """
    own = layout(options, ways)
    found = np.zeros((len(roles.names), len(options), 2))
    for row, tensor in enumerate(roles.names):
        found[row, :, 0] = own.working
        for dim in roles.names[tensor]:
            found[row, :, 0] /= own.degree(dim)
        found[row, :, 1] = 2.0 * (terms(roles, tensor, own) - 1.0)
    return found


@lru_cache(maxsize=4096)
def collectives_of(between: Between, options: tuple[Options, Options], ways: int, manner: str) -> Codes:
    """Return the collectives of a transfer at a level, as indices into ``COLLECTIVES``, on the axes of factors.

    A tensor is gathered if the layer that receives it needs all of it; a halo moves between equal grids.
    """
    factors, (made, read) = plain(between, options, ways), (layout(own, ways) for own in options)
    straight = factors.left != factors.terms
    if manner == "sums":
        return np.where(straight, CODE["reduce_scatter"], CODE["all_reduce"])
    degrees = [(made.degree(own)[:, None, None], read.degree(to)) for own, to in names_at(between)]
    equal = reduce(and_, (own == to for own, to in degrees), made.working[:, None, None] == read.working)
    shards = np.where(equal, CODE["neighbours"], CODE["all_to_all"])
    whole, needed = (np.all([own == 1 for own in end], axis=0) for end in zip(*degrees, strict=True))
    if manner == "forward":
        gathered = np.where(needed, CODE["all_gather"], shards)
        return np.where(straight, CODE["neighbours"], gathered)
    backward = np.where(whole, CODE["all_gather"], shards)
    if manner == "backward":
        return backward
    added = np.where(whole & ~straight, CODE["all_reduce"], CODE["reduce_scatter"])
    has_terms = np.asarray(terms(between.read, between.operand, read)) > 1
    return np.where(has_terms, added, np.where(straight, CODE["all_to_all"], backward))


def collective_of(between: Between, pair: tuple[Choice, Choice], ways: int, manner: str) -> str:
    """Return the name of the collective of one pair of choices."""
    return COLLECTIVES[collectives_of(between, ((pair[0],), (pair[1],)), ways, manner).item()]


def halo(border: float, shards: Any, size: Any) -> Any:
    """Return the fraction of a group's F_in that its devices together read beyond their own shards.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to shards - 1 of min(i / shards, halo / 2))``. The windows of two neighbouring shards both read a ``border``
    of the whole F_in; ``size`` is the fraction of the dim that the levels above leave, a number or an array over their choices.
    """
    fraction = np.minimum(border / size, 1.0)
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return short * (short + 1) / shards + (shards - 1 - short) * fraction
