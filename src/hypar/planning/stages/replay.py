"""Rebuild the stages of a stored plan, with its partition and its cuts, on any machine."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.planning.stages.running import run_stages
from hypar.planning.stages.sites import spans_of
from hypar.planning.stages.spans import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.stages import StagesRecord
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.running import Staging
    from hypar.sharding.placement import Options


def stored_stages(
    plan: Plan,
    stages: StagesRecord,
    graph: LayerGraph,
    choices: Sequence[Options],
    request: Resolved,
    *,
    costed: bool = False,
) -> Staging:
    """Run the stages that a plan records.

    Args:
        plan: the plan.
        stages: its stages.
        graph: the network, with the plan's mini-batch.
        choices: for each layer a choice at each level.
        request: the request, for its machine and optimizer.
        costed: whether the cuts have the costs by the request.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    request = request.as_planned(plan)
    own = replace(request, pins=(), schedule=stages.schedule, parts=stages.parts_of_each)
    spans = spans_of(own, graph, [stage.group for stage in stages.stages], stages.microbatches)
    bounds = accumulate((len(layers) for _, layers in stages.spans), initial=0)
    found = [
        of_stage.stored(plan, start, end, tuple(choices[start:end]), costed=costed)
        for of_stage, (start, end) in zip(spans, pairwise(bounds), strict=True)
    ]
    return run_stages(own, stages.microbatches, joined(spans, found), plan.chunks)
