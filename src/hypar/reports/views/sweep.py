"""Sweeps: a row for each combination; bars over names, lines over numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.reports.listings.points import axes_of, axis_text, by_sample, held, runs_data, seconds_a_sample
from hypar.reports.page import numbers as page
from hypar.reports.page.fragment import fragment
from hypar.reports.views.base import TOTALS, more, totals_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.reports.views.base import View
    from hypar.studies.sweep import Run, Sweep

MOST_ROWS = 48
"""The largest number of rows in a notebook."""

DECADES = 30
"""Ratio of the longest to the shortest time from which lines need a logarithmic scale."""


class SweepView:
    """The view of a sweep."""

    def rows(self, runs: Sweep) -> list[dict[str, Any]]:
        """Return one row for each combination: its axes, and the totals of its score."""
        return [{name: _plain(value) for name, value in row.items()} for row in runs_data(runs)]

    def html(self, runs: Sweep) -> str:
        """Return a table of the axes that vary, and of the totals."""
        names = axes_of(runs)
        rows = [
            [*(axis_text(run.axes[name]) for name in names), *totals_cells(run.totals), _note(run)]
            for run in runs[:MOST_ROWS]
        ]
        heads = [*names, *TOTALS, ""]
        return fragment(_title(runs, names), heads, rows, more(len(runs), MOST_ROWS))

    def drawing(self, runs: Sweep) -> Figure:
        """Plot times along the innermost axis that varies, with a series for each combination of the others."""
        names = axes_of(runs)
        along = names[-1]
        places = list(dict.fromkeys(axis_text(run.axes[along]) for run in runs))
        series: dict[str, list[float | None]] = {}
        for run in runs:
            line = ", ".join(_named(name, run) for name in names[:-1])
            values = series.setdefault(line, [None] * len(places))
            values[places.index(axis_text(run.axes[along]))] = run.totals and run.totals.time_s
        lines = len(places) > 1 and all(_number(run.axes[along]) for run in runs)
        known = [value for values in series.values() for value in values if value]
        return Figure(
            title=_title(runs, names),
            x=places,
            x_label=along if lines else "",
            y_label="time of a step",
            series=series,
            kind="lines" if lines else "bars",
            log=lines and bool(known) and max(known) > DECADES * min(known),
            shown=page.seconds,
        )


def _title(runs: Sweep, names: Sequence[str]) -> str:
    """Name the fastest combination."""
    head = f"{runs.model}, {held(runs)}"
    scored = [run for run in runs if run.totals is not None]
    if not scored:
        return f"{head}: nothing fits"
    best = min(scored, key=seconds_a_sample)
    found = ", ".join(_named(name, best) for name in names)
    time = page.seconds(best.totals.time_s if best.totals else 0.0)
    return f"{head}: {found} is the fastest{by_sample(runs)}, {time} a step"


def _named(name: str, run: Run) -> str:
    """Name a value of an axis; a number together with its axis."""
    value = run.axes[name]
    text = axis_text(value)
    return f"{name} {text}" if _number(value) else text


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else axis_text(value)


def _note(run: Run) -> str:
    return run.note if run.totals is None else "" if run.fits else "does not fit"


plugin: View[Sweep] = SweepView()
