"""Measured times of the exchange of gradients in place of a machine's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.schedule.moves import PHASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.step_times import StepTimes
    from hypar.schedule.moves import Move


def measured_moves(times: StepTimes | None, layers: Sequence[str], moves: Sequence[Move]) -> Sequence[Move]:
    """Return transfers in which the gradients of some layers take the measured time of their exchange.

    The first transfer of gradients takes it all, whatever the number of levels.

    Args:
        times: the measured times; None if the machine's own count.
        layers: the names of the layers that exchange their gradients together.
        moves: their transfers of all phases.
    """
    if times is None or not times.exchanges:
        return moves
    found, left_s = [], times.chunk_s(layers)
    for move in moves:
        own = move.phase == PHASE
        found.append(move._replace(seconds=left_s) if own else move)
        left_s = 0.0 if own else left_s
    return found
