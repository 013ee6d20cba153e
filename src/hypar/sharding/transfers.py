"""The transfers that a choice causes inside a layer and between two layers.

Costs and schedules both use this derivation, so that search and score agree on bytes. The amount of a transfer is
a fraction of a tensor, received by all devices of one group together; the caller knows the elements of the group's
tensor. This module covers choices that use every device of a group for one dim; ``reshards`` covers grids of
several dims and whole elements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.placement import (
    Choice,
    Partial,
    Placement,
    divisor,
    partial_results,
    placement,
)
from hypar.sharding.redistribution import (
    Number,
    after_contraction,
    resolve,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.network.nodes import PlanNode
    from hypar.ops.nest import Nest

    Numbers = NDArray[np.int64]


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient.

    Examples:
        >>> phase_of("output"), phase_of("input 2"), phase_of("weight")
        ('forward', 'backward', 'gradient')
    """
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")


class Border(NamedTuple):
    """Borders between the shards of an image.

    Attributes:
        dim: the divided dim.
        fraction: fraction of the whole F_in that the windows of two neighbouring shards both read.
        shards: number of shards, or an array of numbers.
        copies: number of devices that read each shard.
    """

    dim: str
    fraction: float
    shards: Number
    copies: int


@lru_cache(maxsize=4096)
def simple(choice: Choice, ways: int) -> bool:
    """Return whether a choice uses all devices of a group, for at most one dim."""
    return len(choice.divided) <= 1 and not choice.order and choice.devices(ways) == ways


@lru_cache(maxsize=16384)
def changes(
    made: Nest, maker: Choice, read: Nest, reader: Choice, contracted: frozenset[str]
) -> tuple[tuple[str, Placement, Placement], ...]:
    """Return phase, placement before and placement after of each transfer between producer and consumer.

    They are the reduction of partial sums of the ops between, F to the consumer, and E back to the producer.
    """
    have = left(made, maker, contracted)
    start = resolve(have)
    need, back = placement(read, dim_of(reader), "input"), settled(read, reader, "input")
    return ("forward", have, start), ("forward", start, need), ("backward", back, start)


@lru_cache(maxsize=16384)
def borders(nest: Nest, choice: Choice, ways: int) -> tuple[Border, ...]:
    """Return the borders of a sharded image that windows cross."""
    windows = [(dim, nest.windows[dim]) for dim in choice.divided if dim in nest.windows]
    copies = choice.devices(ways) // divisor(nest, choice, "input") if windows else 1
    return tuple(
        Border(dim, window.halo / nest.input_sizes[dim], choice.degree(dim), copies)
        for dim, window in windows
        if window.halo and nest.input_sizes[dim]
    )


def halo(border: Border, size: Number) -> Number:
    """Return the fraction of a group's F_in that its devices together read beyond their own shards.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to shards - 1 of min(i / shards, halo / 2))``.

    Args:
        border: the borders of the shards.
        size: the fraction of the dim that the levels above leave: a number, or an array over their choices.
    """
    shards, fraction = border.shards, np.minimum(border.fraction / size, 1.0)
    if isinstance(shards, int) and shards == 2:
        return border.copies * fraction  # the value of the sum in by far the most frequent case
    short = np.minimum(shards - 1, np.floor(shards * fraction / 2))
    return border.copies * (short * (short + 1) / shards + (shards - 1 - short) * fraction)


@lru_cache(maxsize=4096)
def dim_of(choice: Choice) -> str | None:
    """Return the dim that a simple choice divides; None if every device computes the whole layer."""
    return next(iter(choice.divided), None)


def left(made: Nest, choice: Choice, contracted: frozenset[str]) -> Placement:
    """Return the placement in which a producer leaves the tensor that its consumer reads."""
    return after_contraction(settled(made, choice, "output"), contracted)


def settled(nest: Nest, choice: Choice, tensor: str) -> Placement:
    """Return the placement of a result after its partial sums are reduced."""
    if tensor in partial_results(nest, dim_of(choice)):
        return resolve(Partial())
    return placement(nest, dim_of(choice), tensor)


def work(layer: PlanNode, choice: Choice, share: Number) -> Number:
    """Return the floating-point operations of the three phases that a group with a share performs.

    Source: AccPar (HPCA 2020), ``E_cp``: the share times the operations of the whole layer.
    """
    flop = sum(layer.nest.flop.values())
    return flop * share if dim_of(choice) else flop * (share * 0 + 1)
