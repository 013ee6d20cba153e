"""The differences of two plans: of their files, entry by entry, in the order in which people ask for them.

A plan is a flat mapping from places, the tuples of keys that lead to entries, to values. An entry for which no pattern stands
here is compared under its own keys. The last digits of numbers may differ between computers, so nine are compared.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypar.errors import PlanError
from hypar.plan.plan import Plan, read_plan
from hypar.plan.records import ChunksRecord
from hypar.sharding.placement import Choice, numbered
from hypar.sharding.tree import WHOLE_ARRAY

Place = tuple[Any, ...]

RESULTS = re.compile(r"cost|bound|(time|critical|busy|energy|communication|memory|groups) .*|.*_(s|j|bytes)")
SECTIONS = {"model", "cost", "stages", "refined", "chunks", "score"}
"""The names of numbers that planning computes; and sections of a plan file whose entries are known by their own names."""

PLACES: dict[Place, tuple[int, str]] = {
    ("model", "name"): (0, "model"), ("array",): (0, "stage array"), ("profile", "digest"): (0, "profile"),
    ("cost", "name"): (0, "cost name"), ("chunks", "asked"): (0, "chunks"), ("score", "convention"): (0, "score convention"),
    ("layers", "*"): (1, "layer"), ("stages", "layers", "*"): (2, "stage"), ("splits", "*", "split"): (3, "split"),
    ("splits", "*", "choices", "*"): (4, "choice"), ("cuts", "*"): (4, "cut"),
    ("splits", "*", "shares"): (4, "shares"), ("splits", "*", "layer_shares", "*"): (4, "shares"),
    ("splits", "*", "costs", "*"): (5, "cost"), ("cost", "value"): (6, "cost"), ("bound",): (6, "bound"),
}  # fmt: skip
"""The rank and the name of entries by their places; ``*`` stands for a split or a layer.

Ranks are the order in which differences are listed: the request, layers, stages, splits, choices, costs, the cost, the score.
"""

COMMON = {"cut", "stage", "choice", "cost"}
ORDERED = {("splits",), ("cuts",), ("stages", "layers"), ("score", "groups")}
"""What is compared for the layers of both plans alone, as a layer that only one has is named once; and where the order counts."""

ABSENT = {
    "balance": "time", "starts": "searched", "graph": "contracted", "shares": "equal", "refined": "no", "split": "idle",
    "layer": "not in the model", "convention": "paper", "score convention": "paper",
}  # fmt: skip
BETWEEN = {"stage array": "x", "levels": "x", "hardware": " "}
"""Words for an absent entry, if not ``none``; and separators between the values of a list, if not a comma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference of two plans.

    Attributes:
        layer: the layer; empty for an entry of a level or of the whole plan.
        level: the level; None for the whole plan.
        before: the first plan's value: a dim, an amount, or words for an absent layer.
        after: the second plan's value.
        what: ``choice``, ``cut`` over all levels, ``cost``, ``layer``, ``split``, or the name of an entry of the plan file, as ``batch``.
        group: the device group that the level belongs to.
    """

    layer: str
    level: int | None
    before: str | int | float
    after: str | int | float
    what: str = "choice"
    group: str = WHOLE_ARRAY

    @property
    def name(self) -> str:
        """Return the place in a few words, as ``fc1 H2`` or ``score memory``; a choice without its name."""
        level = "" if self.level is None else f"H{self.level + 1}"
        own = "" if self.group == WHOLE_ARRAY else self.group
        place = " ".join(part for part in (self.layer, own, level) if part)
        noun = "" if self.what == "choice" else f" {self.what}"
        return f"{place or 'plan'}{noun}"

    def __str__(self) -> str:
        """Return the change in one line, as ``fc1 H2: batch -> in_channels``."""
        return f"{self.name}: {' -> '.join(self.words)}"

    def to_data(self) -> dict[str, Any]:
        """Return the change as plain data, with its group if the machine is heterogeneous."""
        return {key: own for key, own in asdict(self).items() if key != "group" or own != WHOLE_ARRAY}

    @property
    def words(self) -> tuple[str, str]:
        """Return both values as people read them."""
        before, after = (side if isinstance(side, str) else f"{side:,}" for side in (self.before, self.after))
        return before, after


def diff_plans(before: Plan | str | Path, after: Plan | str | Path) -> tuple[Change, ...]:
    """Return all differences of two plans or their files, as ``changes_between`` does for plans of one cost.

    Raises ``InputError`` for a file that cannot be read, and ``PlanError`` for plans of different costs.
    """
    before, after = (own if isinstance(own, Plan) else read_plan(own) for own in (before, after))
    costs = [
        f"{own.name} in {own.unit} ({', '.join(sorted(own.parameters)) or 'no parameters'})"
        for own in (before.cost, after.cost)
    ]
    if costs[0] != costs[1]:
        hint = "hypar score compares their steps on a machine"
        raise PlanError("cost", f"the plans differ: {' and '.join(costs)}", "plans of one cost", hint)
    return changes_between(before, after)


def alike(before: Plan, after: Plan) -> bool:
    """Return whether the levels of two plans correspond: those of equal arrays, or of stages sought over equal ones."""
    sought = [own and (own.array or own.arrays) for own in (before.stages, after.stages)]
    arrays = before.array == after.array or (sought[0] is not None and sought[0] == sought[1])
    return arrays and (before.arrays == after.arrays or sought[0] is not None)


def changes_between(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return all differences of two plans' files in order: of the request, then of choices, costs and scores.

    A section or a split that only one has is named by its first entry. Levels of different arrays do not correspond: in their
    place stands the cut of each layer over all of them, on identical devices.
    """
    levels = alike(before, after)
    cuts = not (levels or before.heterogeneous or after.heterogeneous)
    old, new = (_document(plan, levels=levels, cuts=cuts) for plan in (before, after))
    first = {_section(place): place for own in (old, new) for place in reversed(own)}
    lone = {*map(_section, old)} ^ {*map(_section, new)}
    found = []
    for place in dict.fromkeys((*old, *new)):
        sides = old.get(place), new.get(place)
        apart = None in sides and _kind(place)[-1] == "*" and _named(place)[1] in COMMON
        if not (apart or same(*sides) or (_section(place) in lone and first[_section(place)] != place)):
            found.append((place, *sides))
    found += _moved(old, new)
    return tuple(_change(*one) for one in sorted(found, key=lambda one: _named(one[0])[0]))


def _section(place: Place) -> Place:
    return place[: 2 if place[0] == "splits" else 1]


def _kind(place: Place) -> Place:
    kind = tuple(key if isinstance(key, str) else "*" for key in place)
    return next((one for one in ((*kind[:-1], "*"), kind) if one in PLACES), kind)


def _named(place: Place) -> tuple[int, str]:
    if _kind(place) in PLACES:
        return PLACES[_kind(place)]
    if place[0] == "splits" and len(place) > 1:
        return 5, " ".join(place[2:]).removeprefix("sides ")
    what = " ".join(place[place[0] in SECTIONS :]).removeprefix("parameters ")
    return 7 if RESULTS.fullmatch(what) else 0, what


def _moved(before: dict[Place, Any], after: dict[Place, Any]) -> list[tuple[Place, Any, Any]]:
    """Return the first place at which the layers, splits or groups of two plans are in another order, if there is one."""
    common = {place for place in before.keys() & after.keys() if {place[:1], place[:2]} & ORDERED}
    pairs = zip(*([place for place in own if place in common] for own in (before, after)), strict=True)
    for one, other in (pair for pair in pairs if pair[0] != pair[1]):
        at = next(at for at, keys in enumerate(zip(one, other, strict=False)) if keys[0] != keys[1])
        return [((*one[: at - 1], f"order of {one[at - 1]}"), one[at], other[at])]
    return []


def _change(place: Place, old: Any, new: Any) -> Change:
    _, what = _named(place)
    before, after = _worded(what, old), _worded(what, new)
    if before == after:
        before, after = (json.dumps(value, ensure_ascii=False) for value in (old, new))
    if what == "layer" and old is None:
        before, after = "not in the plan", "in the model"
    group, level = place[1] if place[0] == "splits" and len(place) > 2 else (WHOLE_ARRAY, None)
    layer = place[-1] if _kind(place)[-1] == "*" else ""
    return Change(layer=layer, level=level, before=before, after=after, what=what, group=group)


def _worded(what: str, value: Any) -> str | int | float:
    if what == "chunks" and value:
        return ChunksRecord(asked=value[0], layers=value[1], alone_s=0).words
    match value:
        case None | True | False:
            return {None: ABSENT.get(what, "none"), True: "yes", False: "no"}[value]
        case list():
            words = (f"{item:.9g}" if isinstance(item, float) else str(_worded("", item)) for item in value)
            return BETWEEN.get(what, ", ").join(words) or "none"
        case (group, level):
            return f"{group} H{level + 1}"
        case str():
            return re.sub("(?<=^sha256:.{12}).*", "", value)
    return float(value) if isinstance(value, float) else int(value)


def _document(plan: Plan, *, levels: bool, cuts: bool) -> dict[Place, Any]:
    """Return the contents of a plan file by their places, the places of other files left out, with the levels, or the cuts over all."""
    data = plan.to_data()
    bounds, listed = data.pop("bounds", ()), zip(plan.splits, data.pop("splits"), strict=True)
    splits = {(split.group, split.level): {"split": "planned", **entry} for split, entry in listed}
    for split, entry in zip(plan.splits, splits.values(), strict=True):
        entry["choices"] = {layer: _choice_text(split.choice(layer)) for layer in split.choices}
        entry.pop("numbering", None)
    for entry, bound in zip([data] if len(bounds) == 1 else splits.values(), bounds, strict=False):
        entry["bound"] = bound
    data.pop("files", None)
    data.get("profile", {}).pop("name", None)
    if "stages" in data:
        data["stages"] = _stages(data["stages"])
    if "refined" in data:
        data["refined"] = {"refined": "yes", **data["refined"]}
    if "chunks" in data:
        data["chunks"]["asked"] = [data["chunks"]["asked"], data["chunks"].pop("layers")]
    if "score" in data:
        data["score"]["hardware"] = [data["score"]["hardware"], data["score"].pop("hardware_digest")]
    if levels:
        data["splits"] = splits
    else:
        array, arrays = data.pop("array"), data.pop("arrays", {})
        groups = ", ".join(f"{name} {'x'.join(map(str, ways))}" for name, ways in arrays.items())
        data["levels"] = groups if plan.heterogeneous else array
        data["cuts"] = {layer: _cut(plan, layer) for layer in plan.layers} if cuts else {}
    return dict(_flat(data | {"layers": dict.fromkeys(plan.layers, "planned")}))


def _stages(data: dict[str, Any]) -> dict[str, Any]:
    """Return stages under their numbers, and the number of each layer's stage."""
    stages, best = data.pop("stages"), ", asked for best" * (data.pop("asked") == "best")
    of = {layer: number for number, stage in enumerate(stages, 1) for layer in stage.pop("layers")}
    numbered = {f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    return {"stages": f"{len(stages)}{best}", "layers": of, **data, **numbered}


def _flat(data: Mapping[Any, Any], place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value with its place, the records of groups by their names."""
    for key, value in data.items():
        own = value
        if isinstance(value, list) and value and isinstance(value[0], dict):
            names = [record["group"] for record in value]
            again = (f" (number {at + 1})" * (name in names[:at]) for at, name in enumerate(names))
            own = {f"{name}{more}": record for name, more, record in zip(names, again, value, strict=True)}
        if isinstance(own, dict):
            yield from _flat(own, (*place, key))
        else:
            yield (*place, key), own


def _cut(plan: Plan, layer: str) -> str:
    """Return the degrees of a layer's dims over all levels in words, in the order of the dims' names."""
    whole = numbered(pair for choice in plan.choices(layer) for pair in choice.degrees)
    return ", ".join(f"{dim} {degree}" for dim, degree in sorted(whole.degrees)) or "whole"


def _choice_text(choice: Choice) -> str:
    """Return a choice in words, in the order of the digits if its devices are numbered in an order of its own."""
    digits = choice.order or choice.degrees
    return ", ".join(dim if degree == 2 else f"{dim} x{degree}" for dim, degree in digits) or "whole"


def same(before: Any, after: Any) -> bool:
    """Return whether two values are equal: floats to nine digits, everything else exactly."""
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-9)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)
