"""Stages run as a pipeline by the engine: one step, in which every stage has its full work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.plan.splits import stage_name
from hypar.schedule.pipeline import Pace, Send, full_step, lower, ran
from hypar.schedule.pipeline_orders import SCHEDULES, in_flight, staleness
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.request import Recipe
    from hypar.planning.stages.span import CutSpan
    from hypar.timeline import Timeline


@dataclass(frozen=True, eq=False, kw_only=True)
class Staging:
    """A network in stages, each cut over its own devices.

    Attributes:
        recipe: how stages are cut; its array is that inside a stage.
        microbatches: of a mini-batch.
        stages: first to last.
        in_flight: for each stage, microbatches whose activations it keeps at most.
        staleness: for each stage, by how many mini-batches the weights that a forward reads are behind at most.
        step: one step of the pipeline, a mini-batch.
    """

    recipe: Recipe
    microbatches: int
    stages: tuple[CutSpan, ...]
    in_flight: tuple[int, ...]
    staleness: tuple[int, ...]
    step: Timeline

    @property
    def bottleneck_s(self) -> float:
        """Seconds that a mini-batch keeps the costliest stage busy."""
        return max(span.seconds(self.microbatches) for span in self.stages)


def kept_in_flight(schedule: str, stages: int, microbatches: int) -> tuple[int, ...]:
    """For each stage, microbatches whose activations it keeps at most."""
    order = SCHEDULES[schedule]
    steps = (
        order.steps(stage, stages, microbatches, _minibatches(schedule, stages)) for stage in range(stages)
    )
    return tuple(in_flight(work for step in own for work in step) for own in steps)


def run_stages(recipe: Recipe, microbatches: int, stages: Sequence[CutSpan]) -> Staging:
    """The stages run as a pipeline.

    Args:
        recipe: how they are cut, and in what order they work.
        microbatches: of a mini-batch.
        stages: first to last.
    """
    paces = [_pace(stages, stage) for stage in range(len(stages))]
    order = SCHEDULES[recipe.schedule]
    lowered = lower(order, paces, microbatches, _minibatches(recipe.schedule, len(stages)))
    timeline = run(lowered.tasks)
    return Staging(
        recipe=recipe,
        microbatches=microbatches,
        stages=tuple(stages),
        in_flight=kept_in_flight(recipe.schedule, len(stages), microbatches),
        staleness=tuple(staleness(works, microbatches) for works in ran(lowered, timeline)),
        step=full_step(lowered, timeline),
    )


def _minibatches(schedule: str, stages: int) -> int:
    """So many that every stage has its full work in a step; after a flush the next is as the one before."""
    order = SCHEDULES[schedule]
    return 1 if order.flushes else order.minibatches(stages)


def _pace(stages: Sequence[CutSpan], stage: int) -> Pace:
    """How long a stage takes for a microbatch; what it sends keeps the receiver busy, or with overlap a link."""
    cuts = stages[stage].cuts
    overlap = cuts.lane.setting.machine.overlap

    def send(other: int, seconds: float) -> Send | None:
        resource = f"link {stage + 1}-{other + 1}" if overlap else stage_name(other)
        return Send(seconds, resource) if seconds else None

    ahead = send(stage + 1, stages[stage + 1].received_s) if stage + 1 < len(stages) else None
    back = send(stage - 1, stages[stage - 1].returned_s) if stage else None
    return Pace(*cuts.phases, ahead, back)
