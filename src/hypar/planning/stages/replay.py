"""Rebuild the stages of a stored plan, with its partition and its cuts, on any machine."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.planning.stages.running import run_stages
from hypar.planning.stages.spans import CutSpans
from hypar.schedule.lanes import LaneWork
from hypar.schedule.step import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.splits import StagesRecord
    from hypar.planning.request import Request
    from hypar.planning.stages.running import Staging
    from hypar.sharding.placement import Options
    from hypar.timeline import Task


def stored_stages(
    plan: Plan, stages: StagesRecord, graph: LayerGraph, choices: Sequence[Options], request: Request
) -> Staging:
    """Run the stages that a plan records.

    Args:
        plan: the plan.
        stages: its stages.
        graph: the network, with the plan's mini-batch.
        choices: for each layer a choice at each level.
        request: the request, for its machine and optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    own = replace(request, array=tuple(plan.array), pins=(), schedule=stages.schedule)
    spans = CutSpans.of(own, graph, (len(stages.stages), stages.microbatches))
    bounds = accumulate((len(stage.layers) for stage in stages.stages), initial=0)
    found = [spans.given(start, end, tuple(choices[start:end])) for start, end in pairwise(bounds)]
    return run_stages(own, stages.microbatches, found)


def microbatch_step(staging: Staging) -> Step:
    """Return the tasks of a microbatch in every stage, one lane for each, without transfers between stages."""
    steps = [span.step for span in staging.stages]
    layers = [len(step.work[0].times) for step in steps]
    firsts = [*accumulate(layers, initial=0)]
    before = accumulate((len(step.tasks) for step in steps), initial=0)
    return Step(
        tasks=tuple(_moved(task, by) for step, by in zip(steps, before, strict=False) for task in step.tasks),
        layers=tuple(
            first + layer for step, first in zip(steps, firsts, strict=False) for layer in step.layers
        ),
        moves=tuple(move for step in steps for move in step.moves),
        lanes=tuple((stage,) for stage, step in enumerate(steps) for _ in step.tasks),
        work=tuple(
            _padded(step.work[0], first, firsts[-1]) for step, first in zip(steps, firsts, strict=False)
        ),
    )


def _moved(task: Task, by: int) -> Task:
    return task._replace(after=tuple(before + by for before in task.after))


def _padded(work: LaneWork, first: int, layers: int) -> LaneWork:
    """Return the work of consecutive layers, starting at ``first``, padded to a number of layers."""
    behind = layers - first - len(work.times)
    return LaneWork(
        times=(*(None,) * first, *work.times, *(None,) * behind),
        working=(*(0,) * first, *work.working, *(0,) * behind),
    )
