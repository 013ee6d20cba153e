"""Listings of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.columns import Cell, Column
from hypar.reports.listings.base import TOO_BIG, make_table
from hypar.units import format_bytes, format_gain, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.reports.columns import Sheet
    from hypar.studies.comparison import Row


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
