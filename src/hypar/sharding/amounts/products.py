"""The products of factors over levels, and the transfers of a tensor between two layers that follow."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.factors import Factors
from hypar.sharding.amounts.places import spread

if TYPE_CHECKING:
    from hypar.sharding.amounts.factors import Between
    from hypar.sharding.amounts.flows import Flow
    from hypar.solve.edge import Costs

Number = Any
"""A float, or an array over pairs of tuples."""

Products = Factors
"""The products over the levels above, ``[tuples of the producer, tuples of the consumer]``."""

ONE = np.ones((1, 1))
OUTERMOST = Products(*[ONE] * len(Factors._fields))
"""The products at the outermost level."""


class Change(NamedTuple):
    """Elements that enter groups: a tensor's elements times the products of one factor, without those of another.

    Attributes:
        elements: elements of the tensor.
        gets: name of the factor that counts what is needed in the end.
        has: name of the factor that counts what is there already; empty for one copy.
    """

    elements: float
    gets: str
    has: str = ""


class Part(NamedTuple):
    """A transfer of a tensor between two layers.

    Attributes:
        phase: the phase.
        tensor: ``input`` of the consumer, or ``output`` of the producer.
        forward: whether the consumer receives; otherwise the producer does.
        manner: name of its collectives in ``Manners``.
        changes: the elements that are received.
    """

    phase: str
    tensor: str
    forward: bool
    manner: str
    changes: tuple[Change, ...]

    @property
    def inside(self) -> bool:
        """Whether it adds up partial sums of the producer, which belong to the layer."""
        return self.manner == "sums" and self.tensor == "output"


@lru_cache(maxsize=4096)
def parts_of(flow: Flow, between: Between) -> tuple[Part, ...]:
    """Return the transfers of a tensor in the order in which they run: of F, then of E."""
    size, made = flow.elements, float(flow.made)
    found = []
    if made:
        found.append(Part("forward", "output", False, "sums", (Change(made, "terms"), Change(made, "left"))))
    if between.contracted:
        found.append(Part("forward", "input", False, "sums", (Change(2 * size, "kept", "alone"),)))
    found.append(Part("forward", "input", True, "forward", (Change(size, "need", "both"),)))
    if flow.error and flow.terms:
        changes = (Change(size, "need", "owned"), Change(size, "kept"))
        found.append(Part("backward", "input", False, "errors", changes))
    elif flow.error:
        manner = "errors" if made else "backward"
        found.append(Part("backward", "input", False, manner, (Change(size, "kept", "back"),)))
    if flow.error and made:
        found.append(Part("backward", "output", False, "backward", (Change(made, "terms", "left"),)))
    return tuple(found)


@lru_cache(maxsize=4096)
def names_of(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return the names of the factors that transfers count."""
    return tuple({name: None for part in parts for change in part.changes for name in change[1:] if name})


def received(part: Part, above: Products, growth: Factors) -> Number:
    """Return the elements of a transfer that all devices receive at a level.

    Args:
        part: the transfer.
        above: the products of the levels above.
        growth: the factors of the level less 1, as numbers or for each pair of tuples.
    """
    total = None
    for size, gets, has in part.changes:
        more = getattr(above, gets) * getattr(growth, gets)
        if has:
            more = more - getattr(above, has) * getattr(growth, has)
        more = more * size
        total = more if total is None else total + more
    return total


def below(above: Products, factors: Factors, names: tuple[str, ...]) -> Products:
    """Return the products of some factors below a level; those that are one object stay one."""
    grown: dict[tuple[int, int], Number] = {}
    found = {}
    for name in names:
        product, factor = getattr(above, name), getattr(factors, name)
        key = (id(product), id(factor))
        if key not in grown:
            grown[key] = factor if product is ONE else product * factor
        found[name] = grown[key]
    return above._replace(**found)


def in_all(parts: tuple[Part, ...], products: Products, prices: tuple[float, float]) -> Costs:
    """Return the cost of all levels together where an element costs the same at every level.

    Args:
        parts: the transfers.
        products: the products of all levels.
        prices: the cost of an element inside layers, and between two.

    Returns:
        ``[tuples of the producer, tuples of the consumer]``.
    """
    weights: dict[int, float] = {}
    arrays: dict[int, Costs] = {}
    for part in parts:
        price = prices[0] if part.inside else prices[1]
        for size, gets, has in part.changes:
            for name, weight in ((gets, size * price), (has, -size * price)):
                array = getattr(products, name) if name else ONE
                arrays[id(array)] = array
                weights[id(array)] = weights.get(id(array), 0.0) + weight
    largest, *others = sorted(arrays, key=lambda key: -arrays[key].size)
    total: Costs = arrays[largest] * weights[largest]
    for key in others:
        total += arrays[key] * weights[key]
    return total


def least_below(above: Products, factors: Factors) -> Products:
    """Return the least products below a level, over all tuples and options, for lower bounds."""
    return Products(*[product * factor.min() for product, factor in zip(above, factors, strict=True)])


def least_received(part: Part, above: Products, factors: Factors) -> Costs:
    """Return a lower bound of ``received`` from the least products: no product grows faster than what it is part of."""
    total: Costs | float = 0.0
    for change in part.changes:
        gets = spread(getattr(factors, change.gets), None)
        has = spread(getattr(factors, change.has), None) if change.has else ONE
        more = getattr(above, change.gets) * (gets - 1.0)
        if change.has:
            held = getattr(above, change.has)
            more = np.where(has > 1.0, held * (gets - has), more - held * (has - 1.0))
        total = total + change.elements * more
    return np.asarray(total)
