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
    Replicate,
    divisor,
    partial_results,
    placement,
    terms,
)
from hypar.sharding.redistribution import (
    Number,
    after_contraction,
    collective,
    equal_shares,
    received,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from hypar.network.nodes import PlanNode
    from hypar.ops.nest import Nest
    from hypar.solve.edge import Costs

    Numbers = NDArray[np.int64]


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient.

    Examples:
        >>> phase_of("output"), phase_of("input 2"), phase_of("weight")
        ('forward', 'backward', 'gradient')
    """
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")


class Transfer(NamedTuple):
    """A change of placement of one tensor.

    Attributes:
        phase: the phase whose result or operand moves.
        tensor: ``weight``, ``output`` (F_out) or ``input`` of the layer inside which it moves; between two
            layers ``input``, the tensor that the consumer reads.
        collective: the collective that moves it, as ``all_reduce``.
        fraction: fraction of the tensor that all devices of a group receive together.
        devices: number of devices that receive, all the same amount.
    """

    phase: str
    tensor: str
    collective: str
    fraction: float
    devices: int


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
def inside(nest: Nest, choice: Choice, ways: int, direct: bool = False) -> tuple[Transfer, ...]:
    """Return the reductions of a layer's partial sums, without the halo of a sharded image's error.

    The devices that have terms of one shard reduce them among themselves.

    Args:
        nest: the layer, or the roles of its dims.
        choice: its choice.
        ways: devices of a group.
        direct: whether the terms of E_in go straight to the devices that need them and are left out here.
    """
    degrees = {dim: np.array([degree]) for dim, degree in choice.degrees}
    devices = choice.devices(ways)
    return tuple(
        Transfer(phase_of(tensor), tensor, kind, float(fraction[0]), devices)
        for tensor, kind, fraction in insides(nest, np.array([devices]), degrees, direct)
        if fraction[0]
    )


def insides(
    nest: Nest, working: Numbers, degrees: Mapping[str, Numbers], direct: bool
) -> Iterator[tuple[str, str, Costs]]:
    """Yield the reductions of a layer's partial sums for many choices at once.

    Args:
        nest: the layer, or the roles of its dims.
        working: number of working devices of each choice.
        degrees: degree of each divided dim in each choice.
        direct: see ``inside``.

    Yields:
        A tensor, its collective, and the fraction of it that all devices receive, for each choice.
    """
    sums = (Partial(), resolve(Partial()))
    first, weight, output, *others = nest.tensors
    for tensor in (output, weight) if direct else (output, first, *others, weight):
        shards, summed = np.ones_like(working), terms(nest, tensor, degrees) * np.ones_like(working)
        for dim, degree in degrees.items():
            if dim in nest.names[tensor]:
                shards = shards * degree
        if summed.max() > 1:
            received_by = {count: _total(*sums, count) for count in set(summed.tolist())}
            each = np.array([received_by[count] for count in summed.tolist()])
            yield tensor, collective(*sums), each * (working // summed) / shards


@lru_cache(maxsize=16384)
def between(
    made: Nest, maker: Choice, read: Nest, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[Transfer, ...]:
    """Return the transfers of F from producer to consumer and of E back, without halo.

    Partial sums are reduced first. Every device needs the whole of a gradient that is broadcast back over
    summed dims.
    """
    found = (
        Transfer(phase, "input", collective(before, after), _total(before, after, ways), ways)
        for phase, before, after in changes(made, maker, read, reader, contracted)
        if before != after
    )
    return tuple(transfer for transfer in found if transfer.fraction)


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


@lru_cache(maxsize=16384)
def crossing(
    made: Nest, maker: Choice, read: Nest, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[str, float] | None:
    """Return the collective that brings a consumer's halo, and the fraction of the halo that it must move.

    Returns:
        None if every device holds the whole tensor.
    """
    have, need = resolve(left(made, maker, contracted)), placement(read, dim_of(reader), "input")
    if isinstance(have, Replicate):
        return None
    shares = equal_shares(ways)
    alone, with_halo = received(have, need, shares), received(have, need, shares, 1)
    return collective(have, need), float(with_halo[0] - alone[0])


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


@lru_cache(maxsize=4096)
def _total(have: Placement, need: Placement, ways: int) -> float:
    """Return the fraction of a tensor received by all identical devices of a group together."""
    return float(sum(received(have, need, equal_shares(ways))))


def work(layer: PlanNode, choice: Choice, share: Number) -> Number:
    """Return the floating-point operations of the three phases that a group with a share performs.

    Source: AccPar (HPCA 2020), ``E_cp``: the share times the operations of the whole layer.
    """
    flop = sum(layer.nest.flop.values())
    return flop * share if dim_of(choice) else flop * (share * 0 + 1)
