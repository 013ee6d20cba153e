"""Tiers of levels: at the levels of one tier an element costs the same, whatever collective moves it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.graphs.exponents import UncountableError
from hypar.solve.counts.tiers import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.sharding.levels import Level

ROUNDING = 1e-12
"""Largest difference of equal weights, relative to them."""

MOST_DEVICES = 2**28
"""Most devices of which a share of a tensor is more than what counts as nothing."""


class Weight(NamedTuple):
    """What a level charges.

    Attributes:
        element: for an element that any device receives.
        once: for a transfer.
    """

    element: float
    once: float = 0.0


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
        kinds: for each level what levels of a group have in common.

    Raises:
        UncountableError: what a level charges is no number for each element, or inner levels are dearer than outer ones.
    """
    (inside, between), *others = dict.fromkeys((one.price, two.price) for one, two in map(cost.rates, levels))
    price = (1.0, 1.0)
    if inside is not None and between is not None and not others:
        price = inside, between
        weights = [Weight(1.0)] * len(levels)
    else:
        weights = [_weight(cost, level) for level in levels]
    late = any(weight.once for weight in weights)
    groups: list[tuple[int, ...]] = []
    tiers: list[Tier] = []
    first = 0
    while first < len(levels):
        last = first + 1
        while last < len(levels) and _equal(weights[last].element, weights[first].element):
            last += 1
        own: dict[object, list[int]] = {}
        run = 0
        for level in range(first, last):
            # What costs latency at a level may depend on what moves further out, so that no group lies around another.
            kind = (kinds[level], weights[level].once)
            run += late and level > first and kind != (kinds[level - 1], weights[level - 1].once)
            own.setdefault((*kind, run), []).append(level)
        groups += [tuple(of) for of in own.values()]
        left = weights[first].element - (weights[last].element if last < len(levels) else 0.0)
        if left < 0:
            raise UncountableError
        tiers.append(Tier(len(groups), left))
        first = last
    if late and math.prod(level.ways for level in levels) > MOST_DEVICES:
        raise UncountableError
    once = tuple(weights[of[0]].once for of in groups) if late else ()
    return Tiered(price, tuple(groups), tuple(tiers), once)


def _weight(cost: Cost, level: Level) -> Weight:
    """Return what a level charges on a machine whose devices all receive at the same time."""
    inside, between = cost.rates(level)
    if inside != between or len(inside.lines) > 1 or not inside.together:
        raise UncountableError
    line = inside.lines[0]
    if not all(_equal(own, each[0]) for each in (line.per_element, line.once) for own in each):
        raise UncountableError
    return Weight(line.per_element[0] / (level.groups * level.ways), line.once[0])


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING)
