"""The products of factors over levels, and what they make of the transfers of a tensor between two layers."""

from __future__ import annotations

from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.between import Factors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.sharding.amounts.parts import Part
    from hypar.solve.edge import Costs, Indices


Number = Any
"""A float, or an array over pairs of tuples."""

RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""

Products = Factors
"""The products over the levels above: of one tuple numbers, or ``[tuples of the producer, tuples of the consumer]``."""

ONE = np.ones((1, 1))
OUTERMOST = Products(*[1.0] * len(Factors._fields))  # type: ignore[arg-type]
"""The products at the outermost level."""


def grown(part: Part, factors: Factors) -> Iterator[tuple[str, Number]]:
    """Yield what a level adds to the elements of a transfer: names of products above it, and what each is multiplied by.

    Args:
        part: the transfer.
        factors: the factors of the level.
    """
    for size, gets, has, apart in part.changes:
        more = getattr(factors, gets)
        if apart:
            lacking = more - getattr(factors, has)
            yield apart, size * (lacking * (abs(lacking) > RESIDUE))
        else:
            yield gets, size * (more - 1.0)
            if has:
                yield has, -size * (getattr(factors, has) - 1.0)


def received(part: Part, above: Products, factors: Factors) -> Number:
    """Return the elements of a transfer that all devices receive at a level.

    Args:
        part: the transfer.
        above: the products of the levels above.
        factors: the factors of the level, as numbers or for each pair of tuples.
    """
    return reduce(add, (getattr(above, name) * more for name, more in grown(part, factors)))


def below(above: Products, factors: Factors) -> Products:
    """Return the products below a level, for one tuple."""
    return Products._make(map(mul, above, factors))


def least_below(above: Products, factors: Factors) -> Products:
    """Return the least products below a level, over all tuples and options, for lower bounds."""
    return Products(*[product * factor.min() for product, factor in zip(above, factors, strict=True)])


def least_received(part: Part, above: Products, factors: Factors) -> Costs:
    """Return a lower bound of ``received`` from the least products: no product grows faster than what it is part of."""
    total: Costs | float = 0.0
    for change in part.changes:
        gets = getattr(factors, change.gets)
        has = getattr(factors, change.has) if change.has else ONE
        more = getattr(above, change.gets) * (gets - 1.0)
        if change.has:
            held = getattr(above, change.has)
            more = np.where(has > 1.0, held * (gets - has), more - held * (has - 1.0))
        total = total + change.elements * more
    return np.asarray(total)


class Column(NamedTuple):
    """Some tuples of a layer down to one level.

    Attributes:
        digit: the option of each at the level.
        prefix: the number of each among all tuples of the levels above and this one.
        parent: the place of each one's tuple above among those that the level above has.
    """

    digit: Indices
    prefix: Indices
    parent: Indices


class Places(NamedTuple):
    """The tuples of producer and consumer; None for the options of a single level."""

    made: Column
    read: Column


def columns(widths: Sequence[int], kept: Indices | None = None) -> list[Column]:
    """Return some tuples down to each level.

    Args:
        widths: the number of options at each level, outermost first.
        kept: the tuples of all levels, ascending; None for all of them.
    """
    prefix = np.arange(int(np.prod(widths))) if kept is None else kept
    found = []
    for width in reversed(widths):
        above, digit = np.divmod(prefix, width)
        before, parent = np.unique(above, return_inverse=True)
        found.append(Column(digit, prefix, parent.reshape(-1)))
        prefix = before
    return found[::-1]


def descended(above: Costs, places: Places) -> Costs:
    """Return an array over pairs of tuples above a level for the pairs down to it; one entry where it is the same."""
    if above.shape[0] > 1:
        above = above.take(places.made.parent, axis=0)
    return above.take(places.read.parent, axis=1) if above.shape[1] > 1 else above


def spread(factor: Costs, places: Places) -> Costs:
    """Return a factor ``[made, above, read]`` for each pair of tuples, ``[made, read]``; one entry where it is the same."""
    made, above, read = factor.shape
    flat = factor.reshape(made, above * read)
    if above * read > 1:
        flat = flat.take(places.read.digit if above == 1 else places.read.prefix, axis=1)
    return flat.take(places.made.digit, axis=0) if made > 1 else flat
