"""Listings of compared plans, of their differences, and of verdicts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.plan.score import Totals
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.formats.base import on_machine, question, unfit_line
from hypar.reports.listings.base import Data, make_table, too_big_note
from hypar.reports.listings.scores import by_time
from hypar.reports.prose import Note
from hypar.sharding.conventions import DIRECT
from hypar.units import amount, exact_number, faster_than, format_gain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.reports.columns import Sheet
    from hypar.studies.comparison import Comparison, Row


def comparison_data(rows: Comparison) -> Data:
    """Return one entry for each strategy, with its whole plan."""
    return [
        {
            "strategy": row.name,
            "cost": row.plan and row.plan.cost.model_dump(),
            "counted": row.plan
            and {
                "convention": rows.convention,
                "value": exact_number(row.cost),
                "levels": [exact_number(cost) for cost in row.costs],
            },
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


def comparison_table(rows: Sequence[Row]) -> Sheet:
    """Return the cost by strategy and level, and the ratio of the baseline's cost to it."""
    first = next(row.plan for row in rows if row.plan)
    levels = [f"H{level + 1}" for level in range(len(first.array))]
    heads = ["strategy", *levels, first.cost.name, "gain", "search"]
    table = make_table(heads, "l" + "r" * (len(levels) + 2) + "l", turns=True)
    for row in rows:
        if row.plan is None:
            table.add_row(row.name, *["-"] * (len(levels) + 2), "does not fit")
            continue
        costs = [amount(cost, row.plan.cost.unit) for cost in row.costs]
        total = amount(row.cost, row.plan.cost.unit)
        table.add_row(row.name, *costs, total, format_gain(row.gain, 1), row.plan.search)
    return table


def comparison_head(rows: Comparison) -> str:
    """Name the best strategy, and describe the network and the array."""
    subject, asked = compared(rows)
    return f"{subject}: {_best(rows)}\n{asked}, counted by {rows.convention}"


def compared(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the network with its machine, and the batch with the array."""
    plan = next(row.plan for row in rows if row.plan)
    asked = question(plan).removeprefix(f"{plan.model.name}, ")
    return " ".join(filter(None, [plan.model.name, on_machine(plan.score)])), asked


def _best(rows: Sequence[Row]) -> str:
    """Describe the best strategy by its gain over the baseline."""
    first, *_ = rows
    planned = [row for row in rows if row.plan]
    scored = {row.name: row.plan.score for row in planned if row.plan and row.plan.score}
    if scored:
        fitting = {name: score.time_s for name, score in scored.items() if score.fits}
        if not fitting:
            return "no strategy fits"
        name = min(fitting, key=fitting.__getitem__)
        over = (
            faster_than(first.name, scored[first.name].time_s, fitting[name]) if first.name in scored else ""
        )
    else:
        name = min(planned, key=lambda row: row.cost).name
        times = format_gain(next(row.gain for row in planned if row.name == name), 1)
        over = f"{times} less than {first.name}" if times else ""
    best = "is fastest" if scored else "costs least"
    return f"{name} {best}" + (f", {over}" if over and name != first.name else "")


def comparison_unfit(rows: Sequence[Row]) -> list[str]:
    """Return a line for each strategy whose plan does not fit its machine's memory."""
    lines = ((row.name, unfit_line(row.plan.score)) for row in rows if row.plan)
    return [f"{name} {line}" for name, line in lines if line]


def cost_notes(rows: Sequence[Row]) -> list[Note]:
    """Return a note of the cost by which each row is planned, unless it is the baseline strategy's own in all rows."""
    planned: dict[str, list[str]] = {}
    for row in rows:
        if row.plan is not None:
            planned.setdefault(row.plan.cost.name, []).append(row.name)
    if len(planned) > 1:
        return [
            Note(
                "cost", "; ".join(f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
            )
        ]
    (cost,) = planned
    return [] if cost == load_strategy(BASELINE).cost else [Note("cost", f"every row is planned by {cost}")]


def comparison_notes(rows: Comparison) -> list[Note]:
    """Return each plan's claim, or the reason why it is missing, and notes on costs and on how scores count bytes."""
    notes = [Note(row.name, row.note) for row in by_time(rows)]
    scored = {row.name: score_convention(row.plan) for row in rows if row.plan and row.plan.score}
    direct = [name for name, score in scored.items() if score == DIRECT]
    if 0 < len(direct) < len(scored):
        names = ", ".join(direct)
        notes.append(
            Note(
                "bytes",
                f"errors go directly in the scores of {names}, and are added up at once in the others",
            )
        )
    notes += cost_notes(rows)
    what = "the time" if scored else "the cost"
    unfit = too_big_note(shown=bool(comparison_unfit(rows)))
    return [*notes, Note("gain", f"{what} of {rows[0].name} over the strategy's"), *unfit]
