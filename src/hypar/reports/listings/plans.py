"""Listings of compared plans, of their differences, and of verdicts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.costs.base import load_cost
from hypar.plan.score import Totals
from hypar.reports.formats.base import on_machine, question, unfit_line
from hypar.reports.listings.base import Data, make_table, ratio
from hypar.units import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from hypar.studies.comparison import Row


def comparison_data(rows: Sequence[Row]) -> Data:
    """Return one entry for each strategy, with its whole plan."""
    return [
        {
            "strategy": row.name,
            "cost": row.plan and row.plan.cost.model_dump(),
            "gain": row.gain,
            **_score_gains(rows[0], row),
            "note": row.note,
            "plan": row.plan and row.plan.to_data(),
        }
        for row in rows
    ]


def _score_gains(first: Row, row: Row) -> dict[str, Any]:
    """Return the ratio of the baseline to each total of a score; empty without scores."""
    base, own = (each.plan.score if each.plan else None for each in (first, row))
    if base is None or own is None:
        return {}
    pairs = {name: (getattr(base, name), getattr(own, name)) for name in Totals._fields}
    return {
        "score_gains": {name: before / after for name, (before, after) in pairs.items() if before and after}
    }


def comparison_table(rows: Sequence[Row]) -> Table:
    """Return the cost by strategy and level, and the ratio of the baseline's cost to it."""
    first = next(row.plan for row in rows if row.plan)
    levels = [f"H{level + 1}" for level in range(len(first.array))]
    heads = ["strategy", *levels, first.cost.name, f"{rows[0].name} over it", "search"]
    table = make_table(heads, "l" + "r" * (len(levels) + 2) + "l")
    for row in rows:
        if row.plan is None:
            table.add_row(row.name, *["-"] * (len(levels) + 2), "does not fit")
            continue
        costs = [amount(split.cost, row.plan.cost.unit) for split in row.plan.splits]
        gain = "" if row.gain is None else ratio(row.gain, 1)
        total = amount(row.plan.cost.value, row.plan.cost.unit)
        table.add_row(row.name, *costs, total, gain, row.plan.search)
    return table


def comparison_head(rows: Sequence[Row]) -> str:
    """Describe the network and the array."""
    plan = next(row.plan for row in rows if row.plan)
    return " ".join(filter(None, [question(plan), on_machine(plan.score)]))


def comparison_unfit(rows: Sequence[Row]) -> list[str]:
    """Return a line for each strategy whose plan does not fit its machine's memory."""
    lines = ((row.name, unfit_line(row.plan.score)) for row in rows if row.plan)
    return [f"{name} {line}" for name, line in lines if line]


def comparison_notes(rows: Sequence[Row]) -> list[str]:
    """Return each plan's claim, or the reason why it is missing, and a note if scores count bytes in two manners."""
    notes = [f"{row.name}: {row.note}" for row in rows]
    scored = {row.name: row.plan.cost for row in rows if row.plan and row.plan.score}
    direct = [name for name, cost in scored.items() if load_cost(cost.name, cost.parameters).direct]
    if 0 < len(direct) < len(scored):
        names = ", ".join(direct)
        notes.append(f"errors go directly in the scores of {names}, and are added up at once in the others")
    return notes
