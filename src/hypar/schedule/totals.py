"""Totals over the tasks of a step: communication."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step


def received_at(step: Step, levels: int) -> dict[str, float]:
    """Sum the bytes that all devices receive at each level."""
    found: list[list[float]] = [[] for _ in range(levels)]
    for move in step.moves:
        if move is not None:
            found[move.level].append(move.total_bytes)
    return {f"H{level}": math.fsum(amounts) for level, amounts in enumerate(found, 1)}


def repeated(move: Move, microbatches: int) -> int:
    """Return how often a transfer runs in a mini-batch: gradients are added up once."""
    return 1 if move.phase == "gradient" else microbatches
