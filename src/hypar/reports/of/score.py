"""The document of a score: the time, energy, bytes and memory of a training step, with the items of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Document, origin_of
from hypar.errors import InputError
from hypar.planning.replay import run_plan
from hypar.planning.sources import network_of, scored_on
from hypar.reports.breakdown import rows_of, step_timeline
from hypar.reports.of.base import data
from hypar.reports.renderers import csv_text
from hypar.reports.steps import groups_table, headed, step_notes
from hypar.reports.words import asked, tone_of
from hypar.studies.remarks import counting, on_this_machine
from hypar.studies.step import StepRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.document import Timeline
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.timeline import Timeline as StepTimes


def document_of(score: Score) -> Document:
    """Return the document of a score, with what its plan asked for and its step, where these are known."""
    plan = origin_of(score).plan
    try:
        return score_document(score, plan, plan and _run_again(score, plan))
    except InputError:
        return score_document(score, plan)


def _run_again(score: Score, plan: Plan) -> ScoredStep:
    return run_plan(plan, hardware=scored_on(score), model=network_of(score), optimizer=score.optimizer)


plugin = document_of


def score_document(score: Score, plan: Plan | None = None, ran: ScoredStep | None = None) -> Document:
    """Return the document of a score.

    Args:
        score: the score.
        plan: the plan that was run, if it is known.
        ran: its step.
    """
    name = "" if plan is None else plan.model.name
    stages = (ran.stages if ran else plan.stages) if plan else None
    said = (
        [*counting(plan, ran.graph, score), *on_this_machine(plan, ran.graph, ran.machine)]
        if plan and ran
        else []
    )
    return Document(
        title=headed(name, score),
        about="" if plan is None else f"strategy {plan.strategy}, {asked(plan)}",
        tone=tone_of(score),
        parts=(
            data([*_item_rows(score)]),
            *groups_table(score, stages),
            *([] if ran is None else [_timeline(ran)]),
        ),
        notes=(*step_notes(plan, score, ran), *said),
    )


def _timeline(ran: ScoredStep) -> Timeline:
    """Return when each row of layers works, or each stage."""
    return step_timeline(StepRows(ran=ran), rows_of(ran.plan), headed(ran.plan.model.name, ran.score))


def timeline_csv(timeline: StepTimes) -> str:
    """Return one line for each task: name, kind, resource, start and end in seconds."""
    rows = [
        {"task": task.name, "kind": task.kind, "resource": task.resource, "start_s": start, "end_s": end}
        for task, start, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
    ]
    return csv_text(rows)


def _item_rows(score: Score) -> Iterator[dict[str, Any]]:
    """Yield a row for each item of each quantity, the totals first."""
    quantities: tuple[tuple[str, str, float | None, Mapping[str, float]], ...] = (
        ("time", "s", score.time_s, score.time),
        ("critical path", "s", score.time_s, score.critical),
        ("busy", "s", score.time_s, score.busy),
        ("energy", "J", score.energy_j, score.energy or {}),
        ("communication", "B", score.communication_bytes, score.communication),
        ("memory", "B", score.memory_bytes, score.memory),
    )
    for quantity, unit, total, own in quantities:
        for item, value in {"total": total, **own}.items():
            yield {"quantity": quantity, "item": item, "value": value, "unit": unit}
