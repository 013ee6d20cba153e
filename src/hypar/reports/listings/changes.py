"""Listings of the differences of plans, and of verdicts on stored plans: choices first, then costs, then the rest."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.errors import HyparError
from hypar.plan.diff import alike
from hypar.planning.counting import cost_convention, score_convention
from hypar.reports.formats.base import headline, on_machine
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.plan.diff import Change
    from hypar.plan.plan import Plan
    from hypar.reports.listings.base import Data
    from hypar.studies.check import Verdict

TOTALS = {"time_s": "time", "energy_j": "energy", "communication_bytes": "received", "memory_bytes": "memory"}
"""The totals of a score, and their words."""

PARTS = {
    "time": "time_s",
    "critical": "time_s",
    "busy": "time_s",
    "energy": "energy_j",
    "communication": "communication_bytes",
    "memory": "memory_bytes",
}
"""The items of a score, and the total that they are parts of."""

UNITS = {"s": "seconds", "bytes": "bytes", "j": "joules"}
"""Units by the last part of an entry's name."""

SIGNS = {"seconds": "s", "bytes": "B", "joules": "J"}
"""Units in all digits."""

MOST_LAYERS = 6
"""Layers whose costs are listed, at most."""

GLUE = "\N{NO-BREAK SPACE}"
"""Stands for a space at which no line is broken."""

VERDICT = " " * len("drifted  ")
"""The indent of what is said about a plan."""


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
    level: str
    before: str
    after: str
    percent: str = ""


def changes_data(changes: Iterable[Change]) -> Data:
    """Return one entry for each difference."""
    return [_of_group(asdict(change)) for change in changes]


def _of_group(change: dict[str, Any]) -> dict[str, Any]:
    """Return a difference, with its group if the machine is heterogeneous."""
    return {key: value for key, value in change.items() if key != "group" or value != WHOLE_ARRAY}


def difference_lines(
    files: Sequence[str], plans: Sequence[Plan], changes: Sequence[Change], width: int
) -> list[str]:
    """Return the differences of two plans, no line wider than ``width``: in the first how many, and what they gain."""
    before, after = plans
    count = _count(plans, changes)
    named = [
        f"{sign}{GLUE}{file}  {headline(plan)} {on_machine(plan.score)}".rstrip()
        for sign, file, plan in zip("-+", files, plans, strict=True)
    ]
    head = _wrapped([f"{count}; {_gain(before, after)}"], width)
    spaced = [line for section in _sections(changes, after, width) for line in ("", *section)]
    return [*head, *_wrapped(named, width, "  "), *spaced]


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


def _sections(changes: Sequence[Change], after: Plan, width: int) -> list[list[str]]:
    """Return the differences between a plan and ``after`` in sections, each with its heading."""
    choices = [change for change in changes if change.what in {"choice", "cut"}]
    totals = {change.what for change in changes if _is_total(change)}
    costs = [*_cost_lines(changes, after, totals)]
    parts = [change for change in changes if _total_of(change) in totals]
    known = {id(change) for change in [*choices, *parts, *filter(_is_cost, changes)]}
    rest = [change for change in changes if id(change) not in known]
    sections = (
        ["choices", *_aligned([*_choice_lines(choices, after.layers)], width)],
        ["costs", *_aligned(costs, width)],
        ["other", *_aligned([*_rest_lines(rest, after)], width)],
    )
    given = [section for section in sections if len(section) > 1]
    left = f"and {len(parts)} part{'s' * (len(parts) > 1)} of these costs, which --json lists"
    return [*given, _wrapped([left], width)] if parts else given


def _is_total(change: Change) -> bool:
    """Return whether a difference is of a total of the whole plan."""
    return not change.layer and change.level is None and change.what in {*TOTALS, "cost"}


def _is_cost(change: Change) -> bool:
    return _is_total(change) or (change.what == "cost" and not isinstance(change.before, str))


def _total_of(change: Change) -> str:
    """Return the total that a difference is a part of; empty for all others."""
    if change.what == "cost" and not change.layer and change.level is not None:
        return "cost"
    name, _, item = change.what.partition(" ")
    if name == "groups":
        return "memory_bytes" if item.endswith("memory_bytes") else "time_s" if item.endswith("_s") else ""
    return PARTS.get(name, "") if item else ""


def _choice_lines(choices: Sequence[Change], layers: Sequence[str]) -> Iterator[Line]:
    """Yield the changed choices: runs of layers with the same changes once, levels with the same change together."""
    order = {layer: number for number, layer in enumerate(layers)}
    found: dict[str, dict[tuple[str, str, str], list[int]]] = {}
    for change in choices:
        own = found.setdefault(change.layer, {})
        levels = own.setdefault((change.group, *change.words), [])
        if change.level is not None:
            levels.append(change.level)
    places = sorted(found, key=lambda layer: order.get(layer, len(order)))
    numbered = enumerate(places)
    for _, run in groupby(numbered, key=lambda pair: (order.get(pair[1], 0) - pair[0], repr(found[pair[1]]))):
        names = [layer for _, layer in run]
        label = names[0] if len(names) == 1 else f"{names[0]} to {_last(names)} ({len(names)} layers)"
        for (group, before, after), levels in found[names[0]].items():
            yield Line(label, _levels(group, levels), before, after)
            label = ""


def _last(names: Sequence[str]) -> str:
    """Return the last name of a run, without the block that the first is in as well."""
    block, dot, name = names[-1].rpartition(".")
    return name if names[0].startswith(block + dot) else names[-1]


def _levels(group: str, levels: Sequence[int]) -> str:
    """Return levels in a few letters, as ``H1-H3, H5``."""
    numbered = enumerate(sorted(levels))
    runs = [[level for _, level in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    words = ["-".join(f"H{level + 1}" for level in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"{'' if group == WHOLE_ARRAY else group} {', '.join(words)}".strip()


def _cost_lines(changes: Sequence[Change], after: Plan, totals: set[str]) -> Iterator[Line]:
    """Yield the totals, the costs of levels if their sum is as it was, and those layers' that differ most."""
    sums = {change.what: change for change in changes if _is_total(change)}
    for name in (*TOTALS, "cost"):
        if name in sums:
            yield _numbers(TOTALS.get(name, after.cost.name), sums[name], after)
    layers: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        if change.what == "cost" and _is_cost(change) and not _is_total(change):
            if change.layer:
                layers.setdefault((change.layer, change.group), []).append(change)
            elif "cost" not in totals:
                yield _numbers(f"{after.cost.name} of {_place(change)}", change, after)
    sized = [
        (f"{layer} {_levels(group, [one.level or 0 for one in own])}", *_sums(own))
        for (layer, group), own in layers.items()
    ]
    sized.sort(key=lambda row: -abs(row[2] - row[1]))
    for label, old, new in sized[:MOST_LAYERS]:
        yield _amounts(label, old, new, after.cost.unit)
    if len(sized) > MOST_LAYERS:
        yield Line(f"and {len(sized) - MOST_LAYERS} more layers", "", "", "")


def _sums(changes: Sequence[Change]) -> tuple[float, float]:
    return sum(float(change.before) for change in changes), sum(float(change.after) for change in changes)


def _rest_lines(rest: Iterable[Change], after: Plan) -> Iterator[Line]:
    """Yield all other differences, in the order of the plan file."""
    for change in rest:
        noun = "" if change.what == "layer" and change.layer else change.what
        yield _numbers(" ".join(filter(None, [_place(change), noun])), change, after)


def _place(change: Change) -> str:
    level = "" if change.level is None else _levels(change.group, [change.level])
    return " ".join(filter(None, [change.layer, level]))


def _numbers(label: str, change: Change, after: Plan) -> Line:
    """Return a difference as a line, with units and percent if it is of numbers."""
    if isinstance(change.before, str) or isinstance(change.after, str):
        return Line(label, "", *change.words)
    name = change.what.split()[0]
    last = change.what.rpartition("_")[2] if "_" in change.what else ""
    unit = UNITS.get(PARTS.get(name, last).rpartition("_")[2], "")
    return _amounts(
        label, change.before, change.after, after.cost.unit if change.what in {"cost", "bound"} else unit
    )


def _amounts(label: str, old: float, new: float, unit: str) -> Line:
    """Return two numbers as a line, in all digits where three do not tell them apart."""
    before, after = (amount(number, unit) if unit else f"{number:,}" for number in (old, new))
    if before == after:
        before, after = (f"{number:,} {SIGNS.get(unit, unit)}".rstrip() for number in (old, new))
    return Line(label, "", before, after, _percent(old, new))


def _percent(old: float, new: float) -> str:
    """Return by how much a number differs, as ``-2.1%``; empty where it was 0."""
    if not old:
        return ""
    change = new / old - 1
    if abs(change) >= 10:
        return f"{new / old:.3g}x"
    digits = 0 if abs(change) >= 0.1 else 1
    return f"{change:+.{digits}%}" if abs(change) >= 0.001 else "< 0.1%"


def _aligned(lines: Sequence[Line], width: int) -> list[str]:
    """Return lines in columns: long labels on lines of their own, long values below each other."""
    labels = [len(line.label) for line in lines if len(line.label) <= width // 2]
    numbers = [line for line in lines if line.percent]
    wide = max(labels, default=0), max((len(line.level) for line in lines), default=0)
    places = [max((len(cell) for cell in column), default=0) for column in zip(*numbers, strict=True)][2:]
    found = []
    for line in lines:
        level = f"{line.level:<{wide[1]}}  " if wide[1] else ""
        values = f"{level}{line.before} -> {line.after}" if line.after else ""
        if line.percent:
            before, after, percent = (f"{cell:>{size}}" for cell, size in zip(line[2:], places, strict=True))
            values = f"{before} -> {after}  {percent}"
        alone = len(line.label) > wide[0]
        whole = f"  {'' if alone else line.label:<{wide[0]}}  {values}".rstrip()
        close = f"  {line.label}  {line.before} -> {line.after}  {line.percent}"
        if len(close) <= width < len(whole) and line.percent:
            found.append(close)
        elif len(whole) <= width:
            found += [*_wrapped([f"  {line.label}"] if alone else [], width, "    "), whole]
        else:
            found += _stacked(line, width)
    return found


def _stacked(line: Line, width: int) -> list[str]:
    """Return a difference with its place and its values below each other."""
    place = [" ".join(filter(None, [f"  {line.label}".rstrip(), line.level]))]
    pair = [f"    -{GLUE}{line.before}", f"    +{GLUE}{line.after}  {line.percent}".rstrip()]
    return [*_wrapped(place, width, "    "), *_wrapped(pair, width, "      ")]


def _wrapped(lines: Iterable[str], width: int, indent: str = "") -> list[str]:
    """Return lines broken at a width, the second and later parts indented; no word is broken."""
    return [
        part.replace(GLUE, " ")
        for line in lines
        for part in textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    ]


def verdict_data(file: str, verdict: Verdict | HyparError) -> dict[str, Any]:
    """Return whether one plan holds, with every difference, or the error that prevents a verdict."""
    if isinstance(verdict, HyparError):
        return {"plan": file, "ok": False, "error": str(verdict)}
    return {
        "plan": file,
        "ok": verdict.ok,
        "model_changed": verdict.model_changed,
        "changes": changes_data(verdict.changes),
        **({"notes": list(verdict.notes)} if verdict.notes else {}),
    }


def verdict_lines(file: str, verdict: Verdict, width: int) -> list[str]:
    """Return a line with the verdict, and below it the differences, no line wider than ``width``."""
    if verdict.ok:
        return [f"ok       {file}"]
    name = verdict.fresh.model.name
    model = f"model {name!r} is not what was planned: it has changed, or is another"
    inside = width - len(VERDICT)
    said = _wrapped([model] if verdict.model_changed else [], inside)
    listed = [line for section in _sections(verdict.changes, verdict.fresh, inside) for line in section]
    return [f"drifted  {file}", *(f"{VERDICT}{line}" for line in (*said, *listed))]


def drifted_lines(drifted: Sequence[str], asked: Sequence[str], checked: int, width: int) -> list[str]:
    """Return how many plans drifted, and the command that rewrites them.

    Args:
        drifted: the files of these plans.
        asked: the files and folders that were named.
        checked: number of all plans.
        width: characters of a line.
    """
    one = len(drifted) == 1
    plans = "the plan drifted" if checked == 1 else f"{len(drifted)} of {checked} plans drifted"
    named = drifted[0] if one else asked[0] if len(asked) == 1 else "PLANS"
    command = f"hypar check --update {named} rewrites {'it' if one else 'them'}"
    whole = f"{plans}; {command}"
    return ["", *([whole] if len(whole) <= width else [plans, command])]
