"""What a cut makes move, transfer by transfer: inside a layer and between two.

The one derivation that costs and schedules both read, so that search and verdict cannot disagree on bytes.
A transfer is in parts of a tensor, received by all devices of one group together; whoever asks knows how
many elements the group's tensor has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.ops.base import PHASES
from hypar.placement import Choice, Partial, Placement, Replicate, partial_results, placement
from hypar.traffic import Number, after_contraction, collective, equal_shares, received, resolve

if TYPE_CHECKING:
    from hypar.ops.base import Einsum

PHASE_OF = {phase.result: name for name, phase in PHASES.items()}
"""The phase that gives each tensor."""


class Transfer(NamedTuple):
    """One tensor's change of placement.

    Attributes:
        phase: the phase whose result, or whose operand, it moves.
        tensor: ``weight``, ``output`` (F_out) or ``input`` of the layer inside which it moves; between two
            layers ``input``, the one that the consumer reads.
        collective: the manner in which it moves, as ``all_reduce``.
        parts: parts of the tensor that all devices of a group receive.
    """

    phase: str
    tensor: str
    collective: str
    parts: float


@lru_cache(maxsize=16384)
def inside(einsum: Einsum, choice: Choice, ways: int) -> tuple[Transfer, ...]:
    """Adding up what a choice leaves partial, but for the halo of a cut image's error."""
    parts = _total(Partial(), resolve(Partial()), ways)
    kind = collective(Partial(), resolve(Partial()))
    return tuple(
        Transfer(PHASE_OF[tensor], tensor, kind, parts) for tensor in partial_results(einsum, choice)
    )


@lru_cache(maxsize=16384)
def between(
    made: Einsum, maker: Choice, read: Einsum, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[Transfer, ...]:
    """F from producer to consumer, E from consumer to producer, without halo.

    Partial sums are added up first. A gradient spread back over dims that were summed away is needed whole
    by every device.
    """
    have = left(made, maker, contracted)
    start = resolve(have)
    need, back = placement(read, reader, "input"), settled(read, reader, "input")
    moves = (("forward", have, start), ("forward", start, need), ("backward", back, start))
    found = (
        Transfer(phase, "input", collective(before, after), _total(before, after, ways))
        for phase, before, after in moves
        if before != after
    )
    return tuple(transfer for transfer in found if transfer.parts)


@lru_cache(maxsize=16384)
def border(einsum: Einsum, choice: Choice) -> float:
    """Parts of the whole F_in that the windows of two neighbouring pieces of a cut image both read."""
    window = einsum.windows.get(choice.dim or "")
    return 0.0 if window is None else window.halo / einsum.input_sizes[choice.dim or ""]


@lru_cache(maxsize=16384)
def crossing(
    made: Einsum, maker: Choice, read: Einsum, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[str, float] | None:
    """How a consumer's halo comes from a producer: in what manner, and how much of it is not held already.

    Returns:
        None where every device holds the whole tensor.
    """
    have, need = resolve(left(made, maker, contracted)), placement(read, reader, "input")
    if isinstance(have, Replicate):
        return None
    shares = equal_shares(ways)
    alone, with_halo = received(have, need, shares), received(have, need, shares, 1)
    return collective(have, need), float(with_halo[0] - alone[0])


def halo(part: float, size: Number, ways: int) -> Number:
    """Parts of a group's F_in that all its devices read past their own pieces.

    There are ``ways - 1`` borders, and no device reads more than all the rest of the image.

    Args:
        part: what ``border`` says.
        size: the part of the dim that the levels above have left: a number, or an array over their choices.
        ways: pieces.
    """
    return (ways - 1) * np.minimum(part / size, 1.0)


def left(made: Einsum, choice: Choice, contracted: frozenset[str]) -> Placement:
    """Where a producer leaves the tensor that its consumer reads."""
    return after_contraction(settled(made, choice, "output"), contracted)


def settled(einsum: Einsum, choice: Choice, tensor: str) -> Placement:
    """Where a result is once its partial sums are added up."""
    if tensor in partial_results(einsum, choice):
        return resolve(Partial())
    return placement(einsum, choice, tensor)


@lru_cache(maxsize=4096)
def _total(have: Placement, need: Placement, ways: int) -> float:
    """Parts of a tensor received by all like devices of a group."""
    return float(sum(received(have, need, equal_shares(ways))))
