"""Run the stages of a plan again: those that a stored plan records, on any machine, or those whose cuts are refined."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.planning.climb import refine
from hypar.planning.stages.running import run_stages
from hypar.planning.stages.sites import spans_of
from hypar.planning.stages.spans import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.records import RefinementRecord
    from hypar.plan.stages import StagesRecord
    from hypar.planning.levels import Node
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
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


def refine_stages(
    staging: Staging, spans: Sequence[CutSpans], progress: Callable[[int, int], None]
) -> tuple[Staging, RefinementRecord]:
    """Exchange choices inside stages one by one as long as the engine's time decreases.

    Args:
        staging: the stages.
        spans: for each stage the spans that it is of.
        progress: called with the number of layers done in a round, and their total.
    """
    bounds = pairwise(accumulate((span.layers for span in staging.stages), initial=0))
    places = [*zip(spans, bounds, strict=True)]
    start = [
        own.of_batch(span.cuts.node, *ends) for span, (own, ends) in zip(staging.stages, places, strict=True)
    ]
    alone = replace(staging.request, chunks=None)

    def taking(choices: Sequence[Options]) -> list[Node]:
        chosen = iter(choices)
        return [node.taking(chosen) for node in start]

    def cut(nodes: Sequence[Node]) -> list[CutSpan]:
        each = zip(places, nodes, strict=True)
        return joined(spans, [own.having(*ends, node) for (own, ends), node in each])

    def seconds(choices: Sequence[Options]) -> float:
        return run_stages(alone, staging.microbatches, cut(taking(choices))).ran.timeline.makespan

    slots = [slot for own, node in zip(spans, start, strict=True) for slot in own.planner.slots(node)]
    found = refine(slots, seconds, progress)
    nodes = [own.costed(node, *ends) for (own, ends), node in zip(places, taking(found.choices), strict=True)]
    return run_stages(staging.request, staging.microbatches, cut(nodes)), found.record
