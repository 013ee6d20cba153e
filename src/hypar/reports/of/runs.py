"""The documents of the runs of a grid, which are strategies, the combinations of a sweep or the points of an exploration.

Each has the answer over what fits, a row of data for each run, and a table of the totals of their steps with a bar for each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Figure, Note, Table
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.of.base import data, grouped
from hypar.reports.words import asked, fit, on_machine, tone_of, words_of
from hypar.sharding.conventions import DIRECT, MOVED
from hypar.sharding.dims import choice_word
from hypar.studies.alternatives import Exploration
from hypar.studies.grid import Comparison
from hypar.studies.sweep import Sweep
from hypar.units import exact_number, faster_than, format_bytes, format_gain, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hypar.document import Tone
    from hypar.studies.grid import Run, Runs

SHOWN = 10
"""Points of an exploration that are shown unless more are asked for."""

MOST_BARS = 16
"""Number of points of an exploration that have a bar each; more are drawn as a line."""

ALIKE = 1e-3
"""The relative difference of times below which strategies are alike."""

NUMBERS = {"levels", "array", "batch"}
"""The axes whose values stand at the right of a column."""

FITS_NOT, NOT_PLANNED = "does not fit", "not planned"
"""What is said in place of a bar: of a plan that a device's memory does not hold, and of a run that a note refuses."""


def document_of(runs: Runs, **shown: int) -> Document:
    """Return the document of some runs; of an exploration ``top`` points are shown, while its data has all."""
    return _KINDS[type(runs)][0](runs, **shown)


plugin = document_of


def rows_of(runs: Runs) -> list[dict[str, Any]]:
    """Return one row for each run: its axes, what all runs share, and the totals of its score."""
    return [_KINDS[type(runs)][1](runs, run) for run in runs]


def comparison_data(found: Comparison) -> list[dict[str, Any]]:
    """Return one entry for each strategy, with its whole plan."""
    base, entries = found[0].totals, []
    for run in found:
        own: dict[str, Any] = {"strategy": run.name, "cost": None, "counted": None, "gain": run.gain}
        if run.plan:
            levels = [exact_number(cost) for cost in run.costs]
            counted = {"convention": found.convention, "value": exact_number(run.cost), "levels": levels}
            own |= {"cost": run.plan.cost.model_dump(), "counted": counted}
        if base and run.totals:
            pairs = zip(base._fields, base, run.totals, strict=True)
            own["score_gains"] = {name: first / last for name, first, last in pairs if first and last}
        entries.append({**own, "note": run.note, "plan": run.plan and run.plan.to_data()})
    return entries


def unfit_lines(found: Comparison) -> list[str]:
    """Return a line for each strategy whose plan does not fit the memory of its machine."""
    scores = ((run.name, run.plan.score) for run in found if run.plan)
    return [f"{name} {fit(score)}" for name, score in scores if score and not score.fits]


def _document(
    runs: Runs,
    subject: str,
    about: Iterable[str],
    table: Table,
    name: Callable[[Run], str],
    *notes: Note,
    lines: Figure | None = None,
    base: str = BASELINE,
) -> Document:
    """Return a document; ``name`` names a run in the answer, and the usual convention is not named."""
    best = min((run for run in runs if run.fits), key=runs.value, default=None)
    title = f"{subject}: {_answer(runs, best, name) if best else _none_fits(runs, name)}"
    than = "faster" if any(run.totals for run in runs) else "cheaper"
    unfit = {str(run.axes.get("batch")): "" for run in runs if run.totals and not runs.base(run).fits}
    which = f", which {FITS_NOT}" + f" at batch {', '.join(unfit)}" * base.endswith("batch")
    gain = Note("gain", f"how many times {than} than {base}{which * bool(unfit)}")
    counted = [f"counted by {runs.convention}"] * (runs.convention != MOVED)
    rows = [
        {key: _text(value) if isinstance(value, dict) else value for key, value in row.items()}
        for row in rows_of(runs)
    ]
    return Document(
        title=title,
        about=", ".join([*about, *counted]),
        tone=_tone(best) if best else "bad",
        parts=(data(rows), table, *([replace(lines, title=title)] if lines else ())),
        notes=(gain, *notes, *(best or runs[0]).remarks),
    )


def _answer(runs: Runs, best: Run, name: Callable[[Run], str]) -> str:
    """Say which of the runs that fit is best, strategies that are alike together, and by how much."""
    first, base, alike = runs.value(best), runs.base(best), [best]
    if isinstance(runs, Comparison):
        most = first * (1 + ALIKE * (best.totals is not None))
        alike = [run for run in runs if run.fits and runs.value(run) <= most]
    if len(alike) == len(runs) > 1:
        return "all strategies are alike"
    verb = ("is fastest", "are fastest") if best.totals else ("costs least", "cost least")
    unfit = any(run.totals and not run.fits for run in runs)
    answer = f"{' and '.join(map(name, alike))} {verb[len(alike) > 1]}"
    if isinstance(runs, Sweep):
        sample = " a sample" * ("batch" in runs.varied)
        return f"{answer}{sample}{' of those that fit' * unfit}, {format_seconds(best.time_s)} a step"
    answer += " of those that fit" * (unfit and base.fits)
    if best.totals is None:
        more = f"{format_gain(base.cost, best.cost)} less than {base.name}"
    else:
        more = faster_than(base.name, base.time_s, best.time_s) + f", which {FITS_NOT}" * (not base.fits)
    return answer if base in alike else f"{answer}, {more}"


def _none_fits(runs: Runs, name: Callable[[Run], str]) -> str:
    needs = ((run.totals.memory_bytes, name(run)) for run in runs if run.totals)
    held, least = min(needs, default=(0.0, ""))
    return f"none fits; {least} needs least, {format_bytes(held)}" if least else "none fits"


def _table(runs: Runs, heads: Iterable[Column], rows: Mapping[int, dict[str, Any]], *, bars: bool) -> Table:
    """Return a table of runs by number; gains have the digits that tell them apart, three or four.

    A bar is what runs are compared by, or what is said in its place, which a table without bars has alone.
    """
    gains = {number: runs.speedup(runs[number]) for number in rows}
    few, many = ({format_gain(gain, 1, digits) for gain in gains.values() if gain} for digits in (3, 4))
    shown = []
    for number, own in rows.items():
        run, gain = runs[number], gains[number]
        value = run.time_s if run.totals else runs.value(run)
        bar = "" if run.fits else FITS_NOT if run.totals else NOT_PLANNED
        row = {
            **_totals(run),
            "gain": gain and format_gain(gain, 1, 3 if len(few) == len(many) else 4),
            "bar": bar or value if bars and value < math.inf else bar,
            "tone": _tone(run).replace("good", ""),
        }
        shown.append(row | own)
    columns = (
        *heads,
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="gain", unit="ratio"),
        Column(key="energy_j", head="energy", unit="joules"),
        Column(key="communication_bytes", head="received", unit="bytes"),
        Column(key="memory_bytes", head="memory", unit="bytes"),
        Column(key="said", head=""),
        Column(key="bar", head="", unit="bar" if bars else "text"),
    )
    return Table(columns=columns, rows=shown)


def _totals(run: Run) -> dict[str, float | None]:
    """Return the totals of a step by their keys; without a step the keys alone."""
    keys = ("time_s", "energy_j", "communication_bytes", "memory_bytes")
    return {key: getattr(run.totals, key, None) for key in keys}


def _tone(run: Run) -> Tone:
    return tone_of(run.plan.score if run.plan else None) or ("" if run.fits else "bad")


def _lines(
    x: Sequence[float], x_label: str, series: Mapping[str, Sequence[float | None]], **more: Any
) -> Figure:
    own = {"title": "", "unit": "seconds", "y_label": "time of a step", **more}
    return Figure(x=x, x_label=x_label, series=series, **own)


# Comparisons: strategies by the times of their steps, or without a machine by their costs


def _compared(found: Comparison) -> Document:
    plan, unit = found.plan, found.plan.cost.unit
    ranked = sorted(range(len(found)), key=lambda at: (not found[at].fits, found.value(found[at])))
    levels = 0 if plan.score else max(len(run.costs) for run in found)
    keys = [f"H{level + 1}" for level in range(levels)]
    cost = Column(key="cost", head=plan.cost.name, unit=unit, show=not plan.score)
    heads = Column(key="strategy"), *(Column(key=key, unit=unit) for key in keys), cost
    rows = {
        at: _compared_row(found, found[at]) | dict(zip(keys, found[at].costs, strict=False)) for at in ranked
    }
    table = _table(found, heads, rows, bars=True)
    notes, subject = _claims(found, ranked), f"{plan.model.name} {on_machine(plan.score)}".rstrip()
    return _document(found, subject, [asked(plan)], table, lambda run: run.name, *notes)


def _compared_row(found: Comparison, run: Run) -> dict[str, Any]:
    own = run.plan
    scored = {**_totals(run), "fits": run.totals and run.fits, "time_gain": found.speedup(run)}
    return {
        "strategy": run.name,
        "cost": own and exact_number(run.cost),
        "unit": own and own.cost.unit,
        "planned_by": own and own.cost.name,
        "convention": found.convention,
        "cost_gain": run.gain,
        **(scored if found.plan.score else {}),
        "search": own and own.search,
        "note": run.note,
    }


def _claims(found: Comparison, ranked: Sequence[int]) -> Iterator[Note]:
    """Yield each plan's claim or why there is none, and how costs and scores count."""
    claims = grouped((found[at].note, found[at].name) for at in ranked)
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    plans = {run.name: run.plan for run in found if run.plan}
    direct = [name for name, own in plans.items() if own.score and score_convention(own) == DIRECT]
    if 0 < len(direct) < len(plans):
        others = f"{', '.join(direct)}, and are added up at once in the others"
        yield Note("bytes", f"errors go directly in the scores of {others}")
    planned = grouped((own.cost.name, name) for name, own in plans.items())
    if {*planned} != {load_strategy(BASELINE).cost}:
        named = (f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        yield Note("cost", "; ".join(named))


# Sweeps: combinations by the axes that vary


def _swept(runs: Sweep) -> Document:
    axes = runs.varied or ("strategy",)
    named = [{name: _text(run.axes[name]) for name in axes} for run in runs]
    lines = _along(runs, *axes)
    heads = [Column(key=name, unit="whole" if name in NUMBERS else "text") for name in axes]
    table = _table(runs, heads, dict(enumerate(named)), bars=lines is None)
    fixed = {name: _text(value) for name, value in runs[0].axes.items() if name not in axes} | _asked(runs)
    about = [name if text == "True" else f"{name} {text}".rstrip() for name, text in fixed.items()]
    refused = dict.fromkeys(run.note for run in runs if run.refused)
    notes = (Note(NOT_PLANNED * (not number), reason) for number, reason in enumerate(refused))

    def name(run: Run) -> str:
        return ", ".join(f"{axis} {_text(run.axes[axis])}" for axis in axes)

    base = f"the first row{' of the same batch' * ('batch' in axes)}"
    return _document(runs, runs.model, about, table, name, *notes, lines=lines, base=base)


def _swept_row(runs: Sweep, run: Run) -> dict[str, Any]:
    texts = {name: _text(run.axes[name]) for name in ("hardware", "array") if name in run.axes}
    common = {**_asked(runs), "convention": runs.convention}
    return {**run.axes, **texts, **common, **_totals(run), "fits": run.fits, "note": run.note}


def _asked(runs: Sweep) -> dict[str, str]:
    """Return the arguments that were given for all runs, as text."""
    return {
        name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
        for name, value in runs.asked.items()
    }


def _text(value: Any) -> str:
    """Format a value on an axis, or of an argument."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    return (
        ", ".join(map(str, value.values())) if isinstance(value, dict) else getattr(value, "name", str(value))
    )


def _along(runs: Sweep, *axes: str) -> Figure | None:
    """Plot times along the innermost axis that varies if it has numbers, with a series for each combination of the others."""
    *others, along = axes
    places = [*dict.fromkeys(run.axes[along] for run in runs if type(run.axes[along]) in {int, float})]
    if len(places) < 2:
        return None
    series: dict[str, list[float | None]] = {}
    for run in runs:
        named = ((f"{name} " * (name in NUMBERS), _text(run.axes[name])) for name in others)
        values = series.setdefault(", ".join(map("".join, named)), [None] * len(places))
        values[places.index(run.axes[along])] = run.totals and run.totals.time_s
    return _lines([*map(float, places)], along, series)


# Explorations: points by the words of each free layer, level by level


def _explored(found: Exploration, top: int = SHOWN) -> Document:
    plan, number = found.plan, f"{len(found):,} points"
    heads = [Column(key=layer, head=f"{layer} {_levels(own)}") for layer, own in grouped(found.ways).items()]
    rows = {
        rank: {**_words(found, point), "said": "the plan" * point.own}
        for rank, point in enumerate(found[:top])
    }
    own = next((f"number {rank}" for rank, point in enumerate(found, 1) if point.own), "not one of them")
    hidden = f", {len(found) - top:,} of them not shown" * (len(found) > top)
    note = Note("points", f"{number}{hidden}; the plan of {plan.strategy} is {own}")

    def name(point: Run) -> str:
        words = (f"{layer} {word}" for layer, word in _words(found, point).items())
        return "the plan" if point.own else ", ".join(words)

    lines = None
    if len(found) > MOST_BARS:
        marks = {rank: f"the plan, {own}" for rank, point in enumerate(found) if point.own}
        marks |= {0: f"fastest: {name(found[0])}"}
        times = {"": [point.time_s for point in found]}
        lines = _lines(range(len(found)), "plans that are faster", times, marks=marks)
    table = _table(found, heads, rows, bars=lines is None)
    subject = f"{plan.model.name} {on_machine(plan.score)}, {number}"
    return _document(found, subject, [asked(plan)], table, name, note, lines=lines)


def _explored_row(found: Exploration, run: Run) -> dict[str, Any]:
    texts = {
        f"{layer} H{level + 1}": choice.text(found.ways[layer, level])
        for (layer, level), choice in run.axes.items()
    }
    own = {"dp_over_it": found.speedup(run), "fits": run.fits, "own": run.own}
    return {**texts, **_totals(run), "convention": found.convention, **own}


def _words(found: Exploration, run: Run) -> dict[str, str]:
    """Return the words of each free layer, level by level, in those of the plan's tables; one for all if they are equal."""
    words, grids = words_of(found.plan), found.plan.in_grids
    named = grouped(
        (layer, choice_word(choice.degrees, found.ways[layer, level], words, grids=grids))
        for (layer, level), choice in run.axes.items()
    )
    return {layer: " ".join(own if len({*own}) > 1 else own[:1]) for layer, own in named.items()}


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    names = [f"H{level + 1}" for level in levels]
    several = len(names) == levels[-1] - levels[0] + 1 > 2
    return f"{names[0]}-{names[-1]}" if several else " ".join(names)


_KINDS: dict[type[Runs], tuple[Callable[..., Document], Callable[..., dict[str, Any]]]] = {
    Comparison: (_compared, _compared_row),
    Sweep: (_swept, _swept_row),
    Exploration: (_explored, _explored_row),
}
"""The functions that make the document of runs and a row of its data."""
