"""The products of factors over levels, and what they make of the transfers of a tensor between two layers."""

from __future__ import annotations

from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.sharding.amounts.between import Factors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.sharding.amounts.transfers import Part
    from hypar.solve.edge import Costs


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


def times(above: Products, factors: Factors) -> Products:
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
