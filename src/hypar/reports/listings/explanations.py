"""Explanations of plans as tables and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.reports.listings.base import make_table
from hypar.reports.words import words_of
from hypar.sharding.dims import choice_word
from hypar.studies.remarks import proven
from hypar.units import amount

if TYPE_CHECKING:
    from hypar.plan.plan import Plan
    from hypar.reports.columns import Sheet
    from hypar.studies.explanation import Alternative, Explanation, LayerExplanation

MOST_ROWS = 12
"""The largest number of alternatives in a layer's table."""


def explanation_data(found: Explanation) -> dict[str, Any]:
    """Return the eliminations and every alternative of the layers asked for."""
    names = found.layers
    return {
        "two_rules": {
            "steps": [
                {"kind": step.kind, "layers": [names[node] for node in step.nodes]}
                for step in found.rules.steps
            ],
            "left": [names[node] for node in found.rules.nodes],
        },
        "eliminations": [
            {
                "layer": names[step.node],
                "kind": step.kind,
                "into": [names[node] for node in step.scope],
                "entries": step.entries,
                "work": step.work,
            }
            for step in found.order.steps
        ],
        "layers": [
            {
                "layer": one.layer,
                "level": one.level,
                **({"group": one.group} if one.group else {}),
                "left_out": list(one.left_out),
                "alternatives": [_alternative_data(each) for each in one.alternatives],
            }
            for one in found.explained
        ],
    }


def _alternative_data(one: Alternative) -> dict[str, Any]:
    """Return one choice with its costs."""
    return {
        "choice": one.choice.as_degrees(),
        "chosen": one.chosen,
        **one.items,
        "received": one.received,
        "sent": one.sent,
        "total": one.total,
        "replanned": one.replanned,
    }


def rules_line(found: Explanation) -> str:
    """Describe the nodes left by DeePa's two rules, and the size of elimination's tables."""
    nodes = sum(step.kind == "node" for step in found.rules.steps)
    edges = len(found.rules.steps) - nodes
    left = [found.layers[node] for node in found.rules.nodes]
    shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
    return (
        f"{len(found.layers)} nodes; {nodes} node and {edges} edge eliminations leave {len(left)}: {shown}. Variable"
        f" elimination to the end: width {found.order.width}, largest table {found.order.largest:,} entries"
    )


def eliminations_table(found: Explanation) -> Sheet:
    """Return one row for each eliminated node, in order."""
    table = make_table(["", "layer", "leaves as", "into", "entries"], "rlllr")
    for number, step in enumerate(found.order.steps, 1):
        into = ", ".join(found.layers[node] for node in step.scope)
        table.add_row(str(number), found.layers[step.node], step.kind, into, f"{step.entries:,}")
    return table


def alternatives_table(found: Explanation, one: LayerExplanation) -> Sheet:
    """Return one row for each choice, the cheapest first, with its costs and the increase after replanning."""
    cost, ways = found.plan.cost, one.ways
    words = words_of(found.plan)
    heads = ["choice", "devices", "received", "sent", *one.alternatives[0].items, "total", "chosen anew", ""]
    table = make_table(heads, "l" + "r" * (len(heads) - 2) + "l")
    for each in _shown(one):
        numbers = [each.received, each.sent, *each.items.values(), each.total]
        table.add_row(
            choice_word(each.choice.degrees, ways, words, grids=found.plan.in_grids),
            str(each.choice.devices(ways)),
            *(amount(number, cost.unit) for number in numbers),
            "" if each.replanned is None else f"+{amount(each.replanned, cost.unit)}",
            "plan" if each.chosen else "",
        )
    return table


def _shown(one: LayerExplanation) -> list[Alternative]:
    """Return the cheapest alternatives, always with the plan's own."""
    rows = list(one.alternatives[:MOST_ROWS])
    return rows if one.chosen in rows else [*rows[:-1], one.chosen]


def _reason(plan: Plan, one: LayerExplanation) -> str:
    """Return the reasons why a plan's choice may not be the cheapest of its level."""
    reasons = (
        (plan.refined is not None, "the plan was refined by the engine's time"),
        (bool(plan.pins), "the plan has pins"),
        (one.jointly, "the plan weighs all levels together"),
        (not proven(plan), f"solver {plan.solver!r} is not exact"),
    )
    return "; ".join(text for holds, text in reasons if holds)


def explanation_notes(found: Explanation, one: LayerExplanation) -> list[str]:
    """Explain the choice of the layer, and the choices that it could not have."""
    best, own = one.alternatives[0], one.chosen
    unit = found.plan.cost.unit
    if own.total <= best.total:
        others = [each for each in one.alternatives if not each.chosen]
        nearest = f"; the next costs {amount(others[0].total - own.total, unit)} more" if others else ""
        why = f"costs least with its neighbours as planned{nearest}"
    else:
        more = amount(own.total - best.total, unit)
        why = f"costs {more} more with its neighbours as planned than another choice: {_reason(found.plan, one)}"
    lines = [f"{one.layer} {one.place}: {why}"]
    hidden = len(one.alternatives) - len(_shown(one))
    if hidden > 0:
        lines.append(f"{hidden} more expensive choices not shown")
    if one.jointly:
        lines.append(
            f"{one.place} alone: the levels below, for which the plan may pay here, are not included"
        )
    return [*lines, *(f"left out: {line}" for line in one.left_out)]
