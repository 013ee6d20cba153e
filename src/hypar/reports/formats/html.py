"""Plans as coloured HTML grids: a notebook's cell, and the strips of choices that a page shows too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.dims import in_order
from hypar.reports.formats.base import (
    Report,
    columns,
    grid,
    headline,
    stage_numbers,
    summary,
    unfit_line,
    words_of,
)
from hypar.reports.page.blocks import cell, head, name, number, row, table
from hypar.reports.page.cells import cell as choice_cell
from hypar.reports.page.cells import halvings, legend, level_heads, strip
from hypar.reports.page.fragment import cell as notebook_cell
from hypar.reports.page.html import Markup, markup, tag
from hypar.reports.page.numbers import TIMES, amount, prose
from hypar.reports.page.rows import MOST_ROWS, Row, parts
from hypar.sharding.space import parse_space
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Choice
    from hypar.sharding.tree import Split

MOST_CELLS = 240
"""The most cells of a plan in stages whose layers a notebook shows one by one, so that it stays under 40 kB."""


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


class Html:
    """A report with one row for each layer or part of the network, and a coloured cell for each level."""

    def render(self, plan: Plan) -> str:
        """Return one element with its style."""
        strips, stages = Strips(plan), stage_numbers(plan)
        costs = {layer: cost for layer, _, _, cost in grid(plan)}
        rows = _rows(plan)
        unfit = unfit_line(plan.score)
        extra = (["stage"] if stages else [], ["devices"] if plan.in_grids else [])
        heads = [
            head("layer"), *(head(each) for each in extra[0]), *strips.heads(),
            head(plan.cost.name, "r"), *(head(each, "r") for each in extra[1]),
        ]  # fmt: skip
        above = (
            row(head(""), *(head("") for _ in extra[0]), *map(head, strips.names()))
            if strips.names()
            else None
        )
        body = (_row(strips, each, costs, stages) for each in rows)
        grid_table = table(heads if above is None else [above, row(*heads)], body)
        return notebook_cell(
            tag("p", tag("strong", unfit), class_="alarm") if unfit else None,
            tag("p", headline(plan), class_="title"),
            strips.legend(),
            tag("div", grid_table, class_="x"),
            *(tag("p", prose(line), class_="note") for line in summary(plan)),
        )


def _rows(plan: Plan) -> list[Row]:
    """Return a row for each layer, or for each part of a deep network; of stages, for each layer as long as they fit."""
    fits = plan.staged and len(plan.layers) * max(1, len(plan.splits)) <= MOST_CELLS
    if fits or len(plan.layers) <= MOST_ROWS:
        return [Row(layer, (layer,)) for layer in plan.layers]
    spans = [plan.layers] if plan.stages is None else [layers for _, layers in plan.stages.spans]
    return [part for span in spans for part in parts(span)]


def _row(strips: Strips, each: Row, costs: dict[str, float], stages: dict[str, int]) -> Markup:
    """Return the row of a layer, or of a part with its choices and how many layers have each."""
    plan = strips.plan
    count = tag("span", f" {len(each.layers)} layers", class_="muted") if len(each.layers) > 1 else None
    counted = strips.counted(each.layers)
    cells = [
        cell(
            [
                markup(
                    own[at], tag("span", f" {TIMES}{number} ", class_="muted") if len(counted) > 1 else None
                )
                for own, number in counted
            ]
        )
        for at in range(len(strips.groups))
    ]
    numbers = [f"{stages[layer]}" for layer in each.layers[:1] if stages]
    devices = dict.fromkeys(f"{plan.devices(layer)}" for layer in each.layers) if plan.in_grids else ()
    return row(
        name(each.label, count),
        *map(cell, numbers),
        *cells,
        number(amount(sum(costs[layer] for layer in each.layers), plan.cost.unit)),
        *([number(", ".join(devices))] if devices else ()),
    )


plugin: Report = Html()
