"""The collectives, and costs of transfers at a rate for each of them.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change the placement of a tensor; ``neighbours`` exchanges halos."""

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
        return _price(self)

    @property
    def late(self) -> bool:
        """Whether transfers cost something whatever their elements."""
        return any(any(rate.once) for rate in self.lines)


@lru_cache(maxsize=256)
def _price(rates: Rates) -> float | None:
    (first, *others) = rates.lines
    same = not others and len({*first.per_element}) == 1 and not rates.late and not rates.together
    return float(first.per_element[0]) if same else None


@lru_cache(maxsize=256)
def even_rates(per_element: float) -> Rates:
    """Return rates with the same cost per element for every collective."""
    rate = Rate((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES))
    return Rates((rate,))
