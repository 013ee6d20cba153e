"""Listings of the points of explorations and sweeps."""

from __future__ import annotations

import math
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.plan.request import PARAMETERS
from hypar.plan.score import Totals
from hypar.reports.formats.base import on_machine, question
from hypar.reports.listings.base import TOO_BIG, Data, make_table, too_big_note
from hypar.reports.prose import Note
from hypar.studies.sweep import varied
from hypar.units import faster_than, format_bytes, format_gain, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.reports.columns import Sheet
    from hypar.studies.exploration import Exploration, Point
    from hypar.studies.sweep import Run, Sweep


TEXTS = ("hardware", "array")
"""The axes of a sweep whose values are listed as text."""


def exploration_data(found: Exploration, points: Iterable[Point]) -> Data:
    """Return one entry for each point: the dims at the free places, the totals, and the speedup over dp."""
    return [
        {
            **{
                f"{layer} H{level + 1}": text
                for (layer, level), text in zip(found.places, point.texts, strict=True)
            },
            **point.totals._asdict(),
            "convention": found.convention,
            "dp_over_it": found.speedup(point),
            "fits": point.fits,
            "own": point.own,
        }
        for point in points
    ]


def exploration_table(found: Exploration, points: Iterable[Point]) -> Sheet:
    """Return one row for each point, with the words of each free layer level by level."""
    free: dict[str, list[int]] = {}
    for number, (layer, _) in enumerate(found.places):
        free.setdefault(layer, []).append(number)
    word = found.namer
    heads = [
        f"{layer} {_level_range([found.places[at][1] for at in places])}" for layer, places in free.items()
    ]
    numbers = ["time", "gain", "energy", "received", ""]
    table = make_table([*heads, *numbers], "l" * len(heads) + "rrrrl", keys=len(heads))
    for point in points:
        cells = [" ".join(word(point, at) for at in places) for places in free.values()]
        notes = ("the plan" if point.own else "", "" if point.fits else TOO_BIG)
        totals = _totals_cells(point.totals, found.baseline, digits=4)[:4]
        table.add_row(*cells, *totals, ", ".join(filter(None, notes)))
    return table


def _level_range(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)


def _totals_cells(own: Totals, first: Totals, digits: int = 3) -> list[str]:
    energy = "-" if own.energy_j is None else format_joules(own.energy_j)
    sizes = [format_bytes(own.communication_bytes), format_bytes(own.memory_bytes)]
    return [format_seconds(own.time_s), format_gain(first.time_s, own.time_s, digits), energy, *sizes]


def runs_data(runs: Sweep) -> Data:
    """Return one entry for each combination of a sweep."""
    nothing = dict.fromkeys(Totals._fields)
    return [
        {
            **{name: axis_text(value) if name in TEXTS else value for name, value in run.axes.items()},
            **_asked(runs),
            "convention": runs.convention,
            **(run.totals._asdict() if run.totals else nothing),
            "fits": run.fits,
            "note": run.note,
        }
        for run in runs
    ]


def _asked(runs: Sweep) -> dict[str, str]:
    """Return the arguments that were given for all runs, as text."""
    given = {name: runs.asked.get(name) for name in PARAMETERS}
    return {name: _text(value) for name, value in given.items() if not _as_good_as_absent(value)}


def _as_good_as_absent(value: Any) -> bool:
    return value is None or value is False or value in ((), [], "sgd")


def _text(value: Any) -> str:
    """Format the value of an argument."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return value.name if isinstance(value, Profile) else str(value)


def runs_table(runs: Sequence[Run]) -> Sheet:
    """Return one row for each combination with its varying axes; times relative to the first row of the same batch."""
    names = axes_of(runs)
    heads = [*names, "time", "gain", "energy", "received", "memory", ""]
    numeric = "".join("r" if name in {"levels", "array", "batch"} else "l" for name in names)
    table = make_table(heads, numeric + "rrrrrl", keys=len(names), prose={""})
    first: dict[int, Totals] = {}
    for run in runs:
        axes = [axis_text(run.axes[name]) for name in names]
        if run.totals is None:
            table.add_row(*axes, *["-"] * 5, run.note)
            continue
        base = first.setdefault(run.axes["batch"], run.totals)
        table.add_row(*axes, *_totals_cells(run.totals, base), "" if run.fits else TOO_BIG)
    return table


def runs_head(model: str, runs: Sweep) -> str:
    """Name the fastest combination, and describe the values that all combinations share."""
    names = axes_of(runs)
    fitting = [(seconds_a_sample(run), run.axes) for run in runs if run.totals and run.fits]
    best = "no combination fits"
    if fitting:
        fastest = min(fitting, key=itemgetter(0))[1]
        best = (
            f"{', '.join(f'{name} {axis_text(fastest[name])}' for name in names)} is fastest{by_sample(runs)}"
        )
    asked = [
        f"planned by {text}" if name == "cost" else name if text == "True" else f"{name} {text}"
        for name, text in _asked(runs).items()
    ]
    said = [held(runs), *asked, f"counted by {runs.convention}"]
    return f"{model}: {best}\n{', '.join(filter(None, said))}"


def seconds_a_sample(run: Run) -> float:
    """Return the time of a step for each sample of the mini-batch, by which other batches compare; infinite without a time."""
    return run.totals.time_s / run.axes["batch"] if run.totals else math.inf


def by_sample(runs: Sequence[Run]) -> str:
    """Say that times are compared for each sample, where batches differ."""
    return " a sample" if "batch" in axes_of(runs) else ""


def held(runs: Sequence[Run]) -> str:
    """Describe the values that all combinations share."""
    names = axes_of(runs)
    return ", ".join(
        f"{name} {axis_text(value)}".rstrip() for name, value in runs[0].axes.items() if name not in names
    )


def runs_notes(runs: Sequence[Run]) -> list[Note]:
    """Explain the words of the table."""
    over = Note("gain", "the time of the first row of the same batch over the row's")
    return [over, *too_big_note(shown=any(run.totals and not run.fits for run in runs))]


def axes_of(runs: Sequence[Run]) -> list[str]:
    """Return the axes of a sweep that vary; the strategy if none does."""
    return list(varied(runs)) or ["strategy"]


def axis_text(value: Any) -> str:
    """Format a value on an axis of a sweep."""
    if isinstance(value, Machine | HeterogeneousMachine):
        return value.name
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    if isinstance(value, dict):
        return ", ".join(map(str, value.values()))
    return str(value)


def exploration_head(found: Exploration, ranked: Sequence[Point]) -> str:
    """Name the fastest point, and describe the network, the array and the machine."""
    best = ranked[0]
    own = " is the plan," if best.own else " is"
    compared = faster_than("dp", found.baseline.time_s, best.totals.time_s)
    asked = question(found.plan).removeprefix(f"{found.plan.model.name}, ")
    subject = f"{found.plan.model.name} {on_machine(found.plan.score)}"
    return f"{subject}: the fastest of {len(ranked):,} points{own} {compared}\n{asked}, counted by {found.convention}"


def exploration_notes(found: Exploration, ranked: Sequence[Point]) -> list[Note]:
    """State the number of points and the rank of the plan among them."""
    own = next((place for place, point in enumerate(ranked, 1) if point.own), None)
    where = f"the plan of {found.plan.strategy} is " + ("not one of them" if own is None else f"number {own}")
    return [
        Note("points", f"{len(ranked):,} points; {where}"),
        Note("gain", "the time of dp over the point's"),
        *too_big_note(shown=not all(point.fits for point in ranked)),
    ]
