"""Comparisons: a row for each strategy, and a bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.plan.score import Totals
from hypar.reports.listings.plans import comparison_head, comparison_notes, comparison_unfit
from hypar.reports.page import numbers as page
from hypar.reports.page.fragment import fragment
from hypar.reports.views.base import TOTALS, totals_cells

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
                "cost": row.plan and row.plan.cost.value,
                "unit": row.plan and row.plan.cost.unit,
                "gain": row.gain,
                **(_totals(row) if scored else {}),
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
        notes = [*comparison_unfit(found), *comparison_notes(found)]
        return fragment(comparison_head(found), ["strategy", first, over, *more, ""], rows, notes)

    def drawing(self, found: Comparison) -> Figure:
        """Return a bar for each strategy: the time of a step, or without a machine the cost if it is the first's."""
        plans = {row.name: row.plan for row in found if row.plan}
        first = next(iter(plans.values()))
        timed = first.score is not None
        values = {
            name: _value(plan) for name, plan in plans.items() if timed or plan.cost.name == first.cost.name
        }
        best = min(values, key=values.__getitem__)
        least = "is the fastest" if timed else f"has the least {first.cost.name}"
        base = next(iter(values))
        gain = "" if best == base else f", {base} over it {page.ratio(values[base], values[best])}"
        unfit = [bool(plans[name].score and not plans[name].score.fits) for name in values]
        return Figure(
            title=f"{comparison_head(found)}: {best} {least}{gain}",
            x=list(values),
            x_label="",
            y_label="time of a step" if timed else f"{first.cost.name} of a step",
            series={"": list(values.values())},
            shown=page.seconds if timed else lambda value: page.amount(value, first.cost.unit),
            marks={place: "does not fit" for place, lacks in enumerate(unfit) if lacks},
        )


def _value(plan: Plan) -> float:
    return plan.score.time_s if plan.score else plan.cost.value


def _gain(first: Row, row: Row) -> str:
    """Return the first strategy's time over a strategy's own, or without a machine its cost."""
    if row.plan is None or first.plan is None:
        return ""
    if row.plan.score and first.plan.score:
        return page.ratio(first.plan.score.time_s, row.plan.score.time_s)
    return "" if row.gain is None else page.ratio(row.gain, 1.0)


def _cells(row: Row, gain: str, *, scored: bool) -> list[str]:
    """Return the cells of a strategy."""
    if not scored:
        cost = page.amount(row.plan.cost.value, row.plan.cost.unit) if row.plan else page.DASH
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
