"""The document of a score: the time, energy, bytes and memory of a training step, with the items of each."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypar.document import Document
from hypar.errors import InputError
from hypar.plan.records import origin_of
from hypar.planning.replay import run_plan
from hypar.planning.sources import network_of, scored_on
from hypar.reports.of.base import data
from hypar.reports.renderers import csv_text
from hypar.reports.steps import groups_table, headed, step_notes, step_timeline
from hypar.reports.words import asked, tone_of
from hypar.studies.remarks import on_this_machine
from hypar.studies.step import StepRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.timeline import Timeline as StepTimes


def document_of(score: Score) -> Document:
    """Return the document of a score, with what its plan asked for and its step, where these are known."""
    plan, ran = origin_of(score).plan, None
    if plan is not None:
        with suppress(InputError):
            ran = run_plan(
                plan, hardware=scored_on(score), model=network_of(score), optimizer=score.optimizer
            )
    return score_document(score, plan, ran)


plugin = document_of


def score_document(score: Score, plan: Plan | None = None, ran: ScoredStep | None = None) -> Document:
    """Return the document of a score, with the plan that was run and its step, if these are known."""
    title = headed("" if plan is None else plan.model.name, score)
    known = ran or plan
    stages = None if known is None else known.stages
    return Document(
        title=title,
        about="" if plan is None else f"strategy {plan.strategy}, {asked(plan)}",
        tone=tone_of(score),
        parts=(
            data([*_item_rows(score)]),
            *groups_table(score, stages),
            *(() if ran is None else [step_timeline(StepRows(ran=ran), title)]),
        ),
        notes=(
            *step_notes(plan, score, ran),
            *(on_this_machine(ran.plan, ran.machine) if ran else ()),
        ),
    )


def timeline_csv(timeline: StepTimes) -> str:
    """Return one line for each task: name, kind, resource, start and end in seconds."""
    rows = [
        {"task": task.name, "kind": task.kind, "resource": task.resource, "start_s": start, "end_s": end}
        for task, start, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
    ]
    return csv_text(rows)


def _item_rows(score: Score) -> Iterator[dict[str, Any]]:
    """Yield a row for each item of each quantity, the totals first."""
    quantities: dict[tuple[str, str], tuple[float | None, Mapping[str, float] | None]] = {
        ("time", "s"): (score.time_s, score.time),
        ("critical path", "s"): (score.time_s, score.critical),
        ("busy", "s"): (score.time_s, score.busy),
        ("energy", "J"): (score.energy_j, score.energy),
        ("communication", "B"): (score.communication_bytes, score.communication),
        ("memory", "B"): (score.memory_bytes, score.memory),
    }
    for (quantity, unit), (total, items) in quantities.items():
        for item, value in {"total": total, **(items or {})}.items():
            yield {"quantity": quantity, "item": item, "value": value, "unit": unit}
