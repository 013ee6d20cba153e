"""The differences of two plans."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import PlanError, shown
from hypar.plan.canonical import differences, document, document_by_layer
from hypar.plan.records import ChunksRecord
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from hypar.plan.canonical import Place
    from hypar.plan.plan import Plan

SECTIONS = {"model", "profile", "cost", "stages", "refined", "chunks", "score"}
"""Sections of a plan file whose entries are known by their own names."""

CAUSES = {
    "asked_microbatches",
    "balance",
    "chunks",
    "hardware",
    "hardware_changes",
    "microbatches",
    "optimizer",
    "parts",
    "refined",
    "schedule",
    "score convention",
    "stages",
    "starts",
}
"""Entries of such sections that were requested; the other entries follow from them."""

ABSENT = {
    "balance": "time", "starts": "searched", "graph": "contracted", "shares": "equal", "refined": "no", "split": "idle",
    "layer": "not in the model", "convention": "paper", "score convention": "paper",
}  # fmt: skip
"""Words for an absent entry, if the word is not ``none``."""

NOUNS = {"choices": "choice", "costs": "cost", "layer_shares": "shares"}
"""The entries of a split that have a value for each layer."""

BETWEEN = {"stage array": "x", "levels": "x", "hardware": " "}
"""Separators between the values of a list, if not a comma."""

SHOWN_DIGEST = len("sha256:") + 12
"""Characters of a digest that are shown."""


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
    what: str
    group: str = "all"

    @property
    def name(self) -> str:
        """The place and the entry that differ, as ``fc1 H2 cost``."""
        group = "" if self.group == WHOLE_ARRAY else self.group
        level = "" if self.level is None else f"H{self.level + 1}"
        place = " ".join(filter(None, [self.layer, group, level]))
        noun = "" if self.what == "choice" else f" {self.what}"
        return f"{place or 'plan'}{noun}"

    def __str__(self) -> str:
        """Return the change in one line, as ``fc1 H2: batch -> in_channels``."""
        return f"{self.name}: {' -> '.join(self.words)}"

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
    return _changes(*(document_by_layer(plan, cuts=cuts) for plan in (before, after)))


def alike(before: Plan, after: Plan) -> bool:
    """Return whether the levels of two plans correspond: those of equal arrays, or of stages sought over equal ones."""
    sought = [
        None if plan.stages is None else plan.stages.array or plan.stages.arrays for plan in (before, after)
    ]
    arrays = before.array == after.array or (sought[0] is not None and sought[0] == sought[1])
    return arrays and (before.arrays == after.arrays or sought[0] is not None)


def changes_between(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return all differences of two plans' files, also for different arrays or costs."""
    return _changes(document(before), document(after))


def _changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    found = sorted(differences(before, after), key=lambda one: _rank(one[0]))
    return tuple(_change(*difference) for difference in found)


def _rank(place: Place) -> int:
    """Return a difference's place in the order: request, layers, stages, splits, choices, costs, scores."""
    match place:
        case ("splits", _, kind, *_):
            return {"split": 3, "choices": 4, "shares": 4, "layer_shares": 4}.get(str(kind), 5)
        case ("layers", *_) | ("stages", "layers", _):
            return 1 if place[0] == "layers" else 2
        case ("cuts", _):
            return 4
        case ("cost", "cost") | ("bound",):
            return 6
        case ("chunks" | "refined" | "score" | "stages", kind, *_):
            return 0 if kind in CAUSES else 7
    return 0


def _change(place: Place, old: Any, new: Any) -> Change:
    """Return a difference as people read it."""
    if place == ("chunks", "chunks") and old and new:
        return _chunks_change(old, new)
    layer, level, group, what = _named(place)
    before, after = _worded(what, old), _worded(what, new)
    if before == after:
        before, after = (json.dumps(value, ensure_ascii=False) for value in (old, new))
    if what == "layer" and old is None:
        before, after = "not in the plan", "in the model"
    return Change(layer=layer, level=level, before=before, after=after, what=what, group=group)


def _named(place: Place) -> tuple[str, int | None, str, str]:
    """Return the layer, the level and the group of a place, and the name of its entry."""
    match place:
        case ("splits", (group, level), ("choices" | "costs" | "layer_shares") as kind, layer):
            return layer, level, group, NOUNS[kind]
        case ("splits", (group, level), *rest):
            return "", level, group, " ".join(rest).removeprefix("sides ")
        case ("layers", layer) | ("stages", "layers", layer):
            return layer, None, WHOLE_ARRAY, place[0].removesuffix("s")
        case ("cuts", layer):
            return layer, None, WHOLE_ARRAY, "cut"
        case ("array",):
            return "", None, WHOLE_ARRAY, "stage array"
    words = place[1:] if place[0] in SECTIONS else place
    return "", None, WHOLE_ARRAY, " ".join(words).removeprefix("parameters ")


def _worded(what: str, value: Any) -> str | int | float:
    """Return a value in few words, a number unchanged."""
    if value is None or isinstance(value, bool):
        return {None: ABSENT.get(what, "none"), True: "yes", False: "no"}[value]
    if what == "chunks":
        return _chunks(value).words
    if isinstance(value, list):
        words = [f"{item:.9g}" if isinstance(item, float) else str(_worded("", item)) for item in value]
        return BETWEEN.get(what, ", ").join(words) or "none"
    if isinstance(value, tuple):
        return f"{value[0]} H{value[1] + 1}"
    if isinstance(value, str) and value.startswith("sha256:"):
        return value[:SHOWN_DIGEST]
    return value if isinstance(value, int | float | str) else shown(value)


def _chunks(value: list[Any]) -> ChunksRecord:
    return ChunksRecord(asked=value[0], layers=value[1], alone_s=0)


def _chunks_change(old: list[Any], new: list[Any]) -> Change:
    """Return the change of chunks: the first that differs, if both plans' chunks read the same in a few words."""
    words = [_chunks(value).words for value in (old, new)]
    if words[0] != words[1]:
        return Change(layer="", level=None, before=words[0], after=words[1], what="chunks")
    pairs = enumerate(zip(old[1], new[1], strict=True), 1)
    number, pair = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    before, after = (", ".join(chunk) for chunk in pair)
    return Change(layer="", level=None, before=before, after=after, what=f"chunk {number}")


def _cost_name(plan: Plan) -> str:
    return (
        f"{plan.cost.name} in {plan.cost.unit} ({', '.join(sorted(plan.cost.parameters)) or 'no parameters'})"
    )
