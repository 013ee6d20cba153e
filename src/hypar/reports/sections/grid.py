"""The plan: a row for each layer, or for each part of a deep network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.formats.base import grid, share_lines, stage_numbers
from hypar.reports.formats.html import Strips
from hypar.reports.page.blocks import (
    bars,
    cell,
    counted,
    details,
    head,
    name,
    note,
    number,
    region,
    row,
    table,
    wide,
)
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, markup, spaced, tag
from hypar.reports.page.numbers import TIMES, amount, num_bytes, seconds
from hypar.reports.page.rows import MOST_ROWS, Row, merged, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.reports.page.html import Content
    from hypar.studies.report.gather import Gathered

NAMES = "minmax(7.5rem,11rem)"
"""The width of the column of names."""

FEW_UNITS = 8
"""The most units of width of a grid beside which every number has its bars."""


class _Column(NamedTuple):
    """A number of each row, with its bar.

    Attributes:
        head: its head.
        bar_head: the head of its bars.
        text: the number of some layers as text.
        parts: the bar of some layers: amounts with their kind of time.
    """

    head: str
    bar_head: str
    text: Callable[[Sequence[str]], str]
    parts: Callable[[Sequence[str]], list[tuple[float, str]]]

    def worth(self, layers: Sequence[str]) -> float:
        """Return the length of a bar."""
        return sum(number for number, _ in self.parts(layers))

    def bar(self, layers: Sequence[str], most: float) -> Markup:
        """Return the bar of some layers, against the longest."""
        return bars([(number / (most or 1.0), kind) for number, kind in self.parts(layers)])


def _columns(found: Gathered) -> list[_Column]:
    """Return bytes and time with a machine, else the plan's cost."""
    if found.step is None:
        unit, costs = found.plan.cost.unit, {layer: cost for layer, _, _, cost in grid(found.plan)}
        kind = "communication" if unit == "bytes" else "backward"

        def cost(layers: Sequence[str]) -> float:
            return sum(costs[layer] for layer in layers)

        return [
            _Column(
                found.plan.cost.name, "", lambda own: amount(cost(own), unit), lambda own: [(cost(own), kind)]
            )
        ]
    uses = {use.layer: use for use in found.step.layers}

    def total(layers: Sequence[str], part: str) -> float:
        return math.fsum(getattr(uses[layer], part) for layer in layers)

    return [
        _Column(
            "bytes received",
            "",
            lambda own: num_bytes(total(own, "num_bytes")),
            lambda own: [(total(own, "num_bytes"), "communication")],
        ),
        _Column(
            "time",
            "computes, receives",
            lambda own: seconds(total(own, "seconds")),
            lambda own: [
                (total(own, "computing_s"), "backward"),
                (total(own, "receiving_s"), "communication"),
            ],
        ),
    ]


def section(found: Gathered) -> Markup:
    """Return the plan's grid with each layer's bytes and time."""
    strips, numbers, layers = Strips(found.plan), _columns(found), found.plan.layers
    folded = len(layers) > MOST_ROWS
    whole = "A row is a part of the network and unfolds to its layers" if folded else "A row is a layer"
    each = [Row(one, (one,)) for one in layers]
    return section_of(
        "plan",
        "The plan",
        note(f"{whole}; cells go from the outermost level to the innermost. {_about(found)}"),
        strips.legend(),
        *(note(line) for line in share_lines(found.plan)),
        _folded(found, strips, numbers) if folded else _table(found, strips, numbers, each, foot=True),
    )


def _about(found: Gathered) -> str:
    """Say what the times of layers are."""
    step = found.step
    if step is None:
        return "Times and bytes are not known: the plan names no machine."
    if len(step.lanes) > 1 or step.score.overlapped_s:
        return "Times are those on the critical path, which sum to the step."
    return ""


def _table(
    found: Gathered, strips: Strips, numbers: Sequence[_Column], rows: Sequence[Row], *, foot: bool
) -> Markup:
    """Return a table with a row for each layer; of a wide grid only the last number has bars."""
    stages = stage_numbers(found.plan)
    barred = numbers if strips.units <= FEW_UNITS else numbers[-1:]
    most = {column.head: max((column.worth(each.layers) for each in rows), default=0.0) for column in numbers}
    heads = [head("layer"), *([head("stage")] if stages else []), *strips.heads()]
    for column in numbers:
        heads += [head(column.head, "r"), *([head(column.bar_head, "hide-s")] if column in barred else [])]
    named = strips.names()
    above = [head(""), *([head("")] if stages else []), *map(head, named)]
    body = []
    for each in rows:
        cells = [
            counted(each.label, len(each.layers)),
            *([cell(f"{stages[each.layers[0]]}")] if stages else []),
        ]
        cells += map(cell, strips.of(each.layers[0]))
        for column in numbers:
            cells.append(number(column.text(each.layers)))
            cells += [wide(column.bar(each.layers, most[column.head]))] if column in barred else []
        body.append(row(*cells))
    sums = [name("all layers", mono=False)]
    sums += [cell("") for _ in [*strips.groups, *(["stage"] if stages else [])]]
    for column in numbers:
        sums += [
            number(tag("b", column.text(found.plan.layers))),
            *([cell("", "hide-s")] if column in barred else []),
        ]
    first = [row(*above), row(*heads)] if named else heads
    return region("Grid of layers and levels", table(first, body, [row(*sums)] if foot else (), "full"))


def _folded(found: Gathered, strips: Strips, numbers: Sequence[_Column]) -> Markup:
    """Return a fold for each part of the network, with the bars of the last number."""
    rows = parts(found.plan.layers)
    heads = [
        tag("span", "part of the network"),
        tag("span", "choices, and how many layers have each", class_="hide-s"),
    ]
    heads += [tag("span", column.head, class_=_side(column, numbers)) for column in numbers]
    heads.append(tag("span", numbers[-1].bar_head, class_="hide-s"))
    top = tag("div", spaced(heads), class_="row head")
    most = max(numbers[-1].worth(part.layers) for part in rows)
    columns = f"{NAMES} minmax(0,1fr) {'4.8rem ' * len(numbers)}20%"
    return tag(
        "div", top, *(_part(found, strips, numbers, part, most) for part in rows), style=f"--cols:{columns}"
    )


def _side(column: _Column, numbers: Sequence[_Column]) -> str:
    """Return the class of a number; a phone shows the last alone."""
    return "r n" if column is numbers[-1] else "r n hide-s"


def _part(found: Gathered, strips: Strips, numbers: Sequence[_Column], part: Row, most: float) -> Markup:
    """Return a part: a fold with its layers, equal blocks once, or a plain row for a single layer."""
    texts = (tag("span", column.text(part.layers), class_=_side(column, numbers)) for column in numbers)
    line = part_line(strips, part, *texts, tag("span", numbers[-1].bar(part.layers, most), class_="hide-s"))
    if len(part.layers) == 1:
        return tag("div", line, class_="row one")
    inside = _table(found, strips, numbers, merged(part.layers, strips.key), foot=False)
    return details(tag("span", line, class_="row"), inside)


def part_line(strips: Strips, part: Row, *numbers: Content) -> Markup:
    """Return the name of a part, its choices with how many layers have each, and its numbers."""
    count = tag("span", f" {len(part.layers)} layers", class_="muted small") if len(part.layers) > 1 else None
    different = strips.counted(part.layers)
    choices = [
        markup(
            tag("span", spaced(own), class_="n"),
            tag("span", f" {TIMES}{number_of} ", class_="muted n") if len(different) > 1 else None,
        )
        for own, number_of in different
    ]
    return spaced([
        tag("span", tag("b", part.label, class_="m"), count),
        tag("span", spaced(choices), class_="strips"),
        *map(markup, numbers),
    ])  # fmt: skip
