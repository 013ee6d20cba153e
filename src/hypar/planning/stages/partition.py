"""Find the partition whose costliest stage costs least, planning as few spans as possible.

Idea: find the best partition by lower bounds, plan its spans, replace their bounds by costs, and repeat until all
spans of the best partition are planned.
Cost: one dynamic program for each round; few rounds if the bounds are tight, and at worst every span is planned.
Guarantee: the same result as with all spans planned, ties included: every other partition costs at least its bound.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.stages.lower_bounds import ROUNDING, crossing_bytes, lower_bounds_of
from hypar.solve.partition import Partition, partition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.solve.edge import Costs


def best_partition(
    spans: CutSpans,
    microbatches: int,
    kept: Sequence[int],
    limit: float = math.inf,
    balance: str = "time",
) -> Partition | None:
    """Return the best partition into stages, or None if none that fits the memory is within a limit.

    Args:
        spans: the spans.
        microbatches: microbatches in a mini-batch.
        kept: for each stage, the largest number of microbatches whose activations it keeps.
        limit: what the costliest stage may cost.
        balance: the quantity that a stage costs, one of ``BALANCES``.
    """
    least, seams = lower_bounds_of(spans, microbatches), np.array(crossing_bytes(spans))
    room, counts = least.room(spans.setting.machine.memory_bytes), {*kept}
    # Memory alone depends on the stage, by the number of microbatches in flight.
    alike = least.of(balance, 0).copy()
    costs = {count: least.of(balance, count) if balance == "memory" else alike for count in counts}
    planned = np.zeros(room.shape, dtype=bool)

    def fitting(stage: int) -> Costs:
        return np.where(room >= kept[stage], costs[kept[stage]], np.inf)

    while True:
        found = partition(fitting, len(kept), seams)
        if found is None or found.bottleneck > limit * (1 + ROUNDING):
            return None
        ahead = [ends for ends in pairwise(found.bounds) if not planned[ends]]
        if not ahead:
            return found
        for ends in ahead:
            span = spans.span(*ends)
            planned[ends], room[ends] = True, _room(span, counts)
            for count, own in costs.items():
                own[ends] = span.cost(balance, microbatches, count)


def _room(span: CutSpan, kept: Collection[int]) -> int:
    """Return the largest of several numbers of microbatches in flight that fits the memory."""
    machine = span.cuts.lane.setting.machine
    return max((count for count in kept if machine.fits(math.fsum(span.held(count).values()))), default=0)
