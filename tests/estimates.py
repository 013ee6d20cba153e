"""A second count of the seconds of a step in stages: each phase of a stage is one task, whose pieces are added up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.records import stage_name
from hypar.planning.stages.running import exchanges_of
from hypar.schedule.lanes import COMMUNICATION, Piece
from hypar.schedule.pipeline_orders import Schedule
from hypar.schedule.record import ERROR, INPUT, Op, Record
from hypar.schedule.stages import part_of
from hypar.schedule.tasks import PartTasks, Pipeline, TaskList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.stages.spans import CutSpan
    from hypar.schedule.tasks import Costed


class Pace(NamedTuple):
    """The seconds of the phases of a stage for a microbatch, and of what it receives from the stage before and behind.

    Of the backward phase those are ``behind`` the error that goes to the stage before that are of the first layer's gradient.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 0.0
    received: float = 0.0
    returned: float = 0.0
    behind: float = 0.0
    overlap: bool = False


def pace_of(span: CutSpan) -> Pace:
    """The pace of a span; where nothing overlaps, as the sums over its pieces."""
    part = part_of(span.work, TaskList(not lane.setting.machine.overlap for lane in span.lanes))
    first = [
        piece.seconds
        for op, rounds in part.ops("backward", True)
        if op.kind == "compute" and op.phase == "gradient" and op.node == 0 and not op.once
        for pieces in rounds
        for piece in pieces
    ]
    behind = 0.0 if span.overlap else math.fsum(first)
    received, returned = span.work.received.seconds, span.work.returned.seconds
    return Pace(*span.phases, received, returned, behind, span.overlap)


def estimated_s(stages: Sequence[CutSpan]) -> float:
    """The time of a step; gradients of tied weights that several stages add up follow when all stages are done."""
    request, microbatches = stages[0].spans.request, stages[0].spans.microbatches
    schedule = Schedule(request.schedule, request.parts or 1)
    count = len(stages) // schedule.parts
    last = (max(own.link_s for _, _, own in tied) for tied in exchanges_of(stages, count)[0])
    _, pipeline = paced(schedule, [*map(pace_of, stages)])
    return pipeline.run(schedule, microbatches).makespan + sum(last)


def paced(schedule: Schedule, paces: Sequence[Pace]) -> tuple[TaskList, Pipeline]:
    """Parts of stages, each phase of which is a task."""
    count = len(paces) // schedule.parts
    found = TaskList(not pace.overlap for pace in paces[:count])
    parts = [_in_phases(found, number % count, number, pace) for number, pace in enumerate(paces)]
    return found, Pipeline(found, parts, count)


def _in_phases(found: TaskList, stage: int, number: int, pace: Pace) -> PartTasks:
    def task(kind: str, seconds: float, reads: tuple[int, ...], writes: tuple[int, ...] = ()) -> Costed:
        piece = Piece((stage,), (stage,), stage_name(stage), seconds, kind)
        return Op("update" if kind == "update" else "compute", kind, 0, reads, writes), ((piece,),)

    ahead = [task("forward", pace.forward, (INPUT,), (2,))]
    back = [task("backward", pace.backward - pace.behind, (ERROR, 2), (3,))]
    back += [task("gradient", pace.behind, (ERROR, 2))] if pace.behind else []
    last = [*back, task("update", pace.update, (3,))]
    arriving = {"forward": pace.received, "backward": pace.returned}
    link = Piece((stage,), (stage,), "", 0.0, COMMUNICATION)
    return PartTasks(
        found=found,
        record=Record((), (), (2,), (3,), 4),
        ops=lambda phase, final: ahead if phase == "forward" else last if final else back,
        overlaps=(pace.overlap,),
        first=stage,
        layer=number,
        arriving={phase: (0, link._replace(seconds=time)) for phase, time in arriving.items() if time},
    )
