"""Layers of which only some devices work at the innermost level, a group of its own: nothing of a tensor is shared there."""

from __future__ import annotations

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
    """A tensor between two layers that may leave devices idle at the innermost level.

    Attributes:
        ends: the option of producer and consumer that does; None for none.
        whole: for each option of producer and consumer 1 if every device has the whole tensor, otherwise 0.
        received: weight of what the producer receives, and of what the consumer does.
    """

    ends: tuple[int | None, int | None]
    whole: tuple[tuple[int, ...], tuple[int, ...]]
    received: tuple[float, float]


def idle_costs(
    idle: Idle,
    ends: tuple[Sequence[Counts], Sequence[Counts]],
    totals: Mapping[int, Counts],
    ways: Sequence[int],
    tiers: Sequence[Tier],
) -> Costs | float:
    """Return a lower bound of what a tensor costs more because devices are idle: an end that is needs what the other divides.

    Args:
        idle: the tensor.
        ends: for each group how often producer and consumer take each option, with options last.
        totals: ``s`` of each group.
        ways: the ways of each group.
        tiers: the tiers.
    """
    *_, shared = products(totals, ways, tiers, [tier.weight for tier in tiers])
    found: Costs | float = 0.0
    for end, (option, received) in enumerate(zip(idle.ends, idle.received, strict=True)):
        if option is None or not received:
            continue
        other, there = idle.ends[1 - end], ends[1 - end][-1]
        met = there @ np.array(idle.whole[1 - end])
        met = met if other is None else met + there[..., other]
        found = found + received * np.where(ends[end][-1][..., option] > met, shared, 0.0)
    return found
