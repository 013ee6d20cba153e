"""What a cut makes move, transfer by transfer: inside a layer and between two.

The one derivation that costs and schedules both read, so that search and verdict cannot disagree on bytes.
A transfer is in parts of a tensor, received by all devices of one group together; whoever asks knows how
many elements the group's tensor has. This module is for choices that use every device of a group for one dim;
``regrids`` does the same for grids of several dims and for whole elements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.training import PHASES
from hypar.sharding.placement import (
    Choice,
    Partial,
    Placement,
    Replicate,
    divisor,
    partial_results,
    placement,
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

    from hypar.network.ops.base import Einsum, Roles
    from hypar.solve.edge import Costs

    Numbers = NDArray[np.int64]

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
        devices: how many of them receive, all alike.
    """

    phase: str
    tensor: str
    collective: str
    parts: float
    devices: int


class Border(NamedTuple):
    """Where the pieces of a cut image meet.

    Attributes:
        dim: the dim that is cut.
        part: parts of the whole F_in that the windows of two neighbouring pieces both read.
        pieces: how many there are.
        copies: how many devices read each piece.
    """

    dim: str
    part: float
    pieces: int
    copies: int


@lru_cache(maxsize=16384)
def simple(choice: Choice, ways: int) -> bool:
    """Whether a choice uses all devices of a group, for one dim at most."""
    return len(choice.divided) <= 1 and choice.devices(ways) == ways


@lru_cache(maxsize=16384)
def inside(einsum: Einsum, choice: Choice, ways: int, direct: bool = False) -> tuple[Transfer, ...]:
    """Adding up what a choice leaves partial, but for the halo of a cut image's error.

    The devices that have terms of one piece add them up among themselves.

    Args:
        einsum: the layer.
        choice: what is done to it.
        ways: devices of a group.
        direct: whether the terms of E_in go straight to where they are needed, and so not here.
    """
    degrees = {dim: np.array([degree]) for dim, degree in choice.degrees}
    devices = choice.devices(ways)
    return tuple(
        Transfer(PHASE_OF[tensor], tensor, kind, float(parts[0]), devices)
        for tensor, kind, parts in insides(einsum, np.array([devices]), degrees, direct)
        if parts[0]
    )


def insides(
    einsum: Einsum | Roles, working: Numbers, degrees: Mapping[str, Numbers], direct: bool
) -> Iterator[tuple[str, str, Costs]]:
    """The same for many choices at once.

    Args:
        einsum: the layer, or the roles of its dims.
        working: how many devices work for each choice.
        degrees: over how many parts each choice divides some dims.
        direct: as of ``inside``.

    Yields:
        A tensor, the manner in which it moves, and the parts of it that all devices receive, for each choice.
    """
    sums = (Partial(), resolve(Partial()))
    for tensor in ("output", "weight") if direct else ("output", "input", "weight"):
        terms, pieces = np.ones_like(working), np.ones_like(working)
        for dim, degree in degrees.items():
            if tensor in partial_results(einsum, dim):
                terms = terms * degree
            if dim in einsum.dims(tensor):
                pieces = pieces * degree
        if terms.max() > 1:
            received_by = {count: _total(*sums, count) for count in set(terms.tolist())}
            each = np.array([received_by[count] for count in terms.tolist()])
            yield tensor, collective(*sums), each * (working // terms) / pieces


@lru_cache(maxsize=16384)
def between(
    made: Einsum, maker: Choice, read: Einsum, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[Transfer, ...]:
    """F from producer to consumer, E from consumer to producer, without halo.

    Partial sums are added up first. A gradient spread back over dims that were summed away is needed whole
    by every device.
    """
    found = (
        Transfer(phase, "input", collective(before, after), _total(before, after, ways), ways)
        for phase, before, after in changes(made, maker, read, reader, contracted)
        if before != after
    )
    return tuple(transfer for transfer in found if transfer.parts)


@lru_cache(maxsize=16384)
def changes(
    made: Einsum, maker: Choice, read: Einsum, reader: Choice, contracted: frozenset[str]
) -> tuple[tuple[str, Placement, Placement], ...]:
    """Phase, placement before and placement after of all that may move between producer and consumer.

    Adding up what ops between have left partial, F to the consumer, and E back to the producer.
    """
    have = left(made, maker, contracted)
    start = resolve(have)
    need, back = placement(read, dim_of(reader), "input"), settled(read, reader, "input")
    return ("forward", have, start), ("forward", start, need), ("backward", back, start)


@lru_cache(maxsize=16384)
def borders(einsum: Einsum, choice: Choice, ways: int) -> tuple[Border, ...]:
    """The borders of a cut image that windows reach over."""
    copies = choice.devices(ways) // divisor(einsum, choice, "input")
    windows = ((dim, einsum.windows[dim]) for dim in choice.divided if dim in einsum.windows)
    return tuple(
        Border(dim, window.halo / einsum.input_sizes[dim], choice.degree(dim), copies)
        for dim, window in windows
        if window.halo and einsum.input_sizes[dim]
    )


@lru_cache(maxsize=16384)
def crossing(
    made: Einsum, maker: Choice, read: Einsum, reader: Choice, contracted: frozenset[str], ways: int
) -> tuple[str, float] | None:
    """How a consumer's halo comes from a producer: in what manner, and how much of it is not held already.

    Returns:
        None where every device holds the whole tensor.
    """
    have, need = resolve(left(made, maker, contracted)), placement(read, dim_of(reader), "input")
    if isinstance(have, Replicate):
        return None
    shares = equal_shares(ways)
    alone, with_halo = received(have, need, shares), received(have, need, shares, 1)
    return collective(have, need), float(with_halo[0] - alone[0])


def halo(border: Border, size: Number) -> Number:
    """Parts of a group's F_in that all its devices read past their own pieces.

    Half of a border's halo lies on each of its sides, and no device reads past the ends of the image:
    ``2 * (sum over i from 1 to pieces - 1 of min(i / pieces, halo / 2))``.

    Args:
        border: where pieces meet.
        size: the part of the dim that the levels above have left: a number, or an array over their choices.
    """
    pieces, part = border.pieces, np.minimum(border.part / size, 1.0)
    if pieces == 2:
        return border.copies * part  # what the sum comes to, and by far the most frequent
    short = np.minimum(pieces - 1, np.floor(pieces * part / 2))
    return border.copies * (short * (short + 1) / pieces + (pieces - 1 - short) * part)


@lru_cache(maxsize=16384)
def dim_of(choice: Choice) -> str | None:
    """The one dim that a simple choice divides; None where every device does the whole layer."""
    return next(iter(choice.divided), None)


def left(made: Einsum, choice: Choice, contracted: frozenset[str]) -> Placement:
    """Where a producer leaves the tensor that its consumer reads."""
    return after_contraction(settled(made, choice, "output"), contracted)


def settled(einsum: Einsum, choice: Choice, tensor: str) -> Placement:
    """Where a result is once its partial sums are added up."""
    if tensor in partial_results(einsum, dim_of(choice)):
        return resolve(Partial())
    return placement(einsum, dim_of(choice), tensor)


@lru_cache(maxsize=4096)
def _total(have: Placement, need: Placement, ways: int) -> float:
    """Parts of a tensor received by all like devices of a group."""
    return float(sum(received(have, need, equal_shares(ways))))
