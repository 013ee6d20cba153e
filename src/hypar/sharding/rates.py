"""The collectives: which of them moves a tensor between two layers, and costs of transfers at a rate for each.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.sharding.placement import Layout

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change the placement of a tensor; ``neighbours`` exchanges halos."""

CODE = {name: code for code, name in enumerate(COLLECTIVES)}
Codes = NDArray[np.int64]

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""


class Rate(NamedTuple):
    """Cost of a transfer as a line over its elements, for each of ``COLLECTIVES``.

    Attributes:
        per_element: cost of an element received.
        once: fixed cost of a transfer.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]


class Rates(NamedTuple):
    """Costs of moving elements.

    Attributes:
        lines: the costs of a transfer by several algorithms, of which the least one counts.
        together: whether all devices receive at the same time, so that the elements of one device count;
            otherwise those of all devices count.
    """

    lines: tuple[Rate, ...]
    together: bool = False

    @property
    def price(self) -> float | None:
        """The cost of an element if it is the same for every collective, and transfers cost nothing else."""
        (first, *others), per_element = self.lines, {*self.lines[0].per_element}
        same = not (others or len(per_element) > 1 or self.late or self.together)
        return float(first.per_element[0]) if same else None

    @property
    def late(self) -> bool:
        """Whether transfers cost something whatever their elements."""
        return any(any(rate.once) for rate in self.lines)


def even_rates(per_element: float) -> Rates:
    """Return rates with the same cost per element for every collective."""
    return Rates((Rate((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES)),))


def undivided(layout: Layout, dims: Iterable[str | None]) -> NDArray[np.bool_]:
    """Return whether every device has the whole tensor of some dims, for each choice."""
    return np.asarray(np.all([layout.degree(dim) == 1 for dim in dims], axis=0))


@lru_cache(maxsize=64)
def manners_of(
    made: Layout, read: Layout, names: tuple[tuple[str | None, str | None], ...]
) -> tuple[Codes, Codes]:
    """Return the collectives of F and of E where no sums are taken, for each pair of choices of producer and consumer.

    A tensor is gathered if the layer that receives it needs all of it; a halo moves between equal grids.

    Args:
        made: the choices of the producer.
        read: the choices of the consumer.
        names: the op dims of both for each dim of the tensor; None where one has none.
    """
    equal = made.working[:, None] == read.working
    for own, theirs in names:
        equal &= made.degree(own)[:, None] == read.degree(theirs)
    shards = np.where(equal, CODE["neighbours"], CODE["all_to_all"])
    makes, reads = zip(*names, strict=True)
    forward = np.where(undivided(read, reads), CODE["all_gather"], shards)
    return forward, np.where(undivided(made, makes)[:, None], CODE["all_gather"], shards)
