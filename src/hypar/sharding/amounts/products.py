"""The products of factors over levels, and the transfers of a tensor between two layers that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.factors import Factors

if TYPE_CHECKING:
    from hypar.sharding.amounts.factors import Between
    from hypar.sharding.amounts.flows import Flow
    from hypar.solve.edge import Costs

Products = Factors
"""The products over the levels above, ``[tuples of the producer, 1, tuples of the consumer, 1]``."""

_ONE = np.ones((1, 1, 1, 1))
OUTERMOST = Products(*[_ONE] * len(Factors._fields))
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
    has: str


class Part(NamedTuple):
    """A transfer of a tensor between two layers.

    Attributes:
        phase: the phase.
        tensor: ``input`` of the consumer, or ``output`` of the producer for its sums.
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


def parts_of(flow: Flow, between: Between) -> tuple[Part, ...]:
    """Return the transfers of a tensor in the order in which they run: of F, then of E."""
    size, made = flow.elements, float(flow.made)
    found = []
    if made:
        found.append(
            Part("forward", "output", False, "sums", (Change(made, "terms", ""), Change(made, "kept", "")))
        )
    if between.contracted:
        found.append(Part("forward", "input", False, "sums", (Change(2 * size, "kept", "alone"),)))
    found.append(Part("forward", "input", True, "forward", (Change(size, "need", "both"),)))
    if flow.error and flow.terms:
        changes = (Change(size, "need", "owned"), Change(size, "kept", ""))
        found.append(Part("backward", "input", False, "errors", changes))
    elif flow.error:
        manner = "errors" if made else "backward"
        found.append(Part("backward", "input", False, manner, (Change(size, "kept", "back"),)))
    if flow.error and made:
        found.append(Part("backward", "output", False, "backward", (Change(made, "hold", "kept"),)))
    return tuple(found)


def received(part: Part, above: Products, factors: Factors) -> Costs:
    """Return the elements of a transfer that all devices receive at a level, on the four axes of factors."""
    total: Costs | float = 0.0
    for change in part.changes:
        gets = getattr(above, change.gets) * (getattr(factors, change.gets) - 1.0)
        if change.has:
            gets = gets - getattr(above, change.has) * (getattr(factors, change.has) - 1.0)
        total = total + change.elements * gets
    return np.asarray(total)


def below(above: Products, factors: Factors) -> Products:
    """Return the products below a level, for each tuple above and each option of the level."""
    found = []
    for product, factor in zip(above, factors, strict=True):
        grown = product * factor
        made, option, read, other = grown.shape
        found.append(grown.reshape(made * option, 1, read * other, 1))
    return Products(*found)


def least_below(above: Products, factors: Factors) -> Products:
    """Return the least products below a level, over all tuples and options, for lower bounds."""
    return Products(*[product * factor.min() for product, factor in zip(above, factors, strict=True)])


def least_received(part: Part, above: Products, factors: Factors) -> Costs:
    """Return a lower bound of ``received`` from the least products: no product grows faster than what it is part of."""
    total: Costs | float = 0.0
    for change in part.changes:
        gets, has = getattr(factors, change.gets), getattr(factors, change.has) if change.has else _ONE
        more = getattr(above, change.gets) * (gets - 1.0)
        if change.has:
            held = getattr(above, change.has)
            more = np.where(has > 1.0, held * (gets - has), more - held * (has - 1.0))
        total = total + change.elements * more
    return np.asarray(total)
