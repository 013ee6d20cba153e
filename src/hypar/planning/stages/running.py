"""Run stages as a pipeline in the engine: one step, in which every stage has its full work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.plan.splits import stage_name
from hypar.schedule.pipeline import Pace, Send, full_step, lower, ran
from hypar.schedule.pipeline_orders import SCHEDULES, in_flight, staleness
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.request import Request
    from hypar.planning.stages.span import CutSpan
    from hypar.timeline import Timeline


@dataclass(frozen=True, eq=False, kw_only=True)
class Staging:
    """A network divided into stages, each cut over its own devices.

    Attributes:
        request: the request; its array is the one inside a stage.
        microbatches: microbatches in a mini-batch.
        stages: the stages, first to last.
        in_flight: for each stage, the largest number of microbatches whose activations it keeps.
        staleness: for each stage, the largest number of mini-batches by which the weights that a forward reads are behind.
        step: one step of the pipeline, a mini-batch.
    """

    request: Request
    microbatches: int
    stages: tuple[CutSpan, ...]
    in_flight: tuple[int, ...]
    staleness: tuple[int, ...]
    step: Timeline

    @property
    def bottleneck_s(self) -> float:
        """Seconds for which a mini-batch keeps the busiest stage busy."""
        return self.costliest("time")

    def costliest(self, balance: str) -> float:
        """Return what the costliest stage costs, by one of ``BALANCES``."""
        pairs = zip(self.stages, self.in_flight, strict=True)
        return max(span.cost(balance, self.microbatches, in_flight) for span, in_flight in pairs)


def kept_in_flight(schedule: str, stages: int, microbatches: int) -> tuple[int, ...]:
    """Return for each stage the largest number of microbatches whose activations it keeps."""
    order = SCHEDULES[schedule]
    steps = (
        order.steps(stage, stages, microbatches, _minibatches(schedule, stages)) for stage in range(stages)
    )
    return tuple(in_flight(work for step in own for work in step) for own in steps)


def run_stages(request: Request, microbatches: int, stages: Sequence[CutSpan]) -> Staging:
    """Run the stages as a pipeline.

    Args:
        request: the request, with the schedule.
        microbatches: microbatches in a mini-batch.
        stages: the stages, first to last.
    """
    paces = [_pace(stages, stage) for stage in range(len(stages))]
    order = SCHEDULES[request.schedule]
    lowered = lower(order, paces, microbatches, _minibatches(request.schedule, len(stages)))
    timeline = run(lowered.tasks)
    return Staging(
        request=request,
        microbatches=microbatches,
        stages=tuple(stages),
        in_flight=kept_in_flight(request.schedule, len(stages), microbatches),
        staleness=tuple(staleness(works, microbatches) for works in ran(lowered, timeline)),
        step=full_step(lowered, timeline),
    )


def _minibatches(schedule: str, stages: int) -> int:
    """Return the number of mini-batches that gives every stage its full work in a step: 1 if the pipeline flushes."""
    order = SCHEDULES[schedule]
    return 1 if order.flushes else order.minibatches(stages)


def _pace(stages: Sequence[CutSpan], stage: int) -> Pace:
    """Return a stage's times for a microbatch; its sends occupy the receiver, or a link if transfers overlap."""
    cuts = stages[stage].cuts
    overlap = cuts.lane.setting.machine.overlap

    def send(other: int, seconds: float) -> Send | None:
        resource = f"link {stage + 1}-{other + 1}" if overlap else stage_name(other)
        return Send(seconds, resource) if seconds else None

    ahead = send(stage + 1, stages[stage + 1].received.seconds) if stage + 1 < len(stages) else None
    back = send(stage - 1, stages[stage - 1].returned.seconds) if stage else None
    return Pace(*cuts.phases, ahead, back)
