"""What documents of several plans share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Note, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.plan.score import Score, Totals

DECADES = 30
"""Ratio of the longest to the shortest time from which a picture needs a logarithmic scale."""

FITS_NOT = "does not fit"
"""What is said beside a plan that a device's memory does not hold."""


def data(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows that JSON, CSV and data frames have, and readers see in another form."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = tuple(Column(key=key, show=False) for key in keys)
    return Table(columns=columns, rows=[dict(row) for row in rows])


def totals_columns(gain: str = "gain") -> tuple[Column, ...]:
    """Return the columns of the totals of a step; ``gain`` is the head of how many times faster it is than another."""
    return (
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="gain", head=gain, unit="ratio"),
        Column(key="energy_j", head="energy", unit="joules"),
        Column(key="communication_bytes", head="received", unit="bytes"),
        Column(key="memory_bytes", head="memory", unit="bytes"),
    )


def totals_cells(own: Score | Totals | None) -> dict[str, float | None]:
    """Return the totals of a step by the keys of their columns; without a step their keys alone."""
    keys = ("time_s", "energy_j", "communication_bytes", "memory_bytes")
    return {key: getattr(own, key, None) for key in keys}


def spans_decades(times: Sequence[float]) -> bool:
    """Return whether some times need a logarithmic scale."""
    return bool(times) and max(times) > DECADES * min(times) > 0


def gain_note(base: str, what: str, own: str, unfit: bool = False) -> Note:
    """Explain a column of gains: how many times less one thing is than another."""
    fits = f"; {base} {FITS_NOT}" if unfit else ""
    return Note("gain", f"how many times less {what} than {base}: that of {base} over {own}{fits}")
