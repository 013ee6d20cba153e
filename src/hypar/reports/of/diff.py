"""Documents of the differences of plans, and of verdicts on stored plans: choices first, then costs, then the rest."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table
from hypar.plan.diff import alike
from hypar.planning.counting import cost_convention, score_convention
from hypar.reports.words import fold, headline, on_machine
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import amount, faster_than

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.plan.diff import Change
    from hypar.plan.plan import Plan
    from hypar.studies.check import Verdict

TOTALS = {"time_s": "time", "energy_j": "energy", "communication_bytes": "received", "memory_bytes": "memory"}
"""The totals of a score, and their words."""

PARTS = {
    "time": "time_s", "critical": "time_s", "busy": "time_s", "energy": "energy_j", "communication": "communication_bytes",
    "memory": "memory_bytes",
}  # fmt: skip
"""The items of a score, and the total that they are parts of."""

UNITS = {"s": "seconds", "bytes": "bytes", "j": "joules"}
"""Units by the last part of an entry's name."""

OF_LAYERS = {"choice": "choices", "cut": "choices", "layer": "layers", "stage": "stages"}
"""The tables of differences of single layers, by their names."""

MOST_LAYERS = 6
"""Layers whose costs are listed, at most."""


def difference_document(
    files: Sequence[str], plans: tuple[Plan, Plan], changes: Sequence[Change]
) -> Document:
    """Return the differences of two plans: in the title how many, and what they gain."""
    named = [
        f"{sign} {file}  {headline(plan)} {on_machine(plan.score)}".rstrip()
        for sign, file, plan in zip("-+", files, plans, strict=True)
    ]
    title = _networks(*plans) or f"{_count(plans, changes)}; {_gain(*plans)}"
    parts, notes = _parts(changes, plans[1])
    return Document(title=title, about="\n".join(named), parts=parts, notes=notes)


def verdict_document(file: str, verdict: Verdict) -> Document:
    """Return the verdict on a stored plan, with all differences."""
    within = f", {len(verdict.tolerated)} numbers within the tolerance" if verdict.tolerated else ""
    if verdict.ok:
        return Document(title=f"ok       {file}{within}", tone="good")
    name = verdict.fresh.model.name
    changed = f"model {name!r} is not what was planned: it has changed, or is another"
    about = changed if verdict.model_changed else ""
    parts, notes = _parts(verdict.changes, verdict.fresh)
    return Document(title=f"drifted  {file}{within}", about=about, parts=parts, notes=notes, tone="bad")


def verdict_data(file: str, verdict: Verdict) -> dict[str, Any]:
    """Return whether one plan holds, with every difference."""
    return {
        "plan": file,
        "ok": verdict.ok,
        "model_changed": verdict.model_changed,
        "changes": [change.to_data() for change in verdict.changes],
        **({"tolerated": [change.to_data() for change in verdict.tolerated]} if verdict.tolerated else {}),
        **({"notes": list(verdict.notes)} if verdict.notes else {}),
    }


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
    """Count the choices that differ, or for arrays whose levels do not correspond the layers that are cut otherwise."""
    before, after = plans
    if not alike(before, after):
        arrays = "the arrays differ, so levels are not compared"
        if before.heterogeneous or after.heterogeneous:
            return arrays
        differing = sum(change.what == "cut" for change in changes)
        return f"{arrays}; {differing} of {len(after.layers)} layers are cut otherwise"
    differing = sum(change.what == "choice" for change in changes)
    several = f"{differing} of {sum(len(split.choices) for split in after.splits)} choices differ"
    return several if differing else "the choices are equal"


def _gain(before: Plan, after: Plan) -> str:
    """Compare the steps of two plans, or their costs where one has no step; not where they are counted unlike."""
    scored = before.score is not None and after.score is not None
    what, convention = ("the steps", score_convention) if scored else (after.cost.name, cost_convention)
    conventions = [convention(plan) for plan in (before, after)]
    if conventions[0] != conventions[1]:
        return f"{what} counted by {' and by '.join(conventions)}"
    if before.score is None or after.score is None:
        if before.cost.value == after.cost.value:
            return f"both have the same {after.cost.name}"
        return f"{after.cost.name} {_percent(before.cost.value, after.cost.value)}"
    return f"the second is {faster_than('the first', before.score.time_s, after.score.time_s)}"


def _parts(changes: Sequence[Change], after: Plan) -> tuple[tuple[Table, ...], tuple[Note, ...]]:
    """Return the tables of differences, and how many parts of totals that differ themselves are in none of them."""
    totals = {change.what for change in changes if _is_total(change)}
    kinds: dict[str, list[Change]] = {}
    for change in changes:
        kinds.setdefault(_kind(change, totals), []).append(change)
    tables = [_folded(name, kinds[name], after) for name in ("choices", "layers", "stages") if name in kinds]
    tables += [_table("costs", [*_costs(kinds["costs"], after)])] if "costs" in kinds else []
    tables += (
        [_table("other", [_compared(_name(own), own, after) for own in kinds["other"]])]
        if "other" in kinds
        else []
    )
    number = len(kinds.get("parts", ()))
    text = f"and {number} part{'s' * (number > 1)} of these costs, which --json lists"
    return tuple(tables), (Note("", text),) if number else ()


def _is_total(change: Change) -> bool:
    """Return whether a difference is of a total of the whole plan."""
    return not change.layer and change.level is None and change.what in {*TOTALS, "cost"}


def _kind(change: Change, totals: set[str]) -> str:
    """Return the table of a difference; ``parts`` for those of totals that differ themselves."""
    if change.layer and change.what in OF_LAYERS:
        return OF_LAYERS[change.what]
    if _total_of(change) in totals and not change.layer:
        return "parts"
    numbers = change.what == "cost" and not isinstance(change.before, str)
    return "costs" if _is_total(change) or numbers else "other"


def _total_of(change: Change) -> str:
    """Return the total that a difference is a part of; empty for all others."""
    if change.what == "cost" and change.level is not None:
        return "cost"
    name, _, item = change.what.partition(" ")
    if name == "groups":
        return "memory_bytes" if item.endswith("memory_bytes") else "time_s" if item.endswith("_s") else ""
    return PARTS.get(name, "") if item else ""


def _row(label: str, sides: Sequence[str] = (), percent: str = "", level: str = "") -> dict[str, Any]:
    return {"label": label, "level": level, "sides": sides, "percent": percent}


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return rows of differences as a table; the numbers among them stand below each other."""
    numbers = [row["sides"] for row in rows if row["percent"]]
    sizes = [max(map(len, own)) for own in zip(*numbers, strict=True)]
    for row in rows:
        right = zip(row["sides"], sizes if row["percent"] else (0, 0), strict=False)
        row["change"] = " -> ".join(side.rjust(size) for side, size in right)
    columns = [
        Column(key=key, head="", prose=key == "change" and not numbers)
        for key in ("label", "level", "change")
    ]
    return Table((*columns, Column(key="percent", head="", unit="percent")), rows, title=title)


def _folded(title: str, changes: Sequence[Change], after: Plan) -> Table:
    """Return changes of layers: neighbours with the same changes once, levels with the same change together."""
    found: dict[str, dict[tuple[str, tuple[str, str]], list[int | None]]] = {}
    for change in changes:
        own = found.setdefault(change.layer, {})
        own.setdefault((change.group, change.words), []).append(change.level)
    layers = [*dict.fromkeys((*after.layers, *found))]
    rows = []
    for part in fold(layers, lambda layer: repr(found.get(layer)), most=0):
        for number, ((group, sides), levels) in enumerate(found.get(part.layers[0], {}).items()):
            rows.append(_row("" if number else part.title, sides, level=_levels(group, levels)))
    return _table(title, rows)


def _levels(group: str, levels: Iterable[int | None]) -> str:
    """Return levels in a few letters, as ``H1-H3, H5``."""
    numbered = enumerate(sorted(level for level in levels if level is not None))
    runs = [[level for _, level in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    words = ["-".join(f"H{level + 1}" for level in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"{'' if group == WHOLE_ARRAY else group} {', '.join(words)}".strip()


def _costs(changes: Sequence[Change], after: Plan) -> Iterator[dict[str, Any]]:
    """Yield the totals, the costs of levels if their sum is as it was, and those layers' that differ most."""
    totals = {change.what: change for change in changes if _is_total(change)}
    for name in (*TOTALS, "cost"):
        if name in totals:
            yield _compared(TOTALS.get(name, after.cost.name), totals[name], after)
    layers: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.layer:
            layers.setdefault((change.layer, change.group), []).append(change)
        elif not _is_total(change):
            yield _compared(f"{after.cost.name} of {_levels(change.group, [change.level])}", change, after)
    sized = []
    for (layer, group), own in layers.items():
        sums = (math.fsum(float(getattr(one, side)) for one in own) for side in ("before", "after"))
        sized.append((f"{layer} {_levels(group, [one.level for one in own])}", *sums))
    sized.sort(key=lambda row: -abs(row[2] - row[1]))
    yield from (_amounts(label, old, new, after.cost.unit) for label, old, new in sized[:MOST_LAYERS])
    if len(sized) > MOST_LAYERS:
        yield _row(f"and {len(sized) - MOST_LAYERS} more layers")


def _name(change: Change) -> str:
    """Return the place and the name of a difference."""
    return " ".join(filter(None, [change.layer, _levels(change.group, [change.level]), change.what]))


def _compared(label: str, change: Change, after: Plan) -> dict[str, Any]:
    """Return a difference as a row, with units and percent if it is of amounts."""
    if isinstance(change.before, str) or isinstance(change.after, str):
        return _row(label, change.words)
    last = change.what.rpartition("_")[2] if "_" in change.what else ""
    unit = UNITS.get(PARTS.get(change.what.split()[0], last).rpartition("_")[2], "")
    unit = after.cost.unit if change.what in {"cost", "bound"} else unit
    return _amounts(label, change.before, change.after, unit) if unit else _row(label, change.words)


def _amounts(label: str, old: float, new: float, unit: str) -> dict[str, Any]:
    return _row(label, (amount(old, unit), amount(new, unit)), _percent(old, new))


def _percent(old: float, new: float) -> str:
    """Return by how much a number differs, as ``-2.1%``; empty where it was 0."""
    if not old:
        return ""
    change = new / old - 1
    if abs(change) >= 10:
        return f"{new / old:.3g}x"
    if abs(change) >= 1e-3:
        return f"{change:+.{0 if abs(change) >= 0.1 else 1}%}"
    return f"{100 * change:+.1g}%" if change else ""
