"""The document of an exploration: its fastest point, and the points in the order of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note
from hypar.reports.of.base import FITS_NOT, Step, data, picture, steps_table, totals_data
from hypar.reports.words import asked, on_machine
from hypar.sharding.dims import choice_word, vocabulary
from hypar.units import faster_than

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.document import Figure, Table
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
    over += ", which does not fit" * (not found.baseline_fits)
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
            **totals_data(point.totals),
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


def _words(found: Exploration) -> Callable[[Point], list[str]]:
    """Return the function that names a point's choices, in the words of one paper for all points."""
    words = vocabulary({dim for each in found.points for choice in each.choices for dim in choice.divided})
    grids = found.plan.in_grids
    return lambda point: [
        choice_word(choice.degrees, ways, words, grids=grids)
        for choice, ways in zip(point.choices, found.ways, strict=True)
    ]


def _table(found: Exploration, points: Sequence[Point]) -> Table:
    """Return one row for each point, with the words of each free layer level by level."""
    words, free = _words(found), _layers(found)
    steps = (
        Step(
            {layer: " ".join(words(point)[at] for at in places) for layer, places in free.items()},
            point.totals,
            found.baseline,
            ", ".join(filter(None, ["the plan" * point.own, FITS_NOT * (not point.fits)])),
            "" if point.fits else "bad",
        )
        for point in points
    )
    heads = (
        Column(key=layer, head=f"{layer} {_levels([found.places[at][1] for at in places])}")
        for layer, places in free.items()
    )
    return steps_table(heads, steps, digits=4)


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)


def _figure(found: Exploration, ranked: Sequence[Point], title: str) -> Figure:
    """Plot each point's time, the fastest first, with the names of the fastest and of the plan."""
    words, free, few = _words(found), _layers(found), len(ranked) <= MOST_BARS

    def named(point: Point) -> str:
        own = {layer: [words(point)[at] for at in places] for layer, places in free.items()}
        return ", ".join(
            f"{layer} {each[0] if len({*each}) == 1 else ' '.join(each)}" for layer, each in own.items()
        )

    marks = {0: "fastest" if few else f"fastest: {named(ranked[0])}"}
    for rank, point in enumerate(ranked):
        if point.own:
            marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
    series = {"": [point.totals.time_s for point in ranked]}
    if few:
        return picture(title, [named(point) for point in ranked], series, marks=marks)
    x = list(range(len(ranked)))
    return picture(title, x, series, marks=marks, kind="lines", x_label="plans that are faster")
