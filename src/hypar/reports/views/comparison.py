"""Comparisons: a row for each strategy, and a bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.plan.score import Totals
from hypar.reports.listings.plans import compared, comparison_notes, comparison_unfit
from hypar.reports.page import numbers as page
from hypar.reports.page.fragment import fragment
from hypar.reports.views.base import TOTALS, totals_cells
from hypar.units import exact_number

if TYPE_CHECKING:
    from hypar.plan.plan import Plan
    from hypar.reports.views.base import View
    from hypar.studies.comparison import Comparison, Row


class ComparisonView:
    """The view of a comparison."""

    def rows(self, found: Comparison) -> list[dict[str, Any]]:
        """Return one row for each strategy: cost, gain over the first, and the totals of its score."""
        scored = any(row.plan and row.plan.score for row in found)
        return [
            {
                "strategy": row.name,
                "cost": row.plan and exact_number(row.cost),
                "unit": row.plan and row.plan.cost.unit,
                "planned_by": row.plan and row.plan.cost.name,
                "convention": found.convention,
                "cost_gain": row.gain,
                **(_totals(row) | {"time_gain": _times_faster(found[0], row)} if scored else {}),
                "search": row.plan and row.plan.search,
                "note": row.note,
            }
            for row in found
        ]

    def html(self, found: Comparison) -> str:
        """Return a table of strategies: their times on a machine, or without one their costs."""
        scored = any(row.plan and row.plan.score for row in found)
        over = f"{found[0].name} over it"
        first, *more = TOTALS if scored else ["cost"]
        rows = [_cells(row, _gain(found[0], row), scored=scored) for row in found]
        notes = [
            *comparison_unfit(found),
            *(f"{note.label}: {note.text}" for note in comparison_notes(found)),
        ]
        return fragment(_finding(found), ["strategy", first, over, *more, ""], rows, notes)

    def drawing(self, found: Comparison) -> Figure:
        """Return a bar for each strategy: the time of a step, or without a machine the cost."""
        values, first = _values(found), _first(found)
        timed = first.score is not None
        scores = [row.plan.score for row in found if row.plan and row.name in values]
        return Figure(
            title=_finding(found),
            x=list(values),
            x_label="",
            y_label="time of a step" if timed else f"{first.cost.name} of a step",
            series={"": list(values.values())},
            shown=page.seconds if timed else lambda value: page.amount(value, first.cost.unit),
            marks={place: "does not fit" for place, score in enumerate(scores) if score and not score.fits},
        )


def _first(found: Comparison) -> Plan:
    return next(row.plan for row in found if row.plan)


def _values(found: Comparison) -> dict[str, float]:
    """Return the times of the strategies; without a machine the costs of those that minimise the first one's."""
    first = _first(found)
    return {
        row.name: row.plan.score.time_s if row.plan.score else row.cost
        for row in found
        if row.plan and (row.plan.score or row.plan.cost.name == first.cost.name)
    }


def _finding(found: Comparison) -> str:
    """Name the best strategies, and their gain over the first."""
    values, first = _values(found), _first(found)
    least, base = min(values.values()), next(iter(values))
    best = [name for name, value in values.items() if value <= least * (1 + page.LEAST_SHARE)]
    if len(best) == len(values) > 1:
        return f"{', '.join(compared(found))}: all strategies are alike"
    several = len(best) > 1
    words = (
        ("are" if several else "is", "the fastest")
        if first.score
        else ("have" if several else "has", f"the least {first.cost.name}")
    )
    gain = (
        ""
        if base in best
        else f", {base} over {'them' if several else 'it'} {page.ratio(values[base], least)}"
    )
    return f"{', '.join(compared(found))}: {' and '.join(best)} {' '.join(words)}{gain}"


def _times_faster(first: Row, row: Row) -> float | None:
    """Return the first strategy's time over a strategy's own; None if one has none."""
    if row.plan and first.plan and row.plan.score and first.plan.score:
        return first.plan.score.time_s / row.plan.score.time_s
    return None


def _gain(first: Row, row: Row) -> str:
    """Return the first strategy's time over a strategy's own, or without a machine its cost."""
    faster = _times_faster(first, row)
    if faster is not None:
        return page.ratio(faster, 1.0)
    return "" if row.gain is None else page.ratio(row.gain, 1.0)


def _cells(row: Row, gain: str, *, scored: bool) -> list[str]:
    """Return the cells of a strategy."""
    if not scored:
        cost = page.amount(row.cost, row.plan.cost.unit) if row.plan else page.DASH
        return [row.name, cost, gain, "" if row.plan else "the search does not fit"]
    score = row.plan.score if row.plan else None
    time, *others = totals_cells(score)
    note = "the search does not fit" if score is None else "" if score.fits else "does not fit"
    return [row.name, time, gain, *others, note]


def _totals(row: Row) -> dict[str, Any]:
    score = row.plan.score if row.plan else None
    totals = {name: getattr(score, name, None) for name in Totals._fields}
    return {**totals, "fits": score and score.fits}


plugin: View[Comparison] = ComparisonView()
