"""The document of an exploration: its fastest point, and the points in the order of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Figure, Note, Table
from hypar.reports.of.base import FITS_NOT, data, totals_cells, totals_columns
from hypar.reports.words import asked, on_machine
from hypar.sharding.dims import choice_word, vocabulary
from hypar.units import faster_than, format_gain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.studies.explore import Exploration, Point

SHOWN = 10
"""Points that are shown unless more are asked for."""

MOST_BARS = 16
"""Number of points that are plotted as bars with their names; more are a line."""


def document_of(found: Exploration, top: int = SHOWN) -> Document:
    """Return the document of an exploration.

    Args:
        found: the exploration.
        top: the number of points to show; its data has all.
    """
    ranked, plan = found.ranked(), found.plan
    best = next((point for point in ranked if point.fits), ranked[0])
    fastest = f"the fastest of {len(ranked):,} points {'is the plan,' if best.own else 'is'}"
    over = faster_than("dp", found.baseline.time_s, best.totals.time_s)
    title = f"{plan.model.name} {on_machine(plan.score)}: " + (
        f"{fastest} {over}" if best.fits else f"none of {len(ranked):,} points fits"
    )
    return Document(
        title=title,
        about=f"{asked(plan)}, counted by {found.convention}",
        tone="" if best.fits else "bad",
        parts=(data(exploration_rows(found)), _table(found, ranked[:top]), _figure(found, ranked, title)),
        notes=(
            Note("gain", "how many times faster than dp, the time of dp over the point's"),
            Note("points", _points(found, ranked, top)),
        ),
    )


plugin = document_of


def exploration_rows(found: Exploration) -> list[dict[str, Any]]:
    """Return one row for each point, the fastest first: the dims at the free places, the totals, the speedup over dp."""
    return [
        {
            **{
                f"{layer} H{level + 1}": text
                for (layer, level), text in zip(found.places, point.texts, strict=True)
            },
            **totals_cells(point.totals),
            "convention": found.convention,
            "dp_over_it": found.speedup(point),
            "fits": point.fits,
            "own": point.own,
        }
        for point in found.ranked()
    ]


def _points(found: Exploration, ranked: Sequence[Point], top: int) -> str:
    own = next((place for place, point in enumerate(ranked, 1) if point.own), None)
    where = f"the plan of {found.plan.strategy} is " + ("not one of them" if own is None else f"number {own}")
    hidden = f", {len(ranked) - top:,} of them not shown" if len(ranked) > top else ""
    return f"{len(ranked):,} points{hidden}; {where}"


def _layers(found: Exploration) -> dict[str, list[int]]:
    """Return the places of each free layer."""
    free: dict[str, list[int]] = {}
    for number, (layer, _) in enumerate(found.places):
        free.setdefault(layer, []).append(number)
    return free


def _namer(found: Exploration) -> Callable[[Point, int], str]:
    """Return the function that names a point's choice at a place, in the words of one paper for all points."""
    words = vocabulary({dim for each in found.points for choice in each.choices for dim in choice.divided})
    grids = found.plan.in_grids
    return lambda point, at: choice_word(point.choices[at].degrees, found.ways[at], words, grids=grids)


def _table(found: Exploration, points: Sequence[Point]) -> Table:
    """Return one row for each point, with the words of each free layer level by level."""
    word, free = _namer(found), _layers(found)
    rows = []
    for point in points:
        said = ("the plan" if point.own else "", "" if point.fits else FITS_NOT)
        rows.append(
            {
                **{layer: " ".join(word(point, at) for at in places) for layer, places in free.items()},
                **totals_cells(point.totals),
                "gain": format_gain(found.baseline.time_s, point.totals.time_s, 4),
                "said": ", ".join(filter(None, said)),
                "tone": "" if point.fits else "bad",
            }
        )
    heads = (
        Column(key=layer, head=f"{layer} {_levels([found.places[at][1] for at in places])}")
        for layer, places in free.items()
    )
    return Table(columns=(*heads, *totals_columns(), Column(key="said", head="")), rows=rows)


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)


def _figure(found: Exploration, ranked: Sequence[Point], title: str) -> Figure:
    """Plot each point's time, the fastest first, with the names of the fastest and of the plan."""
    word, few = _namer(found), len(ranked) <= MOST_BARS

    def named(point: Point) -> str:
        words = {layer: [word(point, at) for at in places] for layer, places in _layers(found).items()}
        return ", ".join(
            f"{layer} {own[0] if len({*own}) == 1 else ' '.join(own)}" for layer, own in words.items()
        )

    marks = {0: "fastest" if few else f"fastest: {named(ranked[0])}"}
    for rank, point in enumerate(ranked):
        if point.own:
            marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
    return Figure(
        kind="bars" if few else "lines",
        title=title,
        x=[named(point) for point in ranked] if few else list(range(1, len(ranked) + 1)),
        series={"": [point.totals.time_s for point in ranked]},
        unit="seconds",
        x_label="" if few else "plans, the fastest first",
        y_label="time of a step",
        marks=marks,
    )
