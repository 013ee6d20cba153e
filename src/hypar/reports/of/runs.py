"""The documents of sweeps and explorations: the fastest run, and a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.plan.request import PARAMETERS
from hypar.reports.of.base import FITS_NOT, data, grouped, over, picture, steps_table, subject, totals_data
from hypar.reports.words import asked
from hypar.sharding.dims import choice_word, vocabulary
from hypar.studies.sweep import Sweep
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.document import Figure, Table, Tone
    from hypar.studies.explore import Exploration
    from hypar.studies.grid import Run

SHOWN = 10
"""Points of an exploration that are shown unless more are asked for."""

MOST_BARS = 16
"""Number of points that are plotted as bars with their names; more are a line."""

NUMBERS = {"levels", "array", "batch"}
"""The axes whose values stand at the right of a column."""

NOT_PLANNED = "not planned"
"""What is said beside a combination that is refused; a note says why."""


def document_of(runs: Sweep | Exploration, top: int = SHOWN) -> Document:
    """Return the document of some runs; of an exploration the ``top`` points, while its data has all."""
    return _swept(runs) if isinstance(runs, Sweep) else _explored(runs, top)


plugin = document_of


def rows_of(runs: Sweep | Exploration) -> list[dict[str, Any]]:
    """Return one row for each run: its axes, what all runs share, and the totals of its score."""
    if isinstance(runs, Sweep):
        return [_swept_row(runs, run) for run in runs]
    return [_explored_row(runs, run) for run in runs]


# Sweeps: combinations by the axes that vary


def _swept(runs: Sweep) -> Document:
    heads = [Column(key=name, unit="count" if name in NUMBERS else "text") for name in _axes(runs)]
    rows = []
    for run in runs:
        said, tone = "" if run.fits else FITS_NOT if run.totals else NOT_PLANNED, "" if run.fits else "bad"
        own = {"gain": runs.speedup(run), "said": said, "tone": tone}
        rows.append(_named(runs, run) | totals_data(run) | own)
    answer, tone = _fastest(runs)
    title = f"{runs.model}: {answer}"
    return Document(
        title=title,
        about=", ".join([*_held(runs), f"counted by {runs.convention}"]),
        tone=tone,
        parts=(
            data(_plain(runs)),
            steps_table(heads, rows, Column(key="said", head="")),
            _along(runs, title),
        ),
        notes=(Note("gain", "how many times faster than the first row of the same batch"), *_refusals(runs)),
    )


def _axes(runs: Sweep) -> Sequence[str]:
    """Return the axes that vary; the strategy if none does."""
    return runs.varied or ("strategy",)


def _named(runs: Sweep, run: Run) -> dict[str, Any]:
    return {name: _text(run.axes[name]) for name in _axes(runs)}


def _text(value: Any) -> str:
    """Format a value on an axis, or of an argument."""
    if isinstance(value, Machine | HeterogeneousMachine | Profile):
        return value.name
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _swept_row(runs: Sweep, run: Run) -> dict[str, Any]:
    texts = {name: _text(run.axes[name]) for name in ("hardware", "array") if name in run.axes}
    common = _asked(runs) | {"convention": runs.convention}
    return {**run.axes, **texts, **common, **totals_data(run), "fits": run.fits, "note": run.note}


def _plain(runs: Sweep) -> list[dict[str, Any]]:
    """Return the rows with texts for values that are mappings, as of a topology."""
    rows = rows_of(runs)
    return [{key: _text(own) if isinstance(own, dict) else own for key, own in row.items()} for row in rows]


def _asked(runs: Sweep) -> dict[str, str]:
    """Return the arguments that were given for all runs, as text."""
    given = ((name, runs.asked.get(name)) for name in PARAMETERS)
    return {
        name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
        for name, value in given
        if value is not None and value is not False and value not in ((), [], "sgd")
    }


def _held(runs: Sweep) -> Iterator[str]:
    """Yield the values that all combinations share."""
    for name, value in runs[0].axes.items():
        if name not in _axes(runs):
            yield f"{name} {_text(value)}".rstrip()
    for name, text in _asked(runs).items():
        yield f"planned by {text}" if name == "cost" else name if text == "True" else f"{name} {text}"


def _fastest(runs: Sweep) -> tuple[str, Tone]:
    """Name the fastest combination, for each sample where batches differ."""
    fitting = [(run.totals.time_s, run) for run in runs if run.totals and run.fits]
    if not fitting:
        return "no combination fits", "bad"
    time, best = min(fitting, key=lambda each: each[0] / each[1].axes["batch"])
    found = ", ".join(f"{name} {text}" for name, text in _named(runs, best).items())
    sample = " a sample" if "batch" in _axes(runs) else ""
    among = " of those that fit" if any(run.totals and not run.fits for run in runs) else ""
    return f"{found} is fastest{sample}{among}, {format_seconds(time)} a step", ""


def _along(runs: Sweep, title: str) -> Figure:
    """Plot times along the innermost axis that varies, with a series for each combination of the others."""
    *others, along = _axes(runs)
    places = list(dict.fromkeys(_text(run.axes[along]) for run in runs))
    series: dict[str, list[float | None]] = {}
    for run in runs:
        own = {name: run.axes[name] for name in others}
        named = (_text(own) if isinstance(own, str) else f"{name} {_text(own)}" for name, own in own.items())
        values = series.setdefault(", ".join(named), [None] * len(places))
        values[places.index(_text(run.axes[along]))] = run.totals and run.totals.time_s
    if len(places) == 1 or not all(type(run.axes[along]) in {int, float} for run in runs):
        return picture(title, places, series)
    return picture(title, list(map(float, places)), series, kind="lines", x_label=along)


def _refusals(runs: Sweep) -> Iterator[Note]:
    """Yield each reason for which combinations are not planned once, with the values that they have in common."""
    every, label = [_named(runs, run) for run in runs], NOT_PLANNED
    for reason, own in grouped((run.note, _named(runs, run)) for run in runs if not run.totals).items():
        named = []
        for name in _axes(runs):
            values = dict.fromkeys(each[name] for each in own)
            if len(values) < len({each[name] for each in every}):
                named.append(f"{name} {', '.join(values)}")
        yield Note(label, ": ".join(filter(None, ["; ".join(named), reason])))
        label = ""


# Explorations: points by the words of each free layer, level by level


def _explored(found: Exploration, top: int) -> Document:
    best, number, words = (
        next((point for point in found if point.fits), None),
        f"{len(found):,} points",
        _words(found),
    )
    answer = f"none of {number} fits"
    if best is not None:
        answer = (
            f"the fastest of {number} {'is the plan,' if best.own else 'is'} {over(found.baseline, best)}"
        )
    title = f"{subject(found.plan)}: {answer}"
    hidden = f", {len(found) - top:,} of them not shown" if len(found) > top else ""
    own = next((place for place, point in enumerate(found, 1) if point.own), None)
    where = f"the plan of {found.plan.strategy} is " + ("not one of them" if own is None else f"number {own}")
    return Document(
        title=title,
        about=f"{asked(found.plan)}, counted by {found.convention}",
        tone="" if best else "bad",
        parts=(data(rows_of(found)), _points(found, words, top), _ranks(found, words, title)),
        notes=(
            Note("gain", "how many times faster than dp, the time of dp over the point's"),
            Note("points", f"{number}{hidden}; {where}"),
        ),
    )


def _words(found: Exploration) -> list[dict[str, list[str]]]:
    """Return the words of each free layer at each point, level by level, in the words of one paper for all points."""
    words = vocabulary({dim for point in found for choice in point.axes.values() for dim in choice.divided})
    grids = found.plan.in_grids
    return [
        grouped(
            (place[0], choice_word(choice.degrees, found.ways[place], words, grids=grids))
            for place, choice in point.axes.items()
        )
        for point in found
    ]


def _explored_row(found: Exploration, run: Run) -> dict[str, Any]:
    texts = {
        f"{layer} H{level + 1}": choice.text(found.ways[layer, level])
        for (layer, level), choice in run.axes.items()
    }
    own = {"dp_over_it": found.speedup(run), "fits": run.fits, "own": run.own}
    return {**texts, **totals_data(run), "convention": found.convention, **own}


def _points(found: Exploration, words: list[dict[str, list[str]]], top: int) -> Table:
    """Return one row for each of the fastest points."""
    heads = [Column(key=layer, head=f"{layer} {_levels(own)}") for layer, own in grouped(found.ways).items()]
    rows = []
    for point, own in zip(found[:top], words, strict=False):
        said = ", ".join(filter(None, ["the plan" * point.own, FITS_NOT * (not point.fits)]))
        more = {"gain": found.speedup(point), "said": said, "tone": "" if point.fits else "bad"}
        rows.append({layer: " ".join(each) for layer, each in own.items()} | totals_data(point) | more)
    return steps_table(heads, rows, Column(key="said", head=""), digits=4)


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)


def _ranks(found: Exploration, words: list[dict[str, list[str]]], title: str) -> Figure:
    """Plot each point's time, the fastest first, with the names of the fastest and of the plan."""
    few = len(found) <= MOST_BARS
    names = [
        ", ".join(
            f"{layer} {each[0] if len({*each}) == 1 else ' '.join(each)}" for layer, each in own.items()
        )
        for own in words
    ]
    marks = {0: "fastest" if few else f"fastest: {names[0]}"}
    for rank, point in enumerate(found):
        if point.own:
            marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
    series: dict[str, list[float | None]] = {"": [run.totals and run.totals.time_s for run in found]}
    if few:
        return picture(title, names, series, marks=marks)
    x, label = list(range(len(found))), "plans that are faster"
    return picture(title, x, series, marks=marks, kind="lines", x_label=label)
