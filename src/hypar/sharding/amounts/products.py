"""The products of factors over levels, and what they make of the transfers of a tensor between two layers."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.sharding.amounts.between import Factors
from hypar.sharding.amounts.places import descended, grown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.amounts.places import Places
    from hypar.solve.edge import Costs

BLOCK = 2**14
"""Entries of a sum of matrices computed at once: with what is added to them they fit a core's cache."""

Number = Any
"""A float, or an array over pairs of tuples."""

RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""

Products = Factors
"""The products over the levels above: of one tuple numbers, or ``[tuples of the producer, tuples of the consumer]``."""

ONE = np.ones((1, 1))
OUTERMOST = Products(*[1.0] * len(Factors._fields))  # type: ignore[arg-type]
"""The products at the outermost level."""


def received(part: Part, above: Products, growth: Factors) -> Number:
    """Return the elements of a transfer that all devices receive at a level.

    Args:
        part: the transfer.
        above: the products of the levels above.
        growth: the factors of the level less 1, as numbers or for each pair of tuples.
    """
    total = None
    for size, gets, has, apart in part.changes:
        if apart:
            lacking = getattr(growth, gets) - getattr(growth, has)
            more = getattr(above, apart) * (lacking * (abs(lacking) > RESIDUE))
        else:
            more = getattr(above, gets) * getattr(growth, gets)
            if has:
                more = more - getattr(above, has) * getattr(growth, has)
        more = more * size
        total = more if total is None else total + more
    return total


def below(above: Products, factors: Factors) -> Products:
    """Return the products below a level, for one tuple."""
    return Products._make(map(operator.mul, above, factors))


def as_arrays(products: Products) -> Products:
    """Return the products of one tuple as arrays; those that are one object stay one."""
    found: dict[int, Costs] = {}
    for product in products:
        found.setdefault(id(product), np.full((1, 1), product))
    return Products._make([found[id(product)] for product in products])


def raised(above: Products, factors: Factors, names: tuple[str, ...], places: Places) -> Products:
    """Return the products of some factors below a level, for each pair of tuples; those that are one object stay one."""
    done: dict[tuple[int, int], Costs] = {}
    found = {}
    for name in names:
        product, factor = getattr(above, name), getattr(factors, name)
        key = (id(product), id(factor))
        if key not in done:
            done[key] = grown(product, factor, places)
        found[name] = done[key]
    return above._replace(**found)


def descending(above: Products, names: tuple[str, ...], places: Places) -> Products:
    """Return some products above a level for each pair of tuples down to it."""
    done: dict[int, Costs] = {}
    for name in names:
        product = getattr(above, name)
        if id(product) not in done:
            done[id(product)] = descended(product, places)
    return above._replace(**{name: done[id(getattr(above, name))] for name in names})


def in_all(
    parts: tuple[Part, ...], products: Products, prices: tuple[float, float], above: Products
) -> Costs:
    """Return the cost of all levels together where an element costs the same at every level.

    Args:
        parts: the transfers.
        products: the products of all levels.
        prices: the cost of an element inside layers, and between two.
        above: the products above the first level, of one tuple.

    Returns:
        ``[tuples of the producer, tuples of the consumer]``.
    """
    names, prices_of = priced_names(parts, prices)
    arrays = (getattr(products, name) if name else ONE for name in names)
    total = _weighted(zip(arrays, prices_of.tolist(), strict=True))
    # At the outermost level all products are 1, and this is nothing.
    before = math.fsum(
        price * (float(getattr(above, name).item()) if name else 1.0)
        for name, price in zip(names, prices_of.tolist(), strict=True)
    )
    return total - before if before else total


def of_tensors(
    parts: Sequence[tuple[Part, ...]], above: Sequence[Mapping[str, float]]
) -> tuple[tuple[Part, ...], Products]:
    """Return the transfers of tensors that count the same factors as those of one, and the products of the levels above.

    Args:
        parts: the transfers of each tensor.
        above: for each tensor the products by their names.

    Returns:
        Elements and products ``[1, tensors, 1]``.
    """
    elements = [[change.elements for part in own for change in part.changes] for own in parts]
    columns = iter(np.array(elements).T[:, None, :, None])
    found = [
        part._replace(changes=tuple([change._replace(elements=next(columns)) for change in part.changes]))
        for part in parts[0]
    ]
    rows = np.array([[*own.values()] for own in above]).T[:, None, :, None]
    return tuple(found), OUTERMOST._replace(**dict(zip(above[0], rows, strict=True)))


@lru_cache(maxsize=4096)
def priced_names(parts: tuple[Part, ...], prices: tuple[float, float]) -> tuple[tuple[str, ...], Costs]:
    """Return the names of the factors that transfers count, empty for one copy, and the price of each as counted."""
    names, found = [], []
    for part in parts:
        price = prices[0] if part.inside else prices[1]
        for size, gets, has, _ in part.changes:
            names += [gets, has]
            found += [size * price, -size * price]
    return tuple(names), np.array(found)


def _weighted(pairs: Iterable[tuple[Costs, Number]]) -> Costs:
    """Return the sum of arrays, each times its weight; one that comes again is multiplied once."""
    weights: dict[int, Number] = {}
    found: dict[int, Costs] = {}
    for array, weight in pairs:
        found[id(array)] = array
        weights[id(array)] = weights.get(id(array), 0.0) + weight
    largest, *others = sorted(found, key=lambda key: -found[key].size)
    if found[largest].ndim == 2 and found[largest].size > BLOCK:
        return _by_rows([(found[key], weights[key]) for key in (largest, *others)])
    total: Costs = found[largest] * weights[largest]
    for key in others:
        total += found[key] * weights[key]
    return total


def _by_rows(weighted: Sequence[tuple[Costs, Number]]) -> Costs:
    """Return the same sum of matrices some rows after another, which stay in a core's cache; the first has all rows."""
    rows, columns = weighted[0][0].shape
    total, height = np.empty((rows, columns)), max(1, BLOCK // columns)
    for row in range(0, rows, height):
        block = total[row : row + height]
        more = np.empty(block.shape)
        for at, (array, weight) in enumerate(weighted):
            own = array[row : row + height] if len(array) > 1 else array
            np.multiply(own, weight, out=more if at else block)
            if at:
                block += more
    return total


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
