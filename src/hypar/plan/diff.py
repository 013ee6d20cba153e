"""The differences of two plans: of their files, entry by entry, in the order in which people ask for them.

The place of an entry is the tuple of keys that lead to it. An entry for which no pattern stands here is compared under its
own key. The last digits of numbers may differ between computers, so nine are compared.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import PlanError, shown
from hypar.plan.records import ChunksRecord
from hypar.plan.request import PARAMETERS
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Choice
    from hypar.sharding.tree import Split

    Place = tuple[Any, ...]

RESULTS = {"stages", "refined", "chunks", "score"}
"""Sections of what followed from the request, but for what was asked for."""

ASKED = {*PARAMETERS, "asked_microbatches", "hardware_changes", "refined", "score convention"} - {"array"}
"""What was asked for in these sections."""

SECTIONS = {"model", "profile", "cost", *RESULTS}
"""Sections of a plan file whose entries are known by their own names."""

SHOWN_DIGEST = len("sha256:") + 12
"""Characters of a digest that are shown."""

PLACES: dict[Place, tuple[int, str]] = {
    ("array",): (0, "stage array"),
    ("layers", "*"): (1, "layer"),
    ("stages", "layers", "*"): (2, "stage"),
    ("splits", "*", "split"): (3, ""),
    ("splits", "*", "choices", "*"): (4, "choice"),
    ("cuts", "*"): (4, "cut"),
    ("splits", "*", "shares"): (4, ""),
    ("splits", "*", "layer_shares", "*"): (4, "shares"),
    ("splits", "*", "costs", "*"): (5, "cost"),
    ("cost", "cost"): (6, ""),
    ("bound",): (6, ""),
}
"""The places of entries with a rank or a name of their own; ``*`` stands for a split or a layer.

Ranks are the order in which differences are listed: the request, layers, stages, splits, choices, costs, the cost, the score.
"""

ABSENT = {
    "balance": "time", "starts": "searched", "graph": "contracted", "shares": "equal", "refined": "no", "split": "idle",
    "layer": "not in the model", "convention": "paper", "score convention": "paper",
}  # fmt: skip
"""Words for an absent entry, if the word is not ``none``."""

BETWEEN = {"stage array": "x", "levels": "x", "hardware": " "}
"""Separators between the values of a list, if not a comma."""


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


def diff_plans(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return all differences of two plans: of the request, then of choices, costs and scores.

    Levels of different arrays do not correspond: plans of such arrays are compared by their totals, and layer by layer
    by the cut over all levels.

    Raises:
        PlanError: the plans are of different costs.
    """
    costs = [_cost_name(plan) for plan in (before, after)]
    if costs[0] != costs[1]:
        hint = "hypar score compares their steps on a machine"
        raise PlanError("cost", f"the plans differ: {' and '.join(costs)}", "plans of one cost", hint)
    if alike(before, after):
        return changes_between(before, after)
    cuts = not (before.heterogeneous or after.heterogeneous)
    return _changes(*(_without_levels(plan, cuts=cuts) for plan in (before, after)))


def _cost_name(plan: Plan) -> str:
    return (
        f"{plan.cost.name} in {plan.cost.unit} ({', '.join(sorted(plan.cost.parameters)) or 'no parameters'})"
    )


def alike(before: Plan, after: Plan) -> bool:
    """Return whether the levels of two plans correspond: those of equal arrays, or of stages sought over equal ones."""
    sought = [
        None if plan.stages is None else plan.stages.array or plan.stages.arrays for plan in (before, after)
    ]
    arrays = before.array == after.array or (sought[0] is not None and sought[0] == sought[1])
    return arrays and (before.arrays == after.arrays or sought[0] is not None)


def changes_between(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return all differences of two plans' files, also for different arrays or costs."""
    return _changes(_document(before), _document(after))


def _changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    found = [_change(*difference) for difference in differences(before, after)]
    return tuple(change for _, change in sorted(found, key=lambda one: one[0]))


def _change(place: Place, old: Any, new: Any) -> tuple[int, Change]:
    """Return a difference as people read it, and its rank."""
    kind, in_split = _kind(place), place[0] == "splits" and len(place) > 1
    kind = next((one for one in ((*kind[:-1], "*"), kind) if one in PLACES), kind)
    group, level = place[1] if in_split else (WHOLE_ARRAY, None)
    asked = place[0] not in RESULTS or len(place) < 2 or place[1] in ASKED
    rank, what = PLACES.get(kind, (5 if in_split else 0 if asked else 7, ""))
    keys = place[2:] if in_split else place[place[0] in SECTIONS :]
    what = what or " ".join(keys).removeprefix("parameters ").removeprefix("sides ")
    before, after = _worded(what, old), _worded(what, new)
    if before == after:
        before, after = (json.dumps(value, ensure_ascii=False) for value in (old, new))
    if what == "layer" and old is None:
        before, after = "not in the plan", "in the model"
    layer = place[-1] if kind[-1] == "*" else ""
    return rank, Change(layer=layer, level=level, before=before, after=after, what=what, group=group)


def _worded(what: str, value: Any) -> str | int | float:
    """Return a value in few words, a number unchanged."""
    if what == "chunks" and value:
        return ChunksRecord(asked=value[0], layers=value[1], alone_s=0).words
    match value:
        case None | True | False:
            return {None: ABSENT.get(what, "none"), True: "yes", False: "no"}[value]
        case dict():
            words = [f"{key}={own}" for key, own in value.items()]
        case list():
            words = [f"{item:.9g}" if isinstance(item, float) else str(_worded("", item)) for item in value]
        case (group, level):
            words = [f"{group} H{level + 1}"]
        case str():
            words = [value[:SHOWN_DIGEST] if value.startswith("sha256:") else value]
        case _:
            return value if isinstance(value, int | float) else shown(value)
    return BETWEEN.get(what, ", ").join(words) or ("" if value == "" else "none")


def _document(plan: Plan) -> dict[str, Any]:
    """Return the contents of a plan file, each split, group, stage and layer under its name.

    The first entry of a section stands for the whole where the other plan has none. Measured times are known by their
    digest; the name of their file is left out, as are the places of all files.
    """
    data = plan.to_data() | {"layers": dict.fromkeys(plan.layers, "planned")}
    data.pop("files", None)
    data["splits"] = {
        (split.group, split.level): _split(split, entry)
        for split, entry in zip(plan.splits, data["splits"], strict=True)
    }
    bounds = data.pop("bounds", ())
    for entry, bound in zip([data] if len(bounds) == 1 else data["splits"].values(), bounds, strict=False):
        entry["bound"] = bound
    return {name: _RENAMED[name](own) if name in _RENAMED else own for name, own in data.items()}


def _without_levels(plan: Plan, *, cuts: bool) -> dict[str, Any]:
    """Return the contents of a plan file with the cut of each layer over all levels in place of these, if it is asked for."""
    data, levels = (
        _document(plan),
        ", ".join(f"{name} {'x'.join(map(str, array))}" for name, array in (plan.arrays or {}).items()),
    )
    for name in ("array", "arrays", "splits"):
        data.pop(name, None)
    own = {"cuts": {name: _cut(plan, name) for name in plan.layers}} if cuts else {}
    return {"levels": levels if plan.heterogeneous else plan.array, **data, **own}


def _cut(plan: Plan, layer: str) -> str:
    """Return the degrees of a layer's dims over all levels in words, in the order of the dims' names."""
    degrees: dict[str, int] = {}
    for dim, degree in (pair for choice in plan.choices(layer) for pair in choice.degrees):
        degrees[dim] = degrees.get(dim, 1) * degree
    return ", ".join(f"{dim} {degrees[dim]}" for dim in sorted(degrees)) or "whole"


def _split(split: Split, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a split with each choice in words, independent of the order of its dims, and its groups by name."""
    entry.pop("numbering", None)
    words = {layer: choice_text(split.choice(layer)) for layer in split.choices}
    sides = {"sides": _named(entry["sides"])} if "sides" in entry else {}
    return {"split": "planned", **entry, "choices": words, **sides}


def choice_text(choice: Choice) -> str:
    """Return a choice in words, in the order of the digits if its devices are numbered in an order of its own."""
    return ", ".join(degrees_text(dict([digit])) for digit in choice.order) or degrees_text(
        choice.as_degrees()
    )


def degrees_text(degrees: Mapping[str, int]) -> str:
    """Return a choice in a few letters, with the degree if it is not two."""
    return ", ".join(dim if degree == 2 else f"{dim} x{degree}" for dim, degree in degrees.items()) or "whole"


def _stages(data: dict[str, Any]) -> dict[str, Any]:
    """Return stages under their numbers, and the number of each layer's stage."""
    stages, best = data.pop("stages"), ", asked for best" * (data.pop("asked") == "best")
    of = {layer: number for number, stage in enumerate(stages, 1) for layer in stage.pop("layers")}
    numbered = {f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    return {"stages": f"{len(stages)}{best}", "layers": of, **data, **numbered}


def _score(data: dict[str, Any]) -> dict[str, Any]:
    """Return a score with its machine's name and digest together, and each group under its name."""
    machine = [data.pop("hardware"), data.pop("hardware_digest")]
    groups = {"groups": _named(data["groups"])} if "groups" in data else {}
    counted = {"score convention": data.pop("convention")} if "convention" in data else {}
    return {"hardware": machine, **data, **groups, **counted}


_RENAMED = {
    "model": lambda data: {"model": data.pop("name"), **data},
    "profile": lambda data: {"profile": data["digest"]},
    "cost": lambda data: {"cost name": data.pop("name"), "cost": data.pop("value"), **data},
    "stages": _stages,
    "refined": lambda data: {"refined": "yes", **data},
    "chunks": lambda data: {"chunks": [data.pop("asked"), data.pop("layers")], **data},
    "score": _score,
}
"""Functions that name the entries of a section."""


def _named(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the records of groups under the groups' names, a repeated name with its number."""
    found: dict[str, dict[str, Any]] = {}
    for number, record in enumerate(records, 1):
        name = record["group"]
        found[f"{name} (number {number})" if name in found else name] = record
    return found


OF_LAYERS = {("cuts",), ("splits", "*", "choices"), ("splits", "*", "costs"), ("stages", "layers")}
"""Mappings with an entry for every layer of a plan; ``*`` is a split."""

ORDERED = OF_LAYERS | {
    ("splits",), ("splits", "*", "layer_shares"), ("splits", "*", "sides"), ("score", "groups"),
}  # fmt: skip
"""Mappings of layers, splits and groups whose order counts."""


def differences(
    before: Mapping[Any, Any], after: Mapping[Any, Any], place: Place = ()
) -> Iterator[tuple[Place, Any, Any]]:
    """Yield every place where two documents differ, with the value in each; None for an absent value.

    A layer that only one document has is named once.

    Args:
        before: one document, or a mapping in it.
        after: the other, or the mapping at the same place.
        place: the place of the mappings.
    """
    common, kind = before.keys() & after.keys(), _kind(place)
    for key in dict.fromkeys((*before, *after)):
        if key in common or kind not in OF_LAYERS:
            yield from _at((*place, key), before.get(key), after.get(key))
    if kind in ORDERED:
        orders = [[key for key in mapping if key in common] for mapping in (before, after)]
        moved = (pair for pair in zip(*orders, strict=True) if pair[0] != pair[1])
        yield from (((*place[:-1], f"order of {place[-1]}"), *pair) for pair in [*moved][:1])


def _at(place: Place, old: Any, new: Any) -> Iterator[tuple[Place, Any, Any]]:
    """Yield the differences of two values at a place."""
    present = [value for value in (old, new) if value is not None]
    if not present or not all(isinstance(value, dict) for value in present) or {} in present:
        if not same(old, new):
            yield place, old, new
    elif len(present) == 1 and _kind(place) in {(place[0],), ("splits", "*")}:
        first = next(iter(present[0]))
        yield (*place, first), (old or {}).get(first), (new or {}).get(first)
    else:
        yield from differences(old or {}, new or {}, place)


def _kind(place: Place) -> Place:
    return tuple(key if isinstance(key, str) else "*" for key in place)


def same(before: Any, after: Any) -> bool:
    """Return whether two values are equal: floats to nine digits, everything else exactly."""
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-9)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)
