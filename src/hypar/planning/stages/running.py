"""Run stages as a pipeline in the engine: one step, in which every stage has its full work."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from hypar.plan.splits import stage_name
from hypar.planning.chunks.replay import chunks_of
from hypar.planning.chunks.search import Chunked, run_chunked
from hypar.planning.stages.places import places_for
from hypar.schedule.lanes import StagePlace
from hypar.schedule.pipeline import Pace, Send, full_step, lower
from hypar.schedule.pipeline_orders import SCHEDULES, in_flight, staleness
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import Order, StageWork, StepWork
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.plan.chunks import ChunksRecord
    from hypar.plan.score import Score
    from hypar.planning.request import Request
    from hypar.planning.stages.span import CutSpan
    from hypar.schedule.lanes import Crossing
    from hypar.schedule.pipeline_orders import Work


@dataclass(frozen=True, eq=False, kw_only=True)
class Staging:
    """A network divided into stages, each cut over its own devices.

    Attributes:
        request: the request; its array is the one inside a stage.
        microbatches: microbatches in a mini-batch.
        stages: the stages, first to last.
        work: the devices of each stage, with their work for a microbatch.
        in_flight: for each stage, the largest number of microbatches whose activations it keeps.
        staleness: for each stage, the largest number of mini-batches by which the weights that a forward reads are behind.
        ran: a mini-batch, with its chunks.
    """

    request: Request
    microbatches: int
    stages: tuple[CutSpan, ...]
    work: StepWork
    in_flight: tuple[int, ...]
    staleness: tuple[int, ...]
    ran: Chunked

    @property
    def score(self) -> Score:
        """The score of a step."""
        lanes = self.work.lanes
        machine = self.request.heterogeneous or lanes[0].setting.machine
        return summarise(lanes, self.ran.step, self.ran.timeline, machine)

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
    return tuple(map(in_flight, _works(schedule, stages, microbatches)))


def _works(schedule: str, stages: int, microbatches: int) -> Iterator[list[Work]]:
    """Yield the work of each stage in order."""
    for stage in range(stages):
        steps = SCHEDULES[schedule].steps(stage, stages, microbatches, _minibatches(schedule, stages))
        yield [*chain.from_iterable(steps)]


def run_stages(
    request: Request, microbatches: int, stages: Sequence[CutSpan], stored: ChunksRecord | None = None
) -> Staging:
    """Run the stages as a pipeline.

    Args:
        request: the request, with the schedule and the requested chunks.
        microbatches: microbatches in a mini-batch.
        stages: the stages, first to last.
        stored: the chunks of a stored plan, in place of the requested ones.
    """
    schedule, count = request.schedule, len(stages)
    kept = kept_in_flight(schedule, count, microbatches)
    works = []
    for number, (span, most) in enumerate(zip(stages, kept, strict=True)):
        lanes = []
        for lane in span.cuts.lanes:
            places = places_for(lane.setting.machine, lane.setting.array, span.site.stages)
            place = StagePlace(places, microbatches, most, lane.place.outside, span.site.outward)
            own = lane.name if span.cuts.tree is not None else ""
            lanes.append(lane.at(f"{stage_name(number)} {own}".rstrip(), place))
        crossings = tuple(_of_stage(crossing, number) for crossing in span.cuts.crossings)
        works.append(StageWork(tuple(lanes), crossings, span.received, span.returned))
    order = Order(SCHEDULES[schedule], microbatches, _minibatches(schedule, count))
    work = StepWork(stages=tuple(works), order=order)
    chunks = chunks_of(stored, work, "chunks.layers")
    return Staging(
        request=request,
        microbatches=microbatches,
        stages=tuple(stages),
        work=work,
        in_flight=kept,
        staleness=tuple(staleness(own, microbatches) for own in _works(schedule, count, microbatches)),
        ran=run_chunked(work, request.chunks) if chunks is None else Chunked(*work.run(chunks), stored),
    )


def _of_stage(crossing: Crossing, number: int) -> Crossing:
    """Return an uneven split whose groups are named after their stage."""
    named = (to._replace(name=f"{stage_name(number)} {to.name}") for to in crossing.receivers)
    return crossing._replace(receivers=tuple(named))


def estimated_s(request: Request, microbatches: int, stages: Sequence[CutSpan]) -> float:
    """Return the time of a step, exactly where nothing overlaps; otherwise each phase of a stage is taken as one task.

    Arguments as in ``run_stages``.
    """
    paces = [_pace(stages, stage) for stage in range(len(stages))]
    order = SCHEDULES[request.schedule]
    lowered = lower(order, paces, microbatches, _minibatches(request.schedule, len(stages)))
    return full_step(lowered, run(lowered.tasks)).makespan


def _minibatches(schedule: str, stages: int) -> int:
    """Return the number of mini-batches that gives every stage its full work in a step: 1 if the pipeline flushes."""
    order = SCHEDULES[schedule]
    return 1 if order.flushes else order.minibatches(stages)


def _pace(stages: Sequence[CutSpan], stage: int) -> Pace:
    """Return a stage's times for a microbatch; its sends occupy the receiver, or a link if transfers overlap there."""
    cuts = stages[stage].cuts

    def send(other: int, seconds: float) -> Send | None:
        overlap = stages[other].cuts.overlap
        resource = f"link {stage + 1}-{other + 1}" if overlap else stage_name(other)
        return Send(seconds, resource) if seconds else None

    ahead = send(stage + 1, stages[stage + 1].received.seconds) if stage + 1 < len(stages) else None
    back = send(stage - 1, stages[stage - 1].returned.seconds) if stage else None
    forward, backward, once, behind = cuts.phases
    return Pace(forward, backward, once, ahead, back, behind)
