"""Transfers against tensors that are really divided, element by element."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.sharding.placement import Partial, Placement, Replicate, Shard
from hypar.sharding.redistribution import after_contraction, equal_shares, received, resolve

DIMS = ("batch", "channels")
PLACED: list[Placement] = [Shard("batch"), Shard("channels"), Replicate()]


def held(
    placement: Placement, bounds: dict[str, list[int]], device: int, shape: tuple[int, int]
) -> np.ndarray:
    """A mask of the elements that a device holds."""
    mask = np.zeros(shape, dtype=bool)
    pieces = [slice(None), slice(None)]
    if isinstance(placement, Shard):
        cuts = bounds[placement.dim]
        pieces[DIMS.index(placement.dim)] = slice(cuts[device], cuts[device + 1])
    mask[tuple(pieces)] = True
    return mask


@given(
    pieces=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    have=st.sampled_from(PLACED),
    need=st.sampled_from(PLACED),
    scale=st.integers(1, 3),
)
def test_received_is_what_is_needed_less_what_is_held(
    pieces: list[int], have: Placement, need: Placement, scale: int
) -> None:
    cuts = [sum(pieces[:count]) for count in range(len(pieces) + 1)]
    shape = (cuts[-1], cuts[-1] * scale)
    bounds = {"batch": cuts, "channels": [cut * scale for cut in cuts]}
    shares = [Fraction(piece, cuts[-1]) for piece in pieces]
    counted = [
        int((held(need, bounds, device, shape) & ~held(have, bounds, device, shape)).sum())
        for device in range(len(pieces))
    ]
    assert [part * shape[0] * shape[1] for part in received(have, need, shares)] == counted


@given(pieces=st.lists(st.integers(1, 4), min_size=2, max_size=5), need=st.sampled_from(PLACED))
def test_partial_sums_are_added_by_reduce_scatter_then_all_gather(pieces: list[int], need: Placement) -> None:
    total = sum(pieces)
    shares = [Fraction(piece, total) for piece in pieces]
    scattered = received(Partial(), Shard("batch"), shares)
    # A device gets one term of each of its elements from every other device ...
    assert [part * total for part in scattered] == [(len(pieces) - 1) * piece for piece in pieces]
    if isinstance(need, Replicate):
        gathered = received(Shard("batch"), need, shares)
        assert received(Partial(), need, shares) == [a + b for a, b in zip(scattered, gathered, strict=True)]


@pytest.mark.parametrize("ways", [2, 3, 4, 16])
def test_equal_ways_give_the_closed_forms(ways: int) -> None:
    k = Fraction(ways)
    shares = [1 / k] * ways

    def each(have: Placement, need: Placement) -> Fraction:
        (part,) = set(received(have, need, shares))
        return Fraction(part)

    assert each(Shard("batch"), Shard("batch")) == 0
    assert each(Replicate(), Shard("batch")) == 0
    assert each(Shard("batch"), Replicate()) == (k - 1) / k
    assert each(Partial(), Shard("batch")) == (k - 1) / k
    assert each(Shard("batch"), Shard("channels")) == (k - 1) / k**2
    assert each(Partial(), Replicate()) == 2 * (k - 1) / k


def test_a_halo_is_received_besides_the_shard() -> None:
    halo = Fraction(1, 8)
    shares = [Fraction(1, 2)] * 2
    assert received(Shard("height"), Shard("height"), shares, halo) == [halo, halo]
    assert received(Replicate(), Shard("height"), shares, halo) == [0, 0]
    # Of a shard and its halo a device of another dim's shard holds its share already.
    assert received(Shard("batch"), Shard("height"), shares, halo) == [(Fraction(1, 2) + halo) / 2] * 2


def test_partial_sums_go_on_replicated_and_a_contraction_makes_partial_sums() -> None:
    assert resolve(Partial()) == Replicate()
    assert resolve(Shard("batch")) == Shard("batch")
    assert after_contraction(Shard("height"), frozenset({"height"})) == Partial()
    assert after_contraction(Shard("batch"), frozenset({"height"})) == Shard("batch")
    assert sum(equal_shares(4)) == 1
