"""Listings of the points of explorations and sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.machine.machine import Machine
from hypar.plan.score import Totals
from hypar.reports.listings.base import Data, noted_table, ratio
from hypar.sharding.dims import choice_word, vocabulary
from hypar.studies.sweep import varied
from hypar.units import format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from hypar.studies.exploration import Exploration, Point
    from hypar.studies.sweep import Run


def exploration_data(found: Exploration, points: Iterable[Point]) -> Data:
    """Return one entry for each point: the dims at the free places, the totals, and the speedup over dp."""
    return [
        {
            **{
                f"{layer} H{level + 1}": text
                for (layer, level), text in zip(found.places, point.texts, strict=True)
            },
            **point.totals._asdict(),
            "dp_over_it": found.speedup(point),
            "fits": point.fits,
            "own": point.own,
        }
        for point in points
    ]


def exploration_table(found: Exploration, points: Iterable[Point]) -> Table:
    """Return one row for each point, with the words of each free layer level by level."""
    free: dict[str, list[int]] = {}
    for number, (layer, _) in enumerate(found.places):
        free.setdefault(layer, []).append(number)
    used = {dim for point in found.points for choice in point.choices for dim in choice.divided}
    words = vocabulary(used)
    heads = [
        f"{layer} {' '.join(f'H{found.places[at][1] + 1}' for at in places)}"
        for layer, places in free.items()
    ]
    rows = []
    for point in points:
        cells = [
            " ".join(
                choice_word(
                    point.choices[at].degrees,
                    found.plan.array[found.places[at][1]],
                    words,
                    grids=found.plan.in_grids,
                )
                for at in places
            )
            for places in free.values()
        ]
        notes = ("the plan" if point.own else "", "" if point.fits else "does not fit")
        rows.append(
            [*cells, *_totals_cells(point.totals, found.baseline)[:4], ", ".join(filter(None, notes))]
        )
    numbers = ["time", "dp over it", "energy", "communication"]
    return noted_table([*heads, *numbers], "l" * len(heads) + "rrrrl", rows)


def _totals_cells(own: Totals, first: Totals) -> list[str]:
    energy = "-" if own.energy_j is None else format_joules(own.energy_j)
    sizes = [format_bytes(own.communication_bytes), format_bytes(own.memory_bytes)]
    return [format_seconds(own.time_s), ratio(first.time_s, own.time_s), energy, *sizes]


def runs_data(runs: Sequence[Run]) -> Data:
    """Return one entry for each combination of a sweep."""
    nothing = dict.fromkeys(Totals._fields)
    return [
        {
            **run.axes,
            "hardware": axis_text(run.axes["hardware"]),
            **(run.totals._asdict() if run.totals else nothing),
            "fits": run.fits,
            "note": run.note,
        }
        for run in runs
    ]


def runs_table(runs: Sequence[Run]) -> Table:
    """Return one row for each combination with its varying axes; times relative to the first row of the same batch."""
    names = axes_of(runs)
    heads = [*names, "time", "first over it", "energy", "communication", "memory"]
    first: dict[int, Totals] = {}
    rows = []
    for run in runs:
        axes = [axis_text(run.axes[name]) for name in names]
        if run.totals is None:
            rows.append([*axes, *["-"] * 5, run.note])
            continue
        base = first.setdefault(run.axes["batch"], run.totals)
        rows.append([*axes, *_totals_cells(run.totals, base), "" if run.fits else "does not fit"])
    return noted_table(heads, "l" * len(names) + "rrrrrl", rows)


def runs_head(model: str, runs: Sequence[Run]) -> str:
    """Describe the values that all combinations share."""
    held = {name: value for name, value in runs[0].axes.items() if name not in axes_of(runs)}
    return ", ".join([model, *(f"{name} {axis_text(value)}" for name, value in held.items())])


def axes_of(runs: Sequence[Run]) -> list[str]:
    """Return the axes of a sweep that vary; the strategy if none does."""
    return list(varied(runs)) or ["strategy"]


def axis_text(value: Any) -> str:
    """Format a value on an axis of a sweep."""
    if isinstance(value, Machine):
        return value.name
    if isinstance(value, Path):
        return value.stem
    if isinstance(value, dict):
        return ", ".join(map(str, value.values()))
    return str(value)


def exploration_notes(found: Exploration, ranked: Sequence[Point]) -> list[str]:
    """State the number of points and the rank of the plan among them."""
    own = next((place for place, point in enumerate(ranked, 1) if point.own), None)
    where = f"the plan of {found.plan.strategy} is " + ("not one of them" if own is None else f"number {own}")
    return [f"{len(ranked):,} points, times against dp; {where}"]
