"""What transfers have in common: the phase of a tensor, the halo of a cut image, and the choices that cut one dim."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hypar.network.nodes import PlanNode
    from hypar.sharding.placement import Choice, Options

Number = Any
"""A number, or an array of numbers."""


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient.

    Examples:
        >>> phase_of("output"), phase_of("input 2"), phase_of("weight")
        ('forward', 'backward', 'gradient')
    """
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")


@lru_cache(maxsize=4096)
def simple(choice: Choice, ways: int) -> bool:
    """Return whether a choice uses all devices of a group, for at most one dim."""
    return len(choice.divided) <= 1 and not choice.order and choice.devices(ways) == ways


@lru_cache(maxsize=4096)
def all_simple(options: Options, ways: int) -> bool:
    """Return whether every choice of a layer is simple."""
    return all(simple(choice, ways) for choice in options)


def halo(border: float, shards: Number, size: Number) -> Number:
    """Return the fraction of a group's F_in that its devices together read beyond their own shards.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to shards - 1 of min(i / shards, halo / 2))``.

    Args:
        border: the fraction of the whole F_in that the windows of two neighbouring shards both read.
        shards: the number of shards, or an array of numbers.
        size: the fraction of the dim that the levels above leave: a number, or an array over their choices.
    """
    fraction = np.minimum(border / size, 1.0)
    if isinstance(shards, int) and shards == 2:
        return fraction  # the value of the sum in by far the most frequent case
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return short * (short + 1) / shards + (shards - 1 - short) * fraction


@lru_cache(maxsize=4096)
def dim_of(choice: Choice) -> str | None:
    """Return the dim that a simple choice divides; None if every device computes the whole layer."""
    return next(iter(choice.divided), None)


def work(layer: PlanNode, choice: Choice, share: Number) -> Number:
    """Return the floating-point operations of the three phases that a group with a share performs.

    Source: AccPar (HPCA 2020), ``E_cp``: the share times the operations of the whole layer.
    """
    flop = sum(layer.nest.flop.values())
    return flop * share if dim_of(choice) else flop * (share * 0 + 1)
