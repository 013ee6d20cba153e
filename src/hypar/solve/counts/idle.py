"""Layers of which only some devices work at a level: each of these receives more.

A level at which one device computes the whole layer leaves the others idle; what the layer receives there and further in takes
longer by the factor of the level's ways. Inside a tier these levels come last, which is a lower bound.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.solve.counts.tiers import products

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.tiers import Tier
    from hypar.solve.edge import Costs

    Counts = NDArray[np.integer[Any]]


class Idle(NamedTuple):
    """A tensor between two layers that may leave devices idle.

    Attributes:
        ends: the option of producer and consumer that does; None for none.
        whole: for each option of producer and consumer 1 if every device has the whole tensor, otherwise 0.
        received: weight of what the producer receives, and of what the consumer does.
    """

    ends: tuple[int | None, int | None]
    whole: tuple[tuple[int, ...], tuple[int, ...]]
    received: tuple[float, float]


def prices(states: Sequence[Counts], idle: int, ways: Sequence[int], tiers: Sequence[Tier]) -> list[Costs]:
    """Return for each tier the weight of what a layer receives at its first levels.

    Args:
        states: for each group how often a layer takes each option, with options last.
        idle: the option that leaves devices idle.
        ways: the ways of each group.
        tiers: the tiers.
    """
    found, factor, first = [], np.ones(1), 0
    for tier, weight in zip(tiers, weights_of(tiers), strict=True):
        found.append(weight * factor)
        for group in range(first, tier.groups):
            factor = factor * float(ways[group]) ** states[group][..., idle].astype(np.float64)
        first = tier.groups
    return found


def weights_of(tiers: Sequence[Tier]) -> list[float]:
    """Return the weight of the levels of each tier."""
    return [*accumulate(tier.weight for tier in reversed(tiers))][::-1]


def grown(
    states: Sequence[Counts], options: Sequence[int], ways: Sequence[int], tiers: Sequence[Tier]
) -> list[Costs]:
    """Return the product of ways over the levels of some options, down to the end of each tier."""
    found, product, first = [], np.ones(1), 0
    for tier in tiers:
        for group in range(first, tier.groups):
            product = product * float(ways[group]) ** (states[group] @ np.array(options)).astype(np.float64)
        first = tier.groups
        found.append(product)
    return found


def added(
    by_tier: Sequence[Costs],
    states: Sequence[Counts],
    options: Sequence[int],
    ways: Sequence[int],
    tiers: Sequence[Tier],
) -> Costs:
    """Return by how much more costs what a layer receives by the products of some options.

    Args:
        by_tier: the weight of what it receives in each tier.
        states: for each group how often it takes each option, with options last.
        options: for each option 1 if it multiplies what is received, otherwise 0.
        ways: the ways of each group.
        tiers: the tiers.
    """
    total: Costs = np.zeros(1)
    before: Costs = np.ones(1)
    products = grown(states, options, ways, tiers)
    for price, weight, product in zip(by_tier, weights_of(tiers), products, strict=True):
        total = total + (price - weight) * (product - before)
        before = product
    return total


def idle_costs(
    idle: Idle,
    ends: tuple[Sequence[Counts], Sequence[Counts]],
    totals: Mapping[int, Counts],
    ways: Sequence[int],
    tiers: Sequence[Tier],
) -> Costs | float:
    """Return a lower bound of what a tensor costs more because devices are idle.

    Args:
        idle: the tensor.
        ends: for each group how often producer and consumer take each option, with options last.
        totals: ``s`` of each group.
        ways: the ways of each group.
        tiers: the tiers.
    """
    found: Costs | float = 0.0
    shared: list[Costs] = []
    for end, (option, received) in enumerate(zip(idle.ends, idle.received, strict=True)):
        if option is None or not received:
            continue
        shared = shared or [*products(totals, ways, tiers, [1.0] * len(tiers))]
        # What is shared falls and rises, so that weights that rise inwards count as the least one further out.
        own = [*accumulate(prices(ends[end], option, ways, tiers), np.minimum), np.zeros(1)]
        found = found + received * added(own[:-1], ends[end], idle.whole[end], ways, tiers)
        apart = _apart(idle, end, ends, tiers)
        for at, tier in enumerate(tiers):
            # Where one end is idle at the dearest levels, the other divides the tensor there: nothing is shared at them.
            less = received * np.maximum(own[at] - own[at + 1], 0.0)
            most = received * tier.weight
            found = found + np.where(apart[at], most, most - less) * shared[at]
    return found


def _apart(
    idle: Idle, end: int, ends: tuple[Sequence[Counts], Sequence[Counts]], tiers: Sequence[Tier]
) -> list[NDArray[np.bool_]]:
    """Return for each tier whether at some level one end is idle where the other divides the tensor: the dearest levels."""
    found, first = [], 0
    other, whole = idle.ends[1 - end], np.array(idle.whole[1 - end])
    for tier in tiers:
        some: NDArray[np.bool_] = np.zeros(1, dtype=bool)
        for group in range(first, tier.groups):
            there = ends[1 - end][group]
            meeting = there @ whole if other is None else there @ whole + there[..., other]
            some = some | (ends[end][group][..., idle.ends[end]] > meeting)
        found.append(some)
        first = tier.groups
    return found
