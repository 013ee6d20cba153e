"""The document of a sweep: the fastest combination, and a row for each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.plan.request import PARAMETERS
from hypar.reports.of.base import FITS_NOT, Step, data, picture, steps_table, totals_data
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.document import Figure, Table
    from hypar.schedule.scoring import Totals
    from hypar.studies.sweep import Run, Sweep

TEXTS = ("hardware", "array")
"""The axes whose values are listed as text."""

NOT_PLANNED = "not planned"
"""What is said beside a combination that is refused; a note says why."""


def document_of(runs: Sweep) -> Document:
    """Return the document of a sweep."""
    title = f"{runs.model}: {_answer(runs)}"
    fits = any(run.totals and run.fits for run in runs)
    return Document(
        title=title,
        about=", ".join(filter(None, [*_held(runs), f"counted by {runs.convention}"])),
        tone="" if fits else "bad",
        parts=(data(_plain(sweep_rows(runs))), _table(runs), _figure(runs, title)),
        notes=(
            Note("gain", "how many times faster than the first row of the same batch"),
            *_refusals(runs),
        ),
    )


plugin = document_of


def sweep_rows(runs: Sweep) -> list[dict[str, Any]]:
    """Return one row for each combination: its axes, what all runs share, and the totals of its score."""
    return [
        {
            **{name: _text(value) if name in TEXTS else value for name, value in run.axes.items()},
            **_asked(runs),
            "convention": runs.convention,
            **totals_data(run.totals),
            "fits": run.fits,
            "note": run.note,
        }
        for run in runs
    ]


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with texts for values that are mappings, as of a topology."""
    return [
        {key: _text(cell) if isinstance(cell, dict) else cell for key, cell in row.items()} for row in rows
    ]


def _text(value: Any) -> str:
    """Format a value on an axis, or of an argument."""
    if isinstance(value, Machine | HeterogeneousMachine | Profile):
        return value.name
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _asked(runs: Sweep) -> dict[str, str]:
    """Return the arguments that were given for all runs, as text."""
    given = ((name, runs.asked.get(name)) for name in PARAMETERS)
    return {
        name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
        for name, value in given
        if value is not None and value is not False and value not in ((), [], "sgd")
    }


def _axes(runs: Sweep) -> Sequence[str]:
    """Return the axes that vary; the strategy if none does."""
    return runs.varied or ("strategy",)


def _held(runs: Sweep) -> Iterator[str]:
    """Yield the values that all combinations share."""
    for name, value in runs[0].axes.items():
        if name not in _axes(runs):
            yield f"{name} {_text(value)}".rstrip()
    for name, text in _asked(runs).items():
        yield f"planned by {text}" if name == "cost" else name if text == "True" else f"{name} {text}"


def _answer(runs: Sweep) -> str:
    """Name the fastest combination, for each sample where batches differ."""
    fitting = [run for run in runs if run.totals and run.fits]
    if not fitting:
        return "no combination fits"
    best = min(fitting, key=_seconds_a_sample)
    found = ", ".join(f"{name} {_text(best.axes[name])}" for name in _axes(runs))
    sample = " a sample" if "batch" in _axes(runs) else ""
    return f"{found} is fastest{sample}, {format_seconds(best.totals.time_s)} a step"  # type: ignore[union-attr]


def _seconds_a_sample(run: Run) -> float:
    return run.totals.time_s / run.axes["batch"] if run.totals else math.inf


def _table(runs: Sweep) -> Table:
    """Return one row for each combination with its varying axes; times relative to the first row of the same batch."""
    first: dict[int, Totals] = {}
    steps = []
    for run in runs:
        base = first.setdefault(run.axes["batch"], run.totals) if run.totals else None
        said = NOT_PLANNED if run.totals is None else "" if run.fits else FITS_NOT
        names = {name: _text(run.axes[name]) for name in _axes(runs)}
        steps.append(Step(names, run.totals, base, said, "" if run.fits else "bad"))
    right = {"levels", "array", "batch"}
    return steps_table(
        (Column(key=name, unit="count" if name in right else "text") for name in _axes(runs)), steps
    )


def _refusals(runs: Sweep) -> Iterator[Note]:
    """Yield each reason for which combinations are not planned once, with the values that they have in common."""
    refused: dict[str, list[Run]] = {}
    for run in runs:
        if run.totals is None:
            refused.setdefault(run.note, []).append(run)
    label = NOT_PLANNED
    for reason, own in refused.items():
        named = []
        for name in _axes(runs):
            values = dict.fromkeys(_text(run.axes[name]) for run in own)
            if len(values) < len({_text(run.axes[name]) for run in runs}):
                named.append(f"{name} {', '.join(values)}")
        yield Note(label, ": ".join(filter(None, ["; ".join(named), reason])))
        label = ""


def _figure(runs: Sweep, title: str) -> Figure:
    """Plot times along the innermost axis that varies, with a series for each combination of the others."""
    *others, along = _axes(runs)
    places = list(dict.fromkeys(_text(run.axes[along]) for run in runs))
    series: dict[str, list[float | None]] = {}
    for run in runs:
        values = series.setdefault(", ".join(_named(name, run) for name in others), [None] * len(places))
        values[places.index(_text(run.axes[along]))] = run.totals and run.totals.time_s
    if len(places) == 1 or not all(_number(run.axes[along]) for run in runs):
        return picture(title, places, series)
    return picture(title, list(map(float, places)), series, kind="lines", x_label=along)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(name: str, run: Run) -> str:
    """Name a value of an axis; a number together with its axis."""
    value = run.axes[name]
    return _text(value) if isinstance(value, str) else f"{name} {_text(value)}"
