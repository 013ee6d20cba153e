"""Totals over the tasks of a step: communication."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.schedule.moves import BETWEEN_STAGES

if TYPE_CHECKING:
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step


BETWEEN = "stages"
"""The name of the communication between stages, beside the levels inside them."""


def level_name(level: int) -> str:
    """Return the name of a level, as ``H1``; of ``BETWEEN_STAGES`` it is ``stages``."""
    return BETWEEN if level == BETWEEN_STAGES else f"H{level + 1}"


def received_at(step: Step, levels: int, *, stages: bool = False) -> dict[str, float]:
    """Sum the bytes that all devices receive at each level, and between stages if there are any."""
    found: dict[int, list[float]] = {level: [] for level in range(BETWEEN_STAGES if stages else 0, levels)}
    for move in step.moves:
        if move is not None:
            found[move.level].append(move.total_bytes)
    return {level_name(level): math.fsum(amounts) for level, amounts in found.items()}


def repeated(move: Move, microbatches: int) -> int:
    """Return how often a transfer runs in a mini-batch: gradients are added up once."""
    return 1 if move.phase == "gradient" else microbatches
