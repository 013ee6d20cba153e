"""Elements that each side of a fork receives, inside a layer and between two.

The same placements and the same ``received`` as at a level of like parts, with shares. A share is a number, or the
polynomial ``x``: what a side receives depends on its own share alone, and is then a polynomial in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.training import PHASES
from hypar.sharding.placement import Partial, Replicate, Shard, partial_results
from hypar.sharding.redistribution import Number, collective, received, resolve
from hypar.sharding.transfers import PHASE_OF, borders, changes, dim_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.contraction import CutLayer, Tensor
    from hypar.network.ops.base import Einsum
    from hypar.sharding.placement import Choice, Placement

Shares = tuple[Number, ...]
ROUNDING = 1e-12
"""A part of a tensor that is no more than pieces' ends differ by rounding."""

Halo = tuple[float, float]
"""Parts of a tensor that a side reads before its own piece and after it."""


class Amount(NamedTuple):
    """What one change of placement makes the sides of a fork receive.

    Attributes:
        phase: the phase whose result, or whose operand, moves.
        collective: the manner in which it moves, as ``all_reduce``.
        elements: what each side receives.
    """

    phase: str
    collective: str
    elements: tuple[Number, ...]


def inside(layer: CutLayer, choice: Choice, shares: Shares) -> Iterator[Amount]:
    """Adding up what a choice leaves partial, and the halo of a cut image's error.

    Args:
        layer: the layer.
        choice: what the fork does to it.
        shares: those of the sides; one without a share of a layer has no terms of its sums.
    """
    sums = (Partial(), resolve(Partial()))
    for tensor in partial_results(layer.einsum, dim_of(choice)):
        whole = layer.elements(tensor)
        yield Amount(PHASE_OF[tensor], collective(*sums), tuple(part * whole for part in _added_up(shares)))
    halo = _halo(layer.einsum, choice, shares)
    if any(map(any, halo)):
        elements = tuple(sum(past) * layer.einsum.input_elements for past in halo)
        yield Amount(PHASE_OF["input"], "neighbours", elements)


def _added_up(shares: Shares) -> list[Number]:
    """Parts of a partial tensor that the sides receive to add it up: those that have terms of it."""
    at_work = [share for share in shares if not _none(share)]
    parts = iter(received(Partial(), resolve(Partial()), at_work))
    return [share * 0 if _none(share) else next(parts) for share in shares]


def between(
    tensor: Tensor,
    ends: tuple[CutLayer, CutLayer],
    choices: tuple[Choice, Choice],
    shares: tuple[Shares, Shares],
) -> Iterator[Amount]:
    """F from producer to consumer, E from consumer to producer.

    Args:
        tensor: what the consumer reads.
        ends: producer and consumer.
        choices: what the fork does to each.
        shares: the sides' shares of each; one object where they are the same.
    """
    made, read = ends[0].einsum, ends[1].einsum
    summed, onward, back = changes(made, choices[0], read, choices[1], tensor.content.contracted)
    if isinstance(summed[1], Partial):
        parts = _added_up(shares[0])
        yield Amount(summed[0], collective(*summed[1:]), tuple(part * tensor.elements for part in parts))
    halo = _halo(read, choices[1], shares[1])
    moves = ((onward, shares[1], shares[0], halo), (back, shares[0], shares[1], [(0, 0)] * len(halo)))
    for (phase, before, after), mine, theirs, past in moves:
        parts = _received(before, after, mine, theirs, past)
        yield Amount(phase, collective(before, after), tuple(part * tensor.elements for part in parts))


def _received(
    before: Placement, after: Placement, mine: Shares, theirs: Shares, halo: Sequence[Halo]
) -> list[Number]:
    """Parts of a tensor that the sides receive; one without a share needs nothing, and had nothing whole."""
    held = None if mine is theirs else theirs
    parts = received(before, after, mine, 0, held)
    if any(map(any, halo)):
        parts = [received(before, after, mine, sum(past), held)[side] for side, past in enumerate(halo)]
    if before == after and held is not None and isinstance(after, Shard):
        parts = _beyond(held, mine, halo)
    for side, (needed, had) in enumerate(zip(mine, theirs, strict=True)):
        if _none(needed):
            parts[side] = needed * 0
        elif _none(had) and isinstance(before, Replicate):
            parts[side] = needed + sum(halo[side]) if isinstance(after, Shard) else needed * 0 + 1
    return parts


def _beyond(held: Shares, needed: Shares, halo: Sequence[Halo]) -> list[Number]:
    """What the sides lack of their pieces and halos of a dim that is cut by other shares."""
    found = []
    for side, (low, high) in enumerate(halo):
        first, last = sum(needed[:side]) - low, sum(needed[: side + 1]) + high
        start, end = sum(held[:side]), sum(held[: side + 1])
        lacking = last - first - max(0, min(last, end) - max(first, start))
        found.append(lacking if lacking > ROUNDING else 0)
    return found


def _none(share: Number) -> bool:
    """Whether a side has no share at all; an unknown share is one."""
    return not isinstance(share, np.ndarray) and share == 0


def _halo(einsum: Einsum, choice: Choice, shares: Shares) -> list[Halo]:
    """What each side reads past its own piece: half of a border's halo at each border, but not past the image's ends.

    Of unknown shares all sides are taken to have a piece, and the image to reach on as far as the windows do.
    """
    found: list[Halo] = [(0.0, 0.0)] * len(shares)
    known = not any(isinstance(share, np.ndarray) for share in shares)
    for border in borders(einsum, choice, len(shares)) if dim_of(choice) in einsum.windows else ():
        half = border.part / 2
        for side, share in enumerate(shares):
            before, after = (
                (sum(shares[:side]), sum(shares[side + 1 :]))
                if known
                else (half * (side > 0), half * (side < len(shares) - 1))
            )
            found[side] = (0.0, 0.0) if _none(share) else (min(half, before), min(half, after))
    return found


def work(layer: CutLayer, choice: Choice, share: Number) -> Number:
    """Floating-point operations of the three phases that a side with a share does.

    Source: AccPar (HPCA 2020), ``E_cp``: the share times the operations of the whole layer.
    """
    flop = sum(layer.einsum.flop(phase) for phase in PHASES)
    return flop * share if dim_of(choice) else flop * (share * 0 + 1)
