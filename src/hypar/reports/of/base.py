"""What documents share: rows of data; and of runs a table of the totals of their steps, and a picture of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Figure, Table
from hypar.reports.words import on_machine
from hypar.units import faster_than, format_gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.studies.grid import Run

FITS_NOT = "does not fit"
"""What is said beside a plan that a device's memory does not hold."""


def data(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows that JSON, CSV and data frames have, and readers see in another form."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = tuple(Column(key=key, show=False) for key in keys)
    return Table(columns=columns, rows=[dict(row) for row in rows])


def totals_data(run: Run) -> dict[str, float | None]:
    """Return the totals of a step by their keys; without a step the keys alone."""
    keys = ("time_s", "energy_j", "communication_bytes", "memory_bytes")
    return {key: getattr(run.totals, key, None) for key in keys}


def steps_table(
    heads: Iterable[Column], rows: Iterable[dict[str, Any]], beside: Column, digits: int = 3
) -> Table:
    """Return a table of the totals of steps; the gain of a row is a number, and ``beside`` the head of what is said."""
    lines = [
        {**row, "gain": None if row["gain"] is None else format_gain(row["gain"], 1, digits)} for row in rows
    ]
    columns = (
        *heads,
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="gain", unit="ratio"),
        Column(key="energy_j", head="energy", unit="joules"),
        Column(key="communication_bytes", head="received", unit="bytes"),
        Column(key="memory_bytes", head="memory", unit="bytes"),
        beside,
    )
    return Table(columns=columns, rows=lines)


def picture(
    title: str, x: Sequence[Any], series: Mapping[str, Sequence[float | None]], **more: Any
) -> Figure:
    """Return bars over names; ``more`` holds other fields of a figure."""
    own = {"kind": "bars", "unit": "seconds", "y_label": "time of a step"}
    return Figure(**{**own, **more, "title": title, "x": x, "series": series})


def grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[str, list[Any]] = {}
    for key, own in pairs:
        found.setdefault(key, []).append(own)
    return found


def subject(plan: Plan) -> str:
    """Name the network, and its machine if there is one."""
    return " ".join(filter(None, [plan.model.name, on_machine(plan.score)]))


def over(base: Run, own: Run) -> str:
    """Compare a step with that of the baseline."""
    if base.totals is None or own.totals is None:
        return ""
    unfit = "" if base.fits else f", which {FITS_NOT}"
    return faster_than(base.name, base.totals.time_s, own.totals.time_s) + unfit
