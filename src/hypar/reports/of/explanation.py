"""The document of an explanation: what the plan's choice costs less than any other, and what each other costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Figure, Note, Section, Table
from hypar.reports.words import words_of
from hypar.sharding.dims import choice_word
from hypar.studies.remarks import proven
from hypar.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.document import Part
    from hypar.studies.explain import Alternative, Explanation, LayerExplanation

MOST_ROWS = 12
"""The largest number of alternatives in a layer's table."""

MOST_NAMES = 3
"""The most layers that a title names."""

MOST_BARS = 24
"""The largest number of alternatives in a picture."""


def document_of(found: Explanation) -> Document:
    """Return the document of an explanation: of the layers that are asked for, or of the eliminations."""
    own, unit = found.explained, found.plan.cost.unit
    if not own:
        title = f"{found.plan.model.name}: {_rules_line(found)}"
        return Document(title=title, parts=(_data(found, []), _eliminations(found)))
    tables = [_rows(found, one) for one in own]
    rows = [row for choices in tables for row in choices]
    names = [*dict.fromkeys(one.layer for one in own)]
    layers = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} layers"
    parts: list[Part] = []
    for one, choices in zip(own, tables, strict=True):
        title = f"{one.layer} {one.place}: {_answer(found, one, choices)}"
        inside: tuple[Part, ...] = (_table(choices, one, unit), *_notes(one))
        parts += inside if len(own) == 1 else [Section(title=title, parts=inside)]
    if len(own) > 1:
        title = f"{found.plan.model.name}, {layers}: {_summary(tables)}"
    notes = [Note("stays", "what it costs more, all other layers as planned")]
    if any(row["replanned"] is not None for row in rows):
        anew = "what the level costs more with this choice, all other layers planned anew for it"
        notes.insert(0, Note("anew", anew))
    return Document(
        title=title,
        parts=(_data(found, rows), *parts, _figure(found, layers, rows[:MOST_BARS])),
        notes=tuple(notes),
    )


plugin = document_of


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
                "alternatives": [
                    {"choice": each.choice.as_degrees(), "chosen": each.chosen, **_costs(each)}
                    for each in one.alternatives
                ],
            }
            for one in found.explained
        ],
    }


def _costs(one: Alternative) -> dict[str, float | None]:
    """Return the costs of a choice, with the increase if all else is planned anew."""
    more = {"received": one.received, "sent": one.sent, "total": one.total, "replanned": one.replanned}
    return {**one.items, **more}


def _rows(found: Explanation, one: LayerExplanation) -> list[dict[str, Any]]:
    """Return one row for each choice, the cheapest first: of what its cost consists, and what it costs more."""
    return [
        {
            "layer": one.layer,
            "level": one.place,
            "choice": _word(found, one, each),
            "chosen": each.chosen,
            "devices": each.choice.devices(one.ways),
            **_costs(each),
            "unit": found.plan.cost.unit,
            "anew": None if each.replanned is None else _more(one, each),
            "stays": each.total - one.chosen.total,
            "more": _more(one, each),
            "said": "plan" if each.chosen else "",
        }
        for each in one.alternatives
    ]


def _data(found: Explanation, rows: list[dict[str, Any]]) -> Table:
    """Return all rows as JSON, CSV and data frames have them."""
    items = dict.fromkeys(name for one in found.explained for each in one.alternatives for name in each.items)
    keys = (
        "layer",
        "level",
        "choice",
        "chosen",
        "devices",
        "received",
        "sent",
        *items,
        "total",
        "replanned",
        "unit",
    )
    return Table(columns=tuple(Column(key=key, show=False) for key in keys), rows=rows)


def _word(found: Explanation, one: LayerExplanation, each: Alternative) -> str:
    """Return the name of a choice in the words of the plan's tables."""
    words = words_of(found.plan)
    return choice_word(each.choice.degrees, one.ways, words, grids=found.plan.in_grids)


def _more(one: LayerExplanation, each: Alternative) -> float:
    """Return what a choice costs more than the plan's: all else planned anew, or as planned where that is not known."""
    own = one.chosen
    if each.replanned is None or own.replanned is None:
        return each.total - own.total
    return each.replanned - own.replanned


def _next(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cheapest choice beside the plan's; the plan's own if there is no other."""
    return min(choices, key=lambda row: (row["chosen"], row["more"]))


def _answer(found: Explanation, one: LayerExplanation, choices: list[dict[str, Any]]) -> str:
    """Say what the plan's choice costs less than the nearest other, or why the plan has a dearer one."""
    own, other = _word(found, one, one.chosen), _next(choices)
    if other["chosen"]:
        return f"{own} is the only choice"
    stays = "" if other["replanned"] is not None else ", all other layers as planned"
    less = amount(abs(other["more"]), found.plan.cost.unit)
    if other["more"] >= 0:
        return f"{own} costs least{stays}; next is {other['choice']}, {less} more"
    return f"{own} costs {less} more than {other['choice']}{stays}: {_reason(found, one)}"


def _summary(tables: list[list[dict[str, Any]]]) -> str:
    """Count the choices that cost least."""
    least = sum(_next(choices)["more"] >= 0 for choices in tables)
    return f"{'all' if least == len(tables) else f'{least} of'} {len(tables)} choices cost least"


def _reason(found: Explanation, one: LayerExplanation) -> str:
    """Return the reasons why a plan's choice may not be the cheapest of its level."""
    plan = found.plan
    reasons = {
        "the plan was refined by the engine's time": plan.refined is not None,
        "the plan has pins": bool(plan.pins),
        "the plan weighs all levels together": one.jointly,
        f"solver {plan.solver!r} is not exact": not proven(plan),
    }
    return "; ".join(text for text, holds in reasons.items() if holds)


def _table(choices: list[dict[str, Any]], one: LayerExplanation, unit: str) -> Table:
    """Return a table of the cheapest choices, always with the plan's own."""
    rows = sorted(choices, key=lambda row: row["more"])
    rows = [row for rank, row in enumerate(rows) if rank < MOST_ROWS or row["chosen"]]
    if len(rows) > MOST_ROWS:
        del rows[MOST_ROWS - 1]
    costs = (key for key in ("received", "sent", *one.chosen.items) if any(row[key] for row in rows))
    columns = (
        Column(key="choice"),
        Column(key="anew", unit=unit),
        Column(key="stays", unit=unit),
        Column(key="devices", unit="count", show=any(row["devices"] != one.ways for row in rows)),
        *(Column(key=key, unit=unit) for key in costs),
        Column(key="said", head=""),
    )
    return Table(columns=columns, rows=rows)


def _notes(one: LayerExplanation) -> Iterator[Note]:
    """Yield what the table of a layer lacks."""
    hidden = len(one.alternatives) - MOST_ROWS
    if hidden > 0:
        yield Note("", f"{hidden} more expensive choices not shown")
    if one.jointly:
        text = f"{one.place} alone: the levels below, for which the plan may pay here, are not included"
        yield Note("", text)
    yield from (Note("left out", line) for line in one.left_out)


def _rules_line(found: Explanation) -> str:
    """Describe the nodes left by DeePa's two rules, and the size of elimination's tables."""
    nodes = sum(step.kind == "node" for step in found.rules.steps)
    edges = len(found.rules.steps) - nodes
    left = [found.layers[node] for node in found.rules.nodes]
    shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
    return (
        f"{len(found.layers)} nodes; {nodes} node and {edges} edge eliminations leave {len(left)}: {shown}. Variable"
        f" elimination to the end: width {found.order.width}, largest table {found.order.largest:,} entries"
    )


def _eliminations(found: Explanation) -> Table:
    """Return one row for each eliminated node, in order."""
    columns = (
        Column(key="number", head="", unit="count"),
        Column(key="layer"),
        Column(key="kind", head="leaves as"),
        Column(key="into"),
        Column(key="entries", unit="whole"),
    )
    rows = [
        {**row, "number": number, "into": ", ".join(row["into"])}
        for number, row in enumerate(explanation_data(found)["eliminations"], 1)
    ]
    return Table(columns=columns, rows=rows)


def _figure(found: Explanation, layers: str, rows: list[dict[str, Any]]) -> Figure:
    """Return a bar for each alternative, the cheapest of each level first."""
    return Figure(
        kind="bars",
        title=f"{found.plan.model.name}: what other choices of {layers} cost",
        x=[f"{row['layer']} {row['level']} {row['choice']}" for row in rows],
        series={"": [row["total"] for row in rows]},
        unit=found.plan.cost.unit,
        y_label=f"{found.plan.cost.name}, all other layers as planned",
        marks={place: "the plan" for place, row in enumerate(rows) if row["chosen"]},
    )
