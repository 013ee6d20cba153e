"""Documents of the differences of plans, and of verdicts on stored plans: choices first, then costs, then the rest."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.document import Column, Document, Note, Table
from hypar.plan.diff import alike
from hypar.planning.counting import cost_convention, score_convention
from hypar.reports.words import headline, on_machine
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import amount

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

KINDS = ("choices", "layers", "stages", "costs", "parts", "other")
"""The tables of differences, in order; those of ``parts`` are counted alone."""

MOST_LAYERS = 6
"""Layers whose costs are listed, at most."""


class Line(NamedTuple):
    """A line of a listing.

    Attributes:
        label: the place.
        level: the levels of a choice; empty elsewhere.
        before: the first plan's value.
        after: the second plan's value.
        percent: by how much a number differs; empty for text.
    """

    label: str
    level: str = ""
    before: str = ""
    after: str = ""
    percent: str = ""


def difference_document(
    files: Sequence[str], plans: tuple[Plan, Plan], changes: Sequence[Change]
) -> Document:
    """Return the differences of two plans: in the title how many, and what they gain."""
    named = [
        f"{sign} {file}  {headline(plan)} {on_machine(plan.score)}".rstrip()
        for sign, file, plan in zip("-+", files, plans, strict=True)
    ]
    networks = _networks(*plans)
    title = networks or f"{_count(plans, changes)}; {_gain(*plans)}"
    return Document(
        title=title, about="\n".join(named), parts=tuple(_tables(changes, plans[1])), notes=_notes(changes)
    )


def verdict_document(file: str, verdict: Verdict) -> Document:
    """Return the verdict on a stored plan, with all differences."""
    within = f", {len(verdict.tolerated)} numbers within the tolerance" if verdict.tolerated else ""
    if verdict.ok:
        return Document(title=f"ok       {file}{within}", tone="good")
    name = verdict.fresh.model.name
    return Document(
        title=f"drifted  {file}{within}",
        about=f"model {name!r} is not what was planned: it has changed, or is another"
        * verdict.model_changed,
        parts=tuple(_tables(verdict.changes, verdict.fresh)),
        notes=_notes(verdict.changes),
        tone="bad",
    )


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
    slow, fast = before.score.time_s, after.score.time_s
    word = "faster" if fast < slow else "slower"
    ratio = max(slow, fast) / min(slow, fast) if min(slow, fast) else 1.0
    if ratio < 1.001:
        return "both take as long"
    return f"the second is {f'{ratio:.3g}x' if ratio >= 1.1 else f'{ratio - 1:.1%}'} {word}"


def _tables(changes: Sequence[Change], after: Plan) -> Iterator[Table]:
    """Yield the differences between a plan and ``after``: choices, stages of layers, totals and costs, and all else."""
    by_kind: dict[str, list[Change]] = {kind: [] for kind in KINDS}
    totals = {change.what for change in changes if _is_total(change)}
    for change in changes:
        by_kind[_kind(change, totals)].append(change)
    lines = {
        "choices": [*_folded(by_kind["choices"], after.layers)],
        "layers": [*_folded(by_kind["layers"], [change.layer for change in by_kind["layers"]])],
        "stages": [*_folded(by_kind["stages"], after.layers)],
        "costs": [*_cost_lines(by_kind["costs"], after)],
        "other": [_line(_name(change), change, after) for change in by_kind["other"]],
    }
    yield from (_table(title, own) for title, own in lines.items() if own)


def _kind(change: Change, totals: set[str]) -> str:
    """Return the table of a difference; ``parts`` for those of totals that differ themselves."""
    if change.layer and change.what in OF_LAYERS:
        return OF_LAYERS[change.what]
    if _total_of(change) in totals and not change.layer:
        return "parts"
    numbers = change.what == "cost" and not isinstance(change.before, str)
    return "costs" if _is_total(change) or numbers else "other"


def _notes(changes: Sequence[Change]) -> tuple[Note, ...]:
    totals = {change.what for change in changes if _is_total(change)}
    number = sum(_kind(change, totals) == "parts" for change in changes)
    text = f"and {number} part{'s' * (number > 1)} of these costs, which --json lists"
    return (Note("", text),) if number else ()


def _table(title: str, lines: Sequence[Line]) -> Table:
    """Return lines as rows; numbers stand below each other."""
    numbers = [line for line in lines if line.percent]
    sizes = [max((len(line[at]) for line in numbers), default=0) for at in (2, 3)]
    rows = []
    for line in lines:
        sides = (line.before, line.after)
        if line.percent:
            sides = (line.before.rjust(sizes[0]), line.after.rjust(sizes[1]))
        change = " -> ".join(sides) if line.after else ""
        rows.append({"label": line.label, "level": line.level, "change": change, "percent": line.percent})
    columns = (
        Column(key="label", head=""),
        Column(key="level", head=""),
        Column(key="change", head="", prose=not numbers),
        Column(key="percent", head="", unit="percent"),
    )
    return Table(columns=columns, rows=rows, title=title)


def _is_total(change: Change) -> bool:
    """Return whether a difference is of a total of the whole plan."""
    return not change.layer and change.level is None and change.what in {*TOTALS, "cost"}


def _total_of(change: Change) -> str:
    """Return the total that a difference is a part of; empty for all others."""
    if change.what == "cost" and change.level is not None:
        return "cost"
    name, _, item = change.what.partition(" ")
    if name == "groups":
        return "memory_bytes" if item.endswith("memory_bytes") else "time_s" if item.endswith("_s") else ""
    return PARTS.get(name, "") if item else ""


def _folded(changes: Sequence[Change], layers: Sequence[str]) -> Iterator[Line]:
    """Yield changes of layers: runs of layers with the same changes once, levels with the same change together."""
    order = {layer: number for number, layer in enumerate(layers)}
    found: dict[str, dict[tuple[str, str, str], list[int]]] = {}
    for change in changes:
        own = found.setdefault(change.layer, {})
        levels = own.setdefault((change.group, *change.words), [])
        levels += [] if change.level is None else [change.level]
    places = enumerate(sorted(found, key=lambda layer: order.get(layer, len(order))))
    for _, run in groupby(places, key=lambda pair: (order.get(pair[1], 0) - pair[0], repr(found[pair[1]]))):
        names = [layer for _, layer in run]
        label = names[0] if len(names) == 1 else f"{names[0]} to {_last(names)} ({len(names)} layers)"
        for (group, before, after), levels in found[names[0]].items():
            yield Line(label, _levels(group, levels), before, after)
            label = ""


def _last(names: Sequence[str]) -> str:
    """Return the last name of a run, without the block that the first is in as well."""
    block, dot, name = names[-1].rpartition(".")
    return name if names[0].startswith(block + dot) else names[-1]


def _levels(group: str, levels: Iterable[int]) -> str:
    """Return levels in a few letters, as ``H1-H3, H5``."""
    numbered = enumerate(sorted(levels))
    runs = [[level for _, level in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    words = ["-".join(f"H{level + 1}" for level in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"{'' if group == WHOLE_ARRAY else group} {', '.join(words)}".strip()


def _cost_lines(changes: Sequence[Change], after: Plan) -> Iterator[Line]:
    """Yield the totals, the costs of levels if their sum is as it was, and those layers' that differ most."""
    sums = {change.what: change for change in changes if _is_total(change)}
    for name in (*TOTALS, "cost"):
        if name in sums:
            yield _line(TOTALS.get(name, after.cost.name), sums[name], after)
    layers: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.layer:
            layers.setdefault((change.layer, change.group), []).append(change)
        elif not _is_total(change):
            yield _line(f"{after.cost.name} of {_levels(change.group, [change.level or 0])}", change, after)
    sized = [
        (f"{layer} {_levels(group, [one.level or 0 for one in own])}", *_sums(own))
        for (layer, group), own in layers.items()
    ]
    sized.sort(key=lambda row: -abs(row[2] - row[1]))
    yield from (_amounts(label, old, new, after.cost.unit) for label, old, new in sized[:MOST_LAYERS])
    if len(sized) > MOST_LAYERS:
        yield Line(f"and {len(sized) - MOST_LAYERS} more layers")


def _sums(changes: Sequence[Change]) -> tuple[float, float]:
    return math.fsum(float(one.before) for one in changes), math.fsum(float(one.after) for one in changes)


def _name(change: Change) -> str:
    """Return the place and the name of a difference."""
    level = "" if change.level is None else _levels(change.group, [change.level])
    return " ".join(filter(None, [change.layer, level, change.what]))


def _line(label: str, change: Change, after: Plan) -> Line:
    """Return a difference as a line, with units and percent if it is of amounts."""
    if isinstance(change.before, str) or isinstance(change.after, str):
        return Line(label, "", *change.words)
    name = change.what.split()[0]
    last = change.what.rpartition("_")[2] if "_" in change.what else ""
    unit = UNITS.get(PARTS.get(name, last).rpartition("_")[2], "")
    return _amounts(
        label, change.before, change.after, after.cost.unit if change.what in {"cost", "bound"} else unit
    )


def _amounts(label: str, old: float, new: float, unit: str) -> Line:
    """Return two numbers as a line; counts have no percent."""
    if not unit:
        return Line(label, "", f"{old:,}", f"{new:,}")
    return Line(label, "", amount(old, unit), amount(new, unit), _percent(old, new))


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
