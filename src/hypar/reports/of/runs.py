"""The documents of the runs of a grid, which are strategies, the combinations of a sweep or the points of an exploration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

from hypar.document import Column, Document, Note, Table, Tone
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.text import faster_than
from hypar.reports.words import TOTALS, asked, data, grouped, levels_of, on_machine, texts_of, tone_of
from hypar.sharding.conventions import MOVED
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.alternatives import Exploration
from hypar.studies.grid import Comparison, Run, Runs, Sweep
from hypar.units import exact_number, format_bytes, format_gain, format_seconds

SHOWN, ALIKE = 10, 1e-3
"""Points of an exploration that are shown unless more are asked for; and the difference of times that makes strategies alike."""

NAMED, NUMBERS = {"hardware", "array"}, {"levels", "array", "batch"}
FITS_NOT, NOT_PLANNED = "does not fit", "not planned"
"""The axes whose values are texts, and those whose values stand at the right of a column; and what is said in place of a bar: of
a plan that a device's memory does not hold, and of a run that a note refuses."""


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
            pairs = ((each.key, getattr(base, each.key), getattr(run.totals, each.key)) for each in TOTALS)
            own["score_gains"] = {name: first / last for name, first, last in pairs if first and last}
        entries.append({**own, "note": run.note, "plan": run.plan and run.plan.to_data()})
    return entries


def _document(
    runs: Runs,
    subject: str,
    about: Iterable[str],
    heads: Iterable[Column],
    cells: Callable[[Run], dict[str, Any]],
    shown: Sequence[Run],
    *notes: Note,
    base: str = BASELINE,
) -> Document:
    """Return a document; ``cells`` are the first ones of a row, by which a run is named, and what it is compared with ``base``."""
    best = min((run for run in runs if run.fits), key=runs.value, default=None)
    pairs = (row.items() for row in rows_of(runs))
    rows = [{key: _text(own) if isinstance(own, dict) else own for key, own in row} for row in pairs]
    than = "faster" if any(run.totals for run in runs) else "cheaper"
    unfit = {str(run.axes.get("batch")): "" for run in runs if run.totals and not runs.base(run).fits}
    which = f", which {FITS_NOT}" + f" at batch {', '.join(unfit)}" * base.endswith("batch")
    gain = Note("gain", f"how many times {than} than {base}{which * bool(unfit)}")
    counted = [f"counted by {runs.convention}"] * (runs.convention != MOVED)
    said = Column("said", ""), Column("bar", "", "bar")
    columns = (*heads, TOTALS[0], Column("gain", unit="ratio"), *TOTALS[1:], *said)
    return Document(
        title=f"{subject}: {_answer(runs, best, cells)}",
        about=", ".join([*about, *counted]),
        tone=_tone(best) if best else "bad",
        parts=(data(rows), Table(columns, _rows(runs, shown, cells))),
        notes=(gain, *notes, *(best or runs[0]).remarks),
    )


def _answer(runs: Runs, best: Run | None, cells: Callable[[Run], dict[str, Any]]) -> str:
    """Say which of the runs that fit is best, strategies that are alike together, and by how much; or what needs least."""
    if best is None:
        needs = ((run.totals.memory_bytes, _name(run, cells)) for run in runs if run.totals)
        held, least = min(needs, default=(0.0, ""))
        return f"none fits; {least} needs least, {format_bytes(held)}" if least else "none fits"
    first, base, alike = runs.value(best), runs.base(best), [best]
    if isinstance(runs, Comparison):
        most = first * (1 + ALIKE * (best.totals is not None))
        alike = [run for run in runs if run.fits and runs.value(run) <= most]
    if len(alike) == len(runs) > 1:
        return "all strategies are alike"
    verb = ("is fastest", "are fastest") if best.totals else ("costs least", "cost least")
    unfit = any(run.totals and not run.fits for run in runs)
    answer = f"{' and '.join(_name(run, cells) for run in alike)} {verb[len(alike) > 1]}"
    if isinstance(runs, Sweep):
        sample = " a sample" * ("batch" in runs.varied)
        return f"{answer}{sample}{' of those that fit' * unfit}, {format_seconds(best.time_s)} a step"
    behind = best.totals is not None and not base.fits and base.time_s < first * (1 - ALIKE)
    answer += " of those that fit" * (unfit and (base.fits or behind))
    if behind:
        ratio = faster_than("", first, base.time_s).removesuffix(" than ")
        return f"{answer}; {base.name}, which {FITS_NOT}, is {ratio}"
    if best.totals is None:
        more = f"{format_gain(base.cost, best.cost)} less than {base.name}"
    else:
        more = faster_than(base.name, base.time_s, first) + f", which {FITS_NOT}" * (not base.fits)
    return answer if base in alike else f"{answer}, {more}"


def _name(run: Run, cells: Callable[[Run], dict[str, Any]]) -> str:
    words = (own if key == "strategy" else f"{key} {own}" for key, own in cells(run).items())
    return "the plan" if run.own else ", ".join(words)


def _rows(runs: Runs, shown: Sequence[Run], cells: Callable[[Run], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as readers see them; a bar is a time, without a machine a cost, or what is said in its place."""
    rows = []
    for run in shown:
        value = run.time_s if run.totals else runs.value(run)
        bar = "" if run.fits else FITS_NOT if run.totals else NOT_PLANNED
        costs = {f"H{level}": cost for level, cost in enumerate(run.costs, 1)}
        row = {
            "cost": run.plan and run.cost, "gain": runs.speedup(run), "said": "the plan" * run.own,
            "bar": bar or (value if value < math.inf else ""),
            "tone": _tone(run).replace("good", "") or "this" * run.own,
        }  # fmt: skip
        rows.append({**cells(run), **_totals(run), **costs, **row})
    return rows


def _totals(run: Run) -> dict[str, float | None]:
    return {own.key: getattr(run.totals, own.key, None) for own in TOTALS}


def _tone(run: Run) -> Tone:
    return tone_of(run.plan.score if run.plan else None) or ("" if run.fits else "bad")


# Comparisons: strategies by the times of their steps, or without a machine by their costs


@singledispatch
def document_of(found: Any, **_top: int) -> Document:
    """Return the document of some runs; of an exploration ``top`` points are shown, while its data has all."""
    plan, unit = found.plan, found.plan.cost.unit
    ranked = sorted(found, key=lambda run: (not run.fits, found.value(run)))
    heads = [Column("strategy")]
    if plan.score is None:
        levels = max(len(run.costs) for run in found)
        heads += (Column(f"H{level + 1}", unit=unit) for level in range(levels))
        heads.append(Column("cost", head=plan.cost.name, unit=unit))
    subject, notes = f"{plan.model.name} {on_machine(plan.score)}".rstrip(), _claims(ranked)
    return _document(found, subject, [asked(plan)], heads, lambda run: {"strategy": run.name}, ranked, *notes)


def rows_of(runs: Runs) -> list[dict[str, Any]]:
    """Return one row for each run: its axes, what all runs share, and the totals of its score."""
    return [_row_of(runs, run) for run in runs]


@singledispatch
def _row_of(found: Any, run: Run) -> dict[str, Any]:
    own = run.plan
    scored = {**_totals(run), "fits": run.totals and run.fits, "time_gain": found.speedup(run)}
    cost = {"cost": own and exact_number(run.cost), "unit": own and own.cost.unit}
    return {
        "strategy": run.name, **cost, "planned_by": own and own.cost.name, "convention": found.convention,
        "cost_gain": run.gain, **(scored if found.plan.score else {}), "search": own and own.search, "note": run.note,
    }  # fmt: skip


def _claims(ranked: Sequence[Run]) -> Iterator[Note]:
    """Yield each plan's claim or why there is none, and the costs by which plans were made."""
    claims = grouped((run.note, run.name) for run in ranked)
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    planned = grouped((run.plan.cost.name, run.name) for run in ranked if run.plan)
    if {*planned} != {load_strategy(BASELINE).cost}:
        named = (f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        yield Note("cost", "; ".join(named))


# Sweeps: combinations by the axes that vary


@document_of.register(Sweep)
def _swept(runs: Sweep) -> Document:
    axes = runs.varied or ("strategy",)
    heads = [Column(name, unit="whole" if name in NUMBERS else "text") for name in axes]
    fixed = {name: _text(value) for name, value in runs[0].axes.items() if name not in axes} | _asked(runs)
    about = [name if text == "True" else f"{name} {text}".rstrip() for name, text in fixed.items()]
    refused = dict.fromkeys(run.note for run in runs if run.refused)
    notes = (Note(NOT_PLANNED * (not number), reason) for number, reason in enumerate(refused))

    def cells(run: Run) -> dict[str, str]:
        return {name: _text(run.axes[name]) for name in axes}

    base = f"the first row{' of the same batch' * ('batch' in axes)}"
    return _document(runs, runs.model, about, heads, cells, runs, *notes, base=base)


@_row_of.register(Sweep)
def _swept_row(runs: Sweep, run: Run) -> dict[str, Any]:
    axes = {name: _text(own) if name in NAMED else own for name, own in run.axes.items()}
    common = {**_asked(runs), "convention": runs.convention}
    return {**axes, **common, **_totals(run), "fits": run.fits, "note": run.note}


def _asked(runs: Sweep) -> dict[str, str]:
    return {
        name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
        for name, value in runs.asked.items()
    }


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    if isinstance(value, dict):
        return ", ".join(map(str, value.values()))
    return str(getattr(value, "name", value))


# Explorations: points by the words of each free layer, level by level


@document_of.register(Exploration)
def _explored(found: Exploration, top: int = SHOWN) -> Document:
    plan, number, cells = found.plan, f"{len(found):,} points", partial(_words, found)
    layers = grouped(found.ways)
    heads = [Column(layer, f"{layer} {levels_of(WHOLE_ARRAY, own)}") for layer, own in layers.items()]
    rank = next((rank for rank, point in enumerate(found) if point.own), None)
    own = "not one of them" if rank is None else f"number {rank + 1}"
    hidden = f", {len(found) - top:,} of them not shown" * (len(found) > top)
    note = Note("points", f"{number}{hidden}; the plan of {plan.strategy} is {own}")
    subject = f"{plan.model.name} {on_machine(plan.score)}, {number}"
    return _document(found, subject, [asked(plan)], heads, cells, found[:top], note)


@_row_of.register(Exploration)
def _explored_row(found: Exploration, run: Run) -> dict[str, Any]:
    named = {place: own.text(found.ways[place]) for place, own in run.axes.items()}
    axes = {f"{layer} H{level + 1}": text for (layer, level), text in named.items()}
    own = {"dp_over_it": found.speedup(run), "fits": run.fits, "own": run.own}
    return {**axes, **_totals(run), "convention": found.convention, **own}


def _words(found: Exploration, run: Run) -> dict[str, str]:
    """Return the words of each free layer, level by level, in those of the plan's tables; one for all if they are equal."""
    text, ways = texts_of(found.plan), found.ways
    named = grouped((place[0], text(choice, ways[place])) for place, choice in run.axes.items())
    return {layer: " ".join(own if len({*own}) > 1 else own[:1]) for layer, own in named.items()}


plugin = document_of
