"""Comparisons: a row for each strategy, and a bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.plan.score import Totals
from hypar.reports.listings.plans import comparison_head, comparison_notes, comparison_unfit
from hypar.reports.page.fragment import fragment
from hypar.reports.views.base import View, times
from hypar.units import amount, format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from hypar.plan.plan import Plan
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
        """Return a table of strategies, with the machine's totals if there is one."""
        scored = any(row.plan and row.plan.score for row in found)
        heads = (
            ["strategy", "time", "energy", "communication", "memory", ""] if scored else ["strategy", "cost"]
        )
        over = f"{found[0].name} over it"
        rows = [[row.name, *(_scored(row) if scored else _cost(row))] for row in found]
        rows = [
            [*row[:2], times(_gain(found[0], each)), *row[2:]] for row, each in zip(rows, found, strict=True)
        ]
        notes = [*comparison_unfit(found), *comparison_notes(found)]
        return fragment(comparison_head(found), [*heads[:2], over, *heads[2:]], rows, notes)

    def drawing(self, found: Comparison) -> Figure:
        """Return a bar for each strategy: the time of a step, or without a machine the cost."""
        planned = [row for row in found if row.plan]
        values = {row.name: _value(row.plan) for row in planned if row.plan}
        best = min(planned, key=lambda row: values[row.name])
        plan = next(row.plan for row in planned if row.plan)
        seconds = plan.score is not None
        gain = times(_gain(found[0], best))
        least = "is the fastest" if seconds else f"has the least {plan.cost.name}"
        more = f", {found[0].name} over it {gain}" if best.name != found[0].name and gain else ""
        return Figure(
            title=f"{comparison_head(found)}: {best.name} {least}{more}",
            x=list(values),
            x_label="",
            y_label="time of a step" if seconds else f"{plan.cost.name} of a step",
            series={"": list(values.values())},
            shown=format_seconds if seconds else lambda value: amount(value, plan.cost.unit),
            marks={
                place: "does not fit"
                for place, row in enumerate(planned)
                if row.plan and row.plan.score and not row.plan.score.fits
            },
        )


def _value(plan: Plan) -> float:
    return plan.score.time_s if plan.score else plan.cost.value


def _gain(first: Row, row: Row) -> float | None:
    """Return the first strategy's time over a strategy's own, or without a machine the gain of its cost."""
    if row.plan is None or first.plan is None:
        return None
    if row.plan.score and first.plan.score:
        return first.plan.score.time_s / row.plan.score.time_s if row.plan.score.time_s else None
    return row.gain


def _totals(row: Row) -> dict[str, Any]:
    score = row.plan.score if row.plan else None
    totals = {name: getattr(score, name, None) for name in Totals._fields}
    return {**totals, "fits": score and score.fits}


def _cost(row: Row) -> list[str]:
    return [amount(row.plan.cost.value, row.plan.cost.unit) if row.plan else "does not fit"]


def _scored(row: Row) -> list[str]:
    """Return the cells of the totals of a strategy's score."""
    score = row.plan.score if row.plan else None
    if score is None:
        return ["–", "–", "–", "–", "the search does not fit"]
    energy = "–" if score.energy_j is None else format_joules(score.energy_j)
    sizes = map(format_bytes, (score.communication_bytes, score.memory_bytes))
    return [format_seconds(score.time_s), energy, *sizes, "" if score.fits else "does not fit"]


plugin: View[Comparison] = ComparisonView()
