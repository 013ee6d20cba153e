"""What documents of several plans share: rows of data, a table of the totals of steps, and a picture of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.document import Column, Figure, Table
from hypar.units import format_gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.document import Tone
    from hypar.plan.score import Score
    from hypar.schedule.scoring import Totals

FITS_NOT = "does not fit"
"""What is said beside a plan that a device's memory does not hold."""


class Step(NamedTuple):
    """A row of the totals of a step, with the texts that name it by column, and what stands beside them, or a number for a bar.

    Its gain is over ``base``.
    """

    names: Mapping[str, str]
    totals: Score | Totals | None
    base: Score | Totals | None
    said: str | float = ""
    tone: Tone = ""

    @property
    def gain(self) -> float | None:
        """How many times faster it is than its base."""
        return self.base.time_s / self.totals.time_s if self.base and self.totals else None


def data(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows that JSON, CSV and data frames have, and readers see in another form."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = tuple(Column(key=key, show=False) for key in keys)
    return Table(columns=columns, rows=[dict(row) for row in rows])


def totals_data(own: Score | Totals | None) -> dict[str, float | None]:
    """Return the totals of a step by their keys; without a step the keys alone."""
    keys = ("time_s", "energy_j", "communication_bytes", "memory_bytes")
    return {key: getattr(own, key, None) for key in keys}


def steps_table(
    names: Iterable[Column], steps: Iterable[Step], *, digits: int = 3, bars: bool = False
) -> Table:
    """Return a table of the totals of steps below columns that name a row; ``digits`` are a gain's, ``bars`` the last column's."""
    rows = [
        {
            **own.names,
            **totals_data(own.totals),
            "gain": None if own.gain is None else format_gain(own.gain, 1, digits),
            "said": own.said,
            "tone": own.tone,
        }
        for own in steps
    ]
    columns = (
        *names,
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="gain", unit="ratio"),
        Column(key="energy_j", head="energy", unit="joules"),
        Column(key="communication_bytes", head="received", unit="bytes"),
        Column(key="memory_bytes", head="memory", unit="bytes"),
        Column(key="said", head="", unit="bar" if bars else "text"),
    )
    return Table(columns=columns, rows=rows)


def picture(
    title: str, x: Sequence[str] | Sequence[float], series: Mapping[str, Sequence[float | None]], **more: Any
) -> Figure:
    """Return bars over names; ``more`` holds other fields of a figure."""
    own = {"kind": "bars", "unit": "seconds", "y_label": "time of a step"}
    return Figure(**{**own, **more, "title": title, "x": x, "series": series})
