"""Where two plans differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Where two plans differ.

    Attributes:
        layer: the layer, or empty for a level's or the plan's own cost.
        level: the level; None for the whole plan.
        before: what the first plan says: a dim, an amount, or that there is no such layer.
        after: what the second says.
        what: ``choice``, ``cost`` or ``layer``.
    """

    layer: str
    level: int | None
    before: str
    after: str
    what: str

    def __str__(self) -> str:
        """``fc1 H2: batch -> in_channels``."""
        place = " ".join(filter(None, [self.layer, "" if self.level is None else f"H{self.level + 1}"]))
        noun = "" if self.what == "choice" else f" {self.what}"
        return f"{place or 'plan'}{noun}: {self.before} -> {self.after}"


def diff_plans(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Every layer and level where two plans differ, choices first, then costs.

    Raises:
        PlanError: the plans are of different arrays or different costs.
    """
    for name, a, b in (
        ("array", before.array, after.array),
        ("cost", (before.cost.name, before.cost.unit), (after.cost.name, after.cost.unit)),
    ):
        if a != b:
            raise PlanError(name, f"the plans differ: {a} and {b}", "plans of one array and one cost")
    return (*_layer_changes(before, after), *_choice_changes(before, after), *_cost_changes(before, after))


def _layer_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Layers that only one of the plans has."""
    for layer in dict.fromkeys((*before.layers, *after.layers)):
        if layer not in before.layers or layer not in after.layers:
            there = layer in before.layers
            words = ("planned", "not in the model") if there else ("not in the plan", "in the model")
            yield Change(layer=layer, level=None, before=words[0], after=words[1], what="layer")


def _choice_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Choices that differ."""
    for old, new in zip(before.splits, after.splits, strict=True):
        for layer in old.choices:
            if layer in new.choices and old.choices[layer] != new.choices[layer]:
                texts = [_degrees(split.choices[layer]) for split in (old, new)]
                yield Change(layer=layer, level=old.level, before=texts[0], after=texts[1], what="choice")


def _cost_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Costs that differ: of a layer, of a level, of the plan."""
    for old, new in zip(before.splits, after.splits, strict=True):
        for layer in old.costs:
            if layer in new.costs and old.costs[layer] != new.costs[layer]:
                yield _cost_change(layer, old.level, old.costs[layer], new.costs[layer])
        if old.cost != new.cost:
            yield _cost_change("", old.level, old.cost, new.cost)
    if before.cost.value != after.cost.value:
        yield _cost_change("", None, before.cost.value, after.cost.value)


def _cost_change(layer: str, level: int | None, before: float, after: float) -> Change:
    return Change(layer=layer, level=level, before=f"{before:,}", after=f"{after:,}", what="cost")


def _degrees(degrees: dict[str, int]) -> str:
    """A choice in a few letters; a degree is named where it is not two."""
    named = [dim if degree == 2 else f"{dim} x{degree}" for dim, degree in degrees.items()]
    return ", ".join(named) or "whole"
