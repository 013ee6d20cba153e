"""Tiers of levels: at the levels of one tier an element costs the same, whatever collective moves it."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.graphs.offered import UncountableError
from hypar.costs.graphs.pricing import prices_of
from hypar.solve.counts.tiers import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.sharding.levels import Level

ROUNDING = 1e-12
"""Largest difference of equal weights, relative to them."""

MOST_DEVICES = 2**28
"""Most devices of which a share of a tensor is more than what counts as nothing."""


class Tiered(NamedTuple):
    """The levels of an array, with what they charge.

    Attributes:
        prices: the cost of an element inside layers and between two, which weights multiply.
        groups: the levels of each group, outermost tier first.
        tiers: the tiers of groups.
        latencies: the cost of a transfer in each group; empty for none.
    """

    prices: tuple[float, float]
    groups: tuple[tuple[int, ...], ...]
    tiers: tuple[Tier, ...]
    latencies: tuple[float, ...]


def tiered(cost: Cost, levels: Sequence[Level], kinds: Sequence[object]) -> Tiered:
    """Return the tiers of an array.

    Args:
        cost: the cost.
        levels: the levels.
        kinds: for each level what levels of a group have in common, besides their ways.

    Raises:
        UncountableError: what a level charges is no number for each element, or inner levels are dearer than outer ones.
    """
    prices = {prices_of(cost.rates(level)) for level in levels}
    price = prices.pop() if len(prices) == 1 else None
    charged = [(1.0, 0.0) if price else _charged(cost, level) for level in levels]
    element, once = zip(*charged, strict=True)
    late = any(once)
    if late and math.prod(level.ways for level in levels) > MOST_DEVICES:
        raise UncountableError
    # What costs latency at a level may depend on what moves further out, so that no group lies around another.
    alike = [*zip((level.ways for level in levels), kinds, once, strict=True)]
    runs = accumulate((late and one != other for one, other in pairwise(alike)), initial=0)
    told = [*zip(alike, runs, strict=True)]
    groups: list[tuple[int, ...]] = []
    tiers: list[Tier] = []
    ends = [at for at in range(1, len(levels)) if not _equal(element[at], element[at - 1])]
    for first, end in pairwise([0, *ends, len(levels)]):
        own: dict[object, tuple[int, ...]] = {}
        for level in range(first, end):
            own[told[level]] = (*own.get(told[level], ()), level)
        groups += own.values()
        left = element[first] - (element[end] if end < len(levels) else 0.0)
        if left < 0:
            raise UncountableError
        tiers.append(Tier(len(groups), left))
    latencies = tuple(once[own[0]] for own in groups) if late else ()
    return Tiered(price or (1.0, 1.0), tuple(groups), tuple(tiers), latencies)


def _charged(cost: Cost, level: Level) -> tuple[float, float]:
    """Return the cost of an element that any device receives, and of a transfer, if all devices receive at the same time."""
    inside, between = cost.rates(level)
    if inside != between or len(inside.lines) > 1 or not inside.together:
        raise UncountableError
    line = inside.lines[0]
    if not all(_equal(own, each[0]) for each in (line.per_element, line.once) for own in each):
        raise UncountableError
    return line.per_element[0] / (level.groups * level.ways), line.once[0]


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING)
