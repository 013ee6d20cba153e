"""Plans as coloured HTML grids: a notebook's cell, and the strips of choices that a page shows too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.dims import in_order
from hypar.plan.splits import WHOLE_ARRAY
from hypar.reports.formats.base import (
    columns,
    words_of,
)
from hypar.reports.page.blocks import head
from hypar.reports.page.cells import cell as choice_cell
from hypar.reports.page.cells import halvings, legend, level_heads, strip
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.splits import Split
    from hypar.reports.page.html import Markup
    from hypar.sharding.placement import Choice


class Strips:
    """The choices of a plan as strips of cells: one for all levels, or one for each group of a heterogeneous machine.

    Attributes:
        plan: the plan.
        groups: the levels of each strip, outermost first, by the name above it; empty for the only strip.
        words: index of the paper whose words are used.
        units: width of all strips in halvings.
    """

    def __init__(self, plan: Plan) -> None:
        """Find the strips of a plan."""
        self.plan = plan
        self.groups = _groups(plan)
        space = parse_space(plan.space, None)
        self.used = {
            dim for split in plan.splits for layer in split.choices for dim in split.choice(layer).divided
        }
        self.words = words_of(plan)
        self.grids = space.grids
        self.units = sum(halvings(split.ways) for splits in self.groups.values() for split in splits)

    def key(self, layer: str) -> tuple[Choice, ...]:
        """Return all choices of a layer."""
        return tuple(split.choice(layer) for split in self.plan.splits if layer in split.choices)

    def of(self, layer: str) -> list[Markup]:
        """Return the strips of a layer."""
        return [
            strip(
                [
                    self.cell(split.choice(layer), split.ways, f"H{split.level + 1}")
                    for split in splits
                    if layer in split.choices
                ],
                self.units,
            )
            for splits in self.groups.values()
        ]

    def cell(self, choice: Choice, ways: int, level: str = "") -> Markup:
        """Return the cell of a choice in the plan's words."""
        return choice_cell(choice, ways, self.words, grids=self.grids, level=level)

    def heads(self) -> list[Markup]:
        """Return the heads of the strips, for a second row where the strips have names."""
        return [
            head(level_heads([(f"H{split.level + 1}", split.ways) for split in splits], self.units))
            for splits in self.groups.values()
        ]

    def names(self) -> list[str]:
        """Return the names above the strips; empty if there is one without a name."""
        return [*self.groups] if len(self.groups) > 1 or "" not in self.groups else []

    def counted(self, layers: Sequence[str]) -> list[tuple[list[Markup], int]]:
        """Return the different strips of several layers, the most frequent first, with their numbers of layers."""
        alike: dict[tuple[Choice, ...], list[str]] = {}
        for layer in layers:
            alike.setdefault(self.key(layer), []).append(layer)
        ordered = sorted(alike.values(), key=len, reverse=True)
        return [(self.of(own[0]), len(own)) for own in ordered]

    def legend(self) -> Markup:
        """Return the legend of the dims that are cut."""
        dims: list[str | None] = [dim for dim in in_order(filter(None, self.used)) if dim != "channels"]
        if "channels" in self.used and not {"in_channels", "out_channels"} & {*dims}:
            dims.append("channels")
        if any(not split.choice(layer).degrees for split in self.plan.splits for layer in split.choices):
            dims.append(None)
        return legend(dims, self.words, self._unit())

    def _unit(self) -> str:
        """Say what the width of a cell means."""
        wide = [split for split in self.plan.splits if split.ways > 2]
        if not wide:
            return "a cell is one two-way cut"
        idle = "; off: devices that idle" if self.grids else ""
        return f"a cell is as wide as the number of halvings; its parts multiply{idle}"


def _groups(plan: Plan) -> dict[str, list[Split]]:
    """Return the splits of each strip by its name."""
    if not plan.heterogeneous:
        return {"": [*plan.splits]} if plan.splits else {}
    found: dict[str, list[Split]] = {}
    for column in columns(plan):
        group = column.splits[0].group
        found["all groups" if group == WHOLE_ARRAY else group] = [*column.splits]
    return found
