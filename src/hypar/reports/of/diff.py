"""Documents of the differences of plans, and of verdicts on stored plans: choices first, then costs, then the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hypar.document import Column, Document, Note, Table
from hypar.errors import HyparError
from hypar.plan.diff import Change, alike
from hypar.plan.plan import Plan
from hypar.planning.resolved import cost_convention, score_convention
from hypar.reports.text import faster_than
from hypar.reports.words import TOTALS, fold, grouped, headline, levels_of, on_machine
from hypar.studies.check import Verdict
from hypar.units import amount

OF_LAYERS = {"choice": "choices", "cut": "choices", "layer": "layers", "stage": "stages"}
"""The tables of differences of single layers, by their names."""

PART = re.compile(r"cost|(time|critical|busy|energy|communication|memory|groups|stage \d+) .*")
UNITS = {"s": "seconds", "bytes": "bytes", "j": "joules"}
"""Parts of totals, which are in no table where totals differ; and units by the last part of an entry's name."""


def difference_document(
    files: Sequence[str], plans: tuple[Plan, Plan], changes: Sequence[Change]
) -> Document:
    """Return the differences of two plans: in the title how many, and what they gain."""
    each = zip("-+", files, plans, strict=True)
    both = [f"{sign} {file}  {headline(plan)} {on_machine(plan.score)}".rstrip() for sign, file, plan in each]
    title = _networks(*plans) or f"{_count(plans, changes)}; {_gain(*plans)}"
    return Document(title=title, about="\n".join(both), parts=_parts(changes, plans[1]))


def verdict_document(file: str, verdict: Verdict) -> Document:
    """Return the verdict on a stored plan, with all differences."""
    within = f", {len(verdict.tolerated)} numbers within the tolerance" if verdict.tolerated else ""
    if verdict.ok:
        return Document(title=f"ok       {file}{within}", tone="good")
    name, parts = verdict.fresh.model.name, _parts(verdict.changes, verdict.fresh)
    changed = f"model {name!r} is not what was planned: it has changed, or is another" * verdict.model_changed
    return Document(title=f"drifted  {file}{within}", about=changed, parts=parts, tone="bad")


def verdict_data(file: str, verdict: Verdict | HyparError) -> dict[str, Any]:
    """Return whether one plan holds, with every difference, or why it cannot be checked."""
    if isinstance(verdict, HyparError):
        return {"plan": file, "ok": False, "error": str(verdict)}
    return {
        "plan": file, "ok": verdict.ok, "model_changed": verdict.model_changed,
        "changes": [change.to_data() for change in verdict.changes],
        **({"tolerated": [change.to_data() for change in verdict.tolerated]} if verdict.tolerated else {}),
        **({"notes": list(verdict.notes)} if verdict.notes else {}),
    }  # fmt: skip


def _networks(before: Plan, after: Plan) -> str:
    """Return in words that two plans are of different networks, of which neither choices nor steps compare; else nothing."""
    if before.model.digest == after.model.digest:
        return ""
    names = before.model.name, after.model.name
    which = f"{names[0]} has changed" if names[0] == names[1] else " and ".join(names)
    shared = len({*before.layers} & {*after.layers})
    layers = f"{shared} of {len(before.layers)} and {len(after.layers)} layers have the same names"
    return f"the networks differ: {which}; {layers}"


def _count(plans: Sequence[Plan], changes: Sequence[Change]) -> str:
    before, after = plans
    differing = sum(change.what in {"choice", "cut"} for change in changes)
    if alike(before, after):
        several = f"{differing} of {sum(len(split.choices) for split in after.splits)} choices differ"
        return several if differing else "the choices are equal"
    arrays = "the arrays differ, so levels are not compared"
    if before.heterogeneous or after.heterogeneous:
        return arrays
    return f"{arrays}; {differing} of {len(after.layers)} layers are cut otherwise"


def _gain(before: Plan, after: Plan) -> str:
    """Compare the steps of two plans, or their costs where one has no step; not where they are counted unlike."""
    steps = [plan.score.time_s for plan in (before, after) if plan.score is not None]
    what, convention = ("the steps", score_convention) if steps[1:] else (after.cost.name, cost_convention)
    conventions = [convention(plan) for plan in (before, after)]
    if conventions[0] != conventions[1]:
        return f"{what} counted by {' and by '.join(conventions)}"
    if steps[1:]:
        return f"the second is {faster_than('the first', *steps)}"
    if before.cost.value == after.cost.value:
        return f"both have the same {what}"
    return f"{what} {_percent(before.cost.value, after.cost.value)}"


def _parts(changes: Sequence[Change], after: Plan) -> tuple[Table | Note, ...]:
    """Return the tables of differences, and how many parts of totals that differ themselves are in none of them."""
    words = {own.key: own.title for own in TOTALS} | {"cost": after.cost.name}
    totals = {own.what: own for own in changes if own.what in words and not own.layer and own.level is None}
    kinds = grouped((_kind(own, bool(totals)), own) for own in changes if own not in totals.values())
    tables = {name: _folded(kinds[name], after) for name in OF_LAYERS.values() if name in kinds}
    tables["costs"] = [_compared(totals[what], after, words[what]) for what in words if what in totals]
    tables["other"] = [_compared(own, after) for own in kinds.get("other", ())]
    number = len(kinds.get("parts", ()))
    text = f"and {number} part{'s' * (number > 1)} of these costs, which --json lists"
    shown = (_table(title, rows) for title, rows in tables.items() if rows)
    return (*shown, *([Note("", text)] if number else ()))


def _kind(change: Change, totals: bool) -> str:
    if change.layer and change.what in OF_LAYERS:
        return OF_LAYERS[change.what]
    return "parts" if totals and PART.fullmatch(change.what) else "other"


def _row(label: str, before: str, after: str, percent: str = "", level: str = "") -> dict[str, Any]:
    return {"label": label, "level": level, "sides": (before, after), "percent": percent}


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return rows of differences as a table; the numbers among them stand below each other."""
    numbers = [row["sides"] for row in rows if row["percent"]]
    sizes = [max(map(len, own)) for own in zip(*numbers, strict=True)]
    for row in rows:
        sides = zip(row["sides"], sizes if row["percent"] else (0, 0), strict=True)
        row["change"] = " -> ".join(side.rjust(size) for side, size in sides)
    change, percent = Column("change", "", prose=not sizes), Column("percent", "", "percent")
    return Table((Column("label", ""), Column("level", ""), change, percent), rows, title=title)


def _folded(changes: Iterable[Change], after: Plan) -> list[dict[str, Any]]:
    """Return changes of layers: neighbours with the same changes once, levels with the same change together."""
    found = {
        layer: grouped(((own.group, own.words), own.level) for own in each)
        for layer, each in grouped((own.layer, own) for own in changes).items()
    }
    layers = [*dict.fromkeys((*after.layers, *found))]
    return [
        _row("" if number else part.title, before, after, level=levels_of(group, levels))
        for part in fold(layers, lambda layer: repr(found.get(layer)), most=0)
        for number, ((group, (before, after)), levels) in enumerate(found.get(part.layers[0], {}).items())
    ]


def _compared(change: Change, after: Plan, label: str = "") -> dict[str, Any]:
    """Return a difference as a row, by default with its place and name; one of amounts with units and percent."""
    label = label or (change.name if change.layer or change.level is not None else change.what)
    unit = UNITS.get(change.what.rpartition("_")[2], "")
    unit = after.cost.unit if change.what in {"cost", "bound"} else unit
    old, new = change.before, change.after
    if not unit or isinstance(old, str) or isinstance(new, str):
        return _row(label, *change.words)
    return _row(label, amount(old, unit), amount(new, unit), _percent(old, new))


def _percent(old: float, new: float) -> str:
    change = new / old - 1 if old else 0.0
    if abs(change) >= 10:
        return f"{new / old:,.0f}x"
    if abs(change) >= 1e-3:
        return f"{change:+.{0 if abs(change) >= 0.1 else 1}%}"
    return f"{100 * change:+.1g}%" if change else ""
