"""The document of an explanation: what the plan's choice costs less than any other, and what each other costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Section, Table
from hypar.reports.words import data, texts_of
from hypar.studies.remarks import proven
from hypar.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.plan.plan import Plan
    from hypar.studies.alternatives import Alternative, Explanation, LayerExplanation

FEW, SEEN = 12, {"anew", "stays", "more", "said", "bar"}
"""The most alternatives in a table beside the plan's own, and layers with a table; and what readers alone have of a row."""

_ANEW = Note("anew", "what the level costs more with this choice, all other layers planned anew for it")
_STAYS = Note("stays", "what it costs more, all other layers as planned")


def document_of(found: Explanation) -> Document:
    """Return why a layer has its choice, and what each other costs; of several layers a row each, of many no more."""
    made = [_rows(found, one) for one in found.explained]
    known = data([{key: row[key] for key in row if key not in SEEN} for rows in made for row in rows])
    seen = [sorted(rows, key=lambda row: (row["more"], not row["chosen"])) for rows in made]
    each = [
        Section(_answer(found.plan, one, rows), (_alternatives(one, rows), *_lacks(one)))
        for one, rows in zip(found.explained, seen, strict=True)
    ]
    anew = any(rows[0]["anew"] is not None for rows in seen)
    least = sum(rows[0]["more"] == 0 for rows in seen)
    count = f"{'all' if least == len(seen) else f'{least} of'} {len(seen)} choices cost least"
    few, notes = len(each) <= FEW, (_ANEW, _STAYS) if anew else (_STAYS,)
    costs = Column("costs", head="anew" if anew else "stays", unit=found.plan.cost.unit)
    nearest = _nearest(each, seen, costs)
    whole = Section(f"{found.plan.model.name}: {count}", (nearest, *each * few))
    title, parts, _ = each[0] if len(each) == 1 else whole
    return Document(title=title, parts=(known, *parts), notes=notes if few else notes[:1])


plugin = document_of


def _nearest(answers: Iterable[Section], seen: Iterable[Sequence[dict[str, Any]]], costs: Column) -> Table:
    """Return each layer's choice at each level with the next and what it costs more, or why less; the closest first."""
    heads = (Column(key) for key in ("layer", "level", "choice", "next"))
    columns = (*heads, costs, Column("bar", "", "bar"))
    rows = []
    for answer, alternatives in zip(answers, seen, strict=True):
        own, other = _first_two(alternatives)
        more = other.get("more")
        bar = answer.title.rpartition(": ")[2] if more is not None and more < 0 else more
        rows.append({**own, "next": other.get("choice"), "costs": more, "bar": bar})
    return Table(columns, sorted(rows, key=lambda row: (row["costs"] is None, row["costs"])))


def _first_two(rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plan's own row and the cheapest other with another name; an empty one if there is none."""
    own = next(row for row in rows if row["chosen"])
    return own, next((row for row in rows if row["choice"] != own["choice"]), {})


def explanation_data(found: Explanation) -> dict[str, Any]:
    """Return every alternative of the layers asked for."""
    layers = []
    for one in found.explained:
        each = [
            {"choice": dict(own.choice.degrees), "chosen": own.chosen, **own.items, **_costs(own)}
            for own in one.alternatives
        ]
        place = {"layer": one.layer, "level": one.level, **({"group": one.group} if one.group else {})}
        layers.append({**place, "left_out": list(one.left_out), "alternatives": each})
    return {"layers": layers}


def _costs(one: Alternative) -> dict[str, float | None]:
    return {key: getattr(one, key) for key in ("received", "sent", "total", "replanned")}


def _rows(found: Explanation, one: LayerExplanation) -> list[dict[str, Any]]:
    """Return a row for each choice: its costs, and what it costs more than the plan's, all else planned anew and as planned."""
    own, text, rows = one.chosen, texts_of(found.plan), []
    for each in one.alternatives:
        anew, stays = None, each.total - own.total
        if each.replanned is not None and own.replanned is not None:
            anew = each.replanned - own.replanned
        row = {
            "layer": one.layer, "level": one.place, "choice": text(each.choice, one.ways), "chosen": each.chosen,
            "devices": each.choice.devices(one.ways), "received": each.received, "sent": each.sent,
            **each.items, **_costs(each), "unit": found.plan.cost.unit,
        }  # fmt: skip
        more = {"anew": anew, "stays": stays, "more": stays if anew is None else anew}
        rows.append({**row, **more, "said": "plan" * each.chosen, "bar": each.total})
    return rows


def _answer(plan: Plan, one: LayerExplanation, rows: Sequence[dict[str, Any]]) -> str:
    """Say what the plan's choice costs less than the nearest other, or why the plan has a dearer one."""
    chosen, other = _first_two(rows)
    own = f"{one.layer} {one.place}: {chosen['choice']}"
    if not other:
        return f"{own} is the only choice"
    stays = "" if other["anew"] is not None else ", all other layers as planned"
    less = amount(abs(other["more"]), plan.cost.unit)
    if other["more"] >= 0:
        return f"{own} costs least{stays}; next is {other['choice']}, {less} more"
    reasons = {
        "the plan was refined by the engine's time": plan.refined is not None,
        "the plan has pins": bool(plan.pins),
        "the plan weighs all levels together": one.jointly,
        f"solver {plan.solver!r} is not exact": not proven(plan),
    }
    why = "; ".join(text for text, holds in reasons.items() if holds)
    return f"{own} costs {less} more than {other['choice']}{stays}: {why}"


def _alternatives(one: LayerExplanation, rows: Sequence[dict[str, Any]]) -> Table:
    shown = [row for rank, row in enumerate(rows) if rank < FEW or row["chosen"]]
    costs = [key for key in ("received", "sent", *one.chosen.items) if any(row[key] for row in shown)]
    unit = rows[0]["unit"]
    columns = (
        Column("choice"),
        *(Column(key, unit=unit) for key in ("anew", "stays")),
        Column("devices", unit="count", show=any(row["devices"] != one.ways for row in shown)),
        *(Column(key, unit=unit) for key in costs),
        Column("said", ""), Column("bar", "total", "bar"),
    )  # fmt: skip
    return Table(columns=columns, rows=shown)


def _lacks(one: LayerExplanation) -> Iterator[Note]:
    hidden = len(one.alternatives) - FEW
    if hidden > 0:
        yield Note("", f"{hidden} more expensive choices not shown")
    if one.jointly:
        text = f"{one.place} alone: the levels below, for which the plan may pay here, are not included"
        yield Note("", text)
    yield from (Note("left out", line) for line in one.left_out)
