"""The partition into stages whose costliest is cheapest, over spans of which as few as can be are planned.

Idea: the best partition by what spans cost at least; its spans are planned, their costs put in place of that, and so
on until a best partition has only spans that are planned.
Cost: a partition by dynamic programming each round; few rounds where spans cost little more than they do at least, and
at worst every span planned.
Guarantee: as exact as if all were planned, ties included: any other partition costs at least what was compared with.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.planning.stages.lower_bounds import ROUNDING, crossing_bytes, floors_of
from hypar.solve.partition import Partition, partition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.solve.edge import Costs


def best_partition(
    spans: CutSpans, microbatches: int, kept: Sequence[int], limit: float = math.inf
) -> Partition | None:
    """The best partition into stages; None where none that fits the memory is as cheap as a limit.

    Args:
        spans: the spans.
        microbatches: of a mini-batch.
        kept: for each stage, microbatches whose activations it keeps at most.
        limit: seconds that the costliest stage may take.
    """
    (costs, room), seams = floors_of(spans, microbatches), np.array(crossing_bytes(spans))
    planned = np.zeros(costs.shape, dtype=bool)

    def fitting(stage: int) -> Costs:
        return np.where(room >= kept[stage], costs, np.inf)

    while True:
        found = partition(fitting, len(kept), seams)
        if found is None or found.bottleneck > limit * (1 + ROUNDING):
            return None
        ahead = [ends for ends in pairwise(found.bounds) if not planned[ends]]
        if not ahead:
            return found
        for ends in ahead:
            span = spans.span(*ends)
            planned[ends], costs[ends] = True, span.seconds(microbatches)
            room[ends] = _room(span, {*kept})


def _room(span: CutSpan, kept: Collection[int]) -> int:
    """The most of some numbers of microbatches in flight that it has memory for."""
    machine = span.cuts.lane.setting.machine
    return max((count for count in kept if machine.fits(math.fsum(span.held(count).values()))), default=0)
