"""Communication of a change of placement: the elements that a device needs and does not hold.

Amounts are fractions of the whole tensor for each device of one level. The *shares* of the devices (1/k each,
or any that sum to 1) are the fractions of a divided dim that they hold. Numbers may be floats, fractions or
numpy arrays. The tables of HyPar and AccPar are tests, not code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.sharding.placement import Partial, Placement, Replicate, Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = Any
"""A float, a fraction or an array."""


def collective(have: Placement, need: Placement) -> str:
    """Return the collective that takes a tensor from one placement to another.

    Examples:
        >>> collective(Partial(), Replicate()), collective(Shard("batch"), Shard("channels"))
        ('all_reduce', 'all_to_all')
    """
    if isinstance(have, Partial):
        return "reduce_scatter" if isinstance(need, Shard) else "all_reduce"
    if have == need or isinstance(have, Replicate):
        return "neighbours"
    return "all_to_all" if isinstance(need, Shard) else "all_gather"


def equal_shares(ways: int) -> tuple[float, ...]:
    """Return the shares of ``ways`` identical devices."""
    return (1 / ways,) * ways


def received(
    have: Placement,
    need: Placement,
    shares: Sequence[Number],
    halo: Number = 0,
    held: Sequence[Number] | None = None,
) -> list[Number]:
    """Return the fraction of a tensor that each device receives to go from one placement to another.

    A device that needs a ``Shard`` of another dim holds only the intersection of both its shards. A device that
    needs the sum of ``Partial`` terms receives the terms of the other devices.

    Args:
        have: the placement before.
        need: the placement after; never ``Partial``.
        shares: each device's share, summing to 1.
        halo: the fraction of the tensor that a device needs beyond its own shard.
        held: each device's share before, if it differs from the share after.

    Returns:
        One number for each device.

    Examples:
        >>> from fractions import Fraction
        >>> received(Shard("batch"), Replicate(), (Fraction(1, 4), Fraction(3, 4)))
        [Fraction(3, 4), Fraction(1, 4)]
        >>> received(Shard("batch"), Shard("batch"), (0.25, 0.75), held=(0.5, 0.5))
        [0.0, 0.25]
    """
    if isinstance(have, Partial):
        return _received_sum(need, shares)
    needed = [_held(need, share) + halo for share in shares]
    if isinstance(have, Replicate):
        return [amount * 0 for amount in needed]
    if have == need and held is None:
        return [halo + share * 0 for share in shares]
    if have == need:
        return [amount - own for amount, own in zip(needed, _overlaps(held or shares, shares), strict=True)]
    own = shares if held is None else held
    return [amount - amount * _held(have, share) for amount, share in zip(needed, own, strict=True)]


def _overlaps(held: Sequence[Number], needed: Sequence[Number]) -> list[Number]:
    """Return the intersection of each device's shards of a dim under two sets of shares, in device order."""
    found, starts = [], [held[0] * 0, held[0] * 0]
    for pair in zip(held, needed, strict=True):
        ends = [start + share for start, share in zip(starts, pair, strict=True)]
        found.append(max(min(ends) - max(starts), held[0] * 0))
        starts = ends
    return found


def _received_sum(need: Placement, shares: Sequence[Number]) -> list[Number]:
    """Return the fractions received to reduce partial sums: to the own shard, or to the whole tensor."""
    others = len(shares) - 1
    scattered = [others * share for share in shares]
    if isinstance(need, Shard):
        return scattered
    gathered = [1 - share for share in shares]
    return [terms + rest for terms, rest in zip(scattered, gathered, strict=True)]


def _held(placement: Placement, share: Number) -> Number:
    return share if isinstance(placement, Shard) else share * 0 + 1


def resolve(result: Placement) -> Placement:
    """Return the placement in which a phase's result is used: partial sums are reduced to Replicate.

    Source: the convention of HyPar (HPCA 2019, section 3) and AccPar (HPCA 2020), here called ``paper``.
    """
    return Replicate() if isinstance(result, Partial) else result


def after_contraction(have: Placement, contracted: frozenset[str]) -> Placement:
    """Return the placement of a tensor after ops between two layers have summed some of its dims."""
    return Partial() if isinstance(have, Shard) and have.dim in contracted else have


COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change a placement; ``neighbours`` exchanges halos."""

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""
