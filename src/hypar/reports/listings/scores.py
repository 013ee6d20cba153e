"""Listings of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.reports.listings.base import csv_text, noted_table, ratio
from hypar.units import format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from hypar.plan.score import Score
    from hypar.studies.comparison import Row
    from hypar.timeline import Timeline


def score_table(rows: Sequence[Row]) -> Table:
    """Return time, energy, communication and memory by strategy, and their ratios to the baseline."""
    base = rows[0].plan.score if rows[0].plan else None
    over = f"{rows[0].name} over it"
    heads = ["strategy", "time", over, "energy", over, "communication", over, "memory", over]
    cells: list[list[str]] = []
    for row in rows:
        score = row.plan.score if row.plan else None
        if score is None or base is None:
            cells.append([row.name, *["-"] * 8, "the search does not fit"])
            continue
        pairs = (
            (score.time_s, base.time_s, format_seconds),
            (score.energy_j, base.energy_j, format_joules),
            (score.communication_bytes, base.communication_bytes, format_bytes),
            (score.memory_bytes, base.memory_bytes, format_bytes),
        )
        numbers = [
            cell
            for own, first, shown in pairs
            for cell in (("-", "-") if own is None else (shown(own), ratio(first, own)))
        ]
        cells.append([row.name, *numbers, "" if score.fits else "does not fit"])
    return noted_table(heads, "l" + "r" * 8 + "l", cells)


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
