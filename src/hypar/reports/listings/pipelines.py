"""Listings of pipelines of single devices: their stages, and data parallelism on the same devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.plan.stages import BALANCES
from hypar.planning.counting import score_convention
from hypar.reports.formats.base import on_machine
from hypar.reports.listings.base import make_table
from hypar.reports.prose import Note
from hypar.schedule.memory import memory_of
from hypar.schedule.moves import BETWEEN_STAGES
from hypar.schedule.pipeline_orders import SCHEDULES
from hypar.schedule.totals import BETWEEN
from hypar.units import amount, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.plan.plan import Plan
    from hypar.plan.score import GroupScore, Score
    from hypar.plan.stages import StageRecord, StagesRecord
    from hypar.planning.replay import ScoredStep
    from hypar.reports.columns import Sheet

HEADS = ("stage", "layers", "weights", "gradients", "in flight", "activations", "errors", "buffers", "memory",
         "receives", "staleness", "busy", "idle")  # fmt: skip


def pipeline_table(ran: ScoredStep) -> Sheet:
    """Return one row for each stage of a plan that was run."""
    table = make_table(HEADS, "llr")
    for number, (stage, group) in enumerate(_stages(ran.plan)):
        held = memory_of(ran.lanes[number], ran.step, number)
        received = math.fsum(
            move.total_bytes
            for move, lanes in zip(ran.step.moves, ran.step.lanes, strict=True)
            if move is not None and move.level == BETWEEN_STAGES and number in lanes
        )
        table.add_row(
            str(number + 1),
            stage.ends,
            format_bytes(held["weights"]),
            format_bytes(held["gradients"]),
            str(stage.in_flight),
            *(format_bytes(held[item]) for item in ("activations", "errors", "buffers")),
            format_bytes(group.memory_bytes),
            format_bytes(received),
            str(stage.staleness),
            format_seconds(stage.busy_s),
            format_seconds(group.idle_s),
        )
    return table


def pipeline_head(plan: Plan) -> str:
    """Describe the network, the number of stages and the machine."""
    stages = _record(plan)
    several = f", {stages.microbatches} microbatches" if SCHEDULES[stages.schedule].flushes else ""
    count = len(stages.stages)
    named = f"{plan.model.name}, batch {plan.model.batch}{several}"
    each = ", ".join(f"{stages.of_each_group} on {name}" for name in stages.groups)
    on_groups = f": {each}" if each else ""
    return f"{named}, {count} stage{'s' * (count > 1)} {on_machine(plan.score)}{on_groups}"


def pipeline_notes(plan: Plan, against: Score | None) -> list[Note]:
    """Describe the step, the schedule, the claim, the memory, and data parallelism on as many devices.

    Args:
        plan: the plan.
        against: the score of data parallelism with a mini-batch on each device, if the machine has such an array.
    """
    stages, score = _record(plan), _score(plan)
    held = [group.memory_bytes for _, group in _stages(plan)]
    memory = f"{format_bytes(sum(held))} held in all, {format_bytes(max(held))} in the fullest stage"
    sent = format_bytes(score.communication[BETWEEN])
    busy = math.fsum(stage.busy_s for stage in stages.stages) / (len(stages.stages) * score.time_s)
    rate = _rate(plan.model.batch, score.time_s)
    notes = [
        Note("time", f"{format_seconds(score.time_s)} a mini-batch, {rate}; stages busy {busy:.1%}"),
        Note("order", f"{stages.schedule}: {SCHEDULES[stages.schedule].summary}"),
        Note("claim", _balance_line(plan)),
        Note("memory", f"{memory} ({score.optimizer}); {sent} sent a mini-batch, both ways"),
    ]
    if against is not None:
        notes.append(Note("against", _data_parallel_line(plan, against)))
    return [*notes, Note("counted", f"by {score_convention(plan)}")]


def _stages(plan: Plan) -> Iterator[tuple[StageRecord, GroupScore]]:
    return zip(_record(plan).stages, _score(plan).groups or (), strict=True)


def _record(plan: Plan) -> StagesRecord:
    assert plan.stages is not None  # noqa: S101 (a pipeline has stages)
    return plan.stages


def _score(plan: Plan) -> Score:
    assert plan.score is not None  # noqa: S101 (stages have a score)
    return plan.score


def _balance_line(plan: Plan) -> str:
    """State the quantity that the partition minimises."""
    stages = _record(plan)
    if stages.starts:
        return "starts as given"
    if stages.parts_of_each:
        return plan.claim
    name = stages.balance or "time"
    least = amount(stages.bottleneck_s if stages.bottleneck is None else stages.bottleneck, BALANCES[name])
    count = len(stages.stages)
    into = "1 stage" if count == 1 else f"{count} stages"
    into += " in this order of the groups" if stages.groups else ""
    fit = " that fit" if _score(plan).capacity_bytes is not None else ""
    every = f"the least of all partitions of {len(plan.layers)} layers into {into}{fit}"
    return f"balanced by {name}: {least} in the costliest stage, {every}"


def _data_parallel_line(plan: Plan, own: Score) -> str:
    """Describe the memory and the communication of as many devices, each with the whole network."""
    devices = plan.num_devices
    held = f"{format_bytes(devices * own.memory_bytes)} held in all, {format_bytes(own.memory_bytes)} on each"
    moved = f"{format_bytes(own.communication_bytes)} of communication a step"
    rate = _rate(devices * plan.model.batch, own.time_s)
    return f"data parallelism on {devices} devices, a mini-batch each: {held}; {moved}, {rate}"


def _rate(samples: int, seconds: float) -> str:
    return f"{format_count(samples / seconds)} samples/s" if seconds else "no time"
