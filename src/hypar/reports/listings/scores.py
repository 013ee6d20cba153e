"""Listings of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.planning.sources import scored_on
from hypar.reports.columns import Cell, Column
from hypar.reports.formats.base import chunk_lines
from hypar.reports.formats.tabular.notes import groups_table, score_notes, stages_notes
from hypar.reports.formats.tabular.page import heading
from hypar.reports.listings.base import TOO_BIG, make_table
from hypar.reports.prose import Note
from hypar.reports.tables import csv_text
from hypar.reports.terminal import Page
from hypar.studies.notes import counting_lines, machine_lines
from hypar.units import format_bytes, format_gain, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.reports.columns import Sheet
    from hypar.studies.comparison import Row
    from hypar.timeline import Timeline


def score_table(rows: Sequence[Row]) -> Sheet:
    """Return time, energy, bytes received and memory by strategy, the fastest first, and the baseline's time over its."""
    base = rows[0].plan.score if rows[0].plan else None
    table = make_table(
        ["strategy", "time", "gain", "energy", "received", "memory", ""], "lrrrrrl", turns=True
    )
    table.columns = [*table.columns[:-1], Column(head="", cells=(), bar=True)]
    scores = [(row.name, row.plan.score if row.plan else None) for row in by_time(rows)]
    fitting = [score.time_s for _, score in scores if score is not None and score.fits]
    longest = max(fitting, default=0.0)
    for name, score in scores:
        if score is None:
            table.add_row(name, *["-"] * 5, "the search does not fit")
            continue
        energy = "-" if score.energy_j is None else format_joules(score.energy_j)
        bytes_ = (format_bytes(score.communication_bytes), format_bytes(score.memory_bytes))
        spent = (
            format_seconds(score.time_s),
            format_gain(base.time_s if base else None, score.time_s),
            energy,
        )
        bar = Cell(computes=score.time_s / longest) if longest else Cell()
        table.add_row(name, *spent, *bytes_, bar if score.fits else TOO_BIG)
    return table


def by_time(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the fastest plan that fits first, those without a score last and in their order."""

    def place(row: Row) -> tuple[bool, bool, float]:
        score = row.plan.score if row.plan else None
        return (True, False, 0.0) if score is None else (False, not score.fits, score.time_s)

    return sorted(rows, key=place)


def score_page(ran: ScoredStep) -> Page:
    """Return the totals of a step on a machine, and the items of each."""
    below = [Note("chunks", line) for line in chunk_lines(ran.plan.chunks)]
    counted = [Note("bytes", line) for line in counting_lines(ran.plan, ran.graph, ran.score)]
    left_out = [Note("machine", line) for line in machine_lines(ran.plan, ran.graph, scored_on(ran.score))]
    return Page(
        above=heading(ran.plan, ran.score),
        tables=groups_table(ran.score, ran.stages),
        below=[*stages_notes(ran.stages), *score_notes(ran.plan, ran.score), *counted, *left_out, *below],
    )


def score_data(score: Score) -> dict[str, Any]:
    """Return a score as plain data."""
    return score.to_data()


def timeline_csv(timeline: Timeline) -> str:
    """Return one line for each task: name, kind, resource, start and end in seconds."""
    rows = [
        {"task": task.name, "kind": task.kind, "resource": task.resource, "start_s": start, "end_s": end}
        for task, start, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
    ]
    return csv_text(rows)
