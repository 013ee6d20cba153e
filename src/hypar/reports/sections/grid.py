"""The plan: a row for each layer, or for each part of a deep network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.base import grid, share_lines, stage_numbers
from hypar.reports.formats.html import Strips
from hypar.reports.page.blocks import bars, cell, details, head, name, note, number, region, row, table, wide
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, markup, spaced, tag
from hypar.reports.page.numbers import TIMES, amount, num_bytes, seconds
from hypar.reports.page.rows import MOST_ROWS, Row, merged, parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.reports.page.html import Content
    from hypar.studies.report.gather import Gathered

COLUMNS = "minmax(7.5rem,11rem) minmax(0,1fr) 4.8rem 4.8rem 20%"


class _Amounts:
    """The numbers of rows: bytes and time with a machine, else the plan's cost."""

    def __init__(self, found: Gathered) -> None:
        self.cost, self.unit = found.plan.cost.name, found.plan.cost.unit
        self.costs = {layer: cost for layer, _, _, cost in grid(found.plan)}
        self.uses = None if found.step is None else {use.layer: use for use in found.step.layers}

    def heads(self) -> list[str]:
        """Return the heads of the numbers."""
        return [self.cost] if self.uses is None else ["bytes received", "time"]

    def worth(self, layers: Sequence[str]) -> float:
        """Return the length of a row's bar."""
        if self.uses is None:
            return sum(self.costs[layer] for layer in layers)
        return sum(self.uses[layer].seconds for layer in layers)

    def texts(self, layers: Sequence[str]) -> list[str]:
        """Return the numbers of a row."""
        if self.uses is None:
            return [amount(self.worth(layers), self.unit)]
        return [
            num_bytes(sum(self.uses[layer].num_bytes for layer in layers)),
            seconds(self.worth(layers)),
        ]

    def bar(self, layers: Sequence[str], most: float) -> Markup:
        """Return the bar of a row: computation, then receiving."""
        most = most or 1.0
        if self.uses is None:
            return bars(
                [(self.worth(layers) / most, "communication" if self.unit == "bytes" else "backward")]
            )
        computed = sum(self.uses[layer].computing_s for layer in layers)
        received = sum(self.uses[layer].receiving_s for layer in layers)
        return bars([(computed / most, "backward"), (received / most, "communication")])


def section(found: Gathered) -> Markup:
    """Return the plan's grid with each layer's bytes and time."""
    strips, amounts, layers = Strips(found.plan), _Amounts(found), found.plan.layers
    folded = len(layers) > MOST_ROWS
    whole = "A row is a part of the network and unfolds to its layers" if folded else "A row is a layer"
    grid_of = (
        _folded(found, strips, amounts)
        if folded
        else _table(found, strips, amounts, [Row(one, (one,)) for one in layers], foot=True)
    )
    return section_of(
        "plan",
        "The plan",
        note(f"{whole}; cells go from the outermost level to the innermost. {_about(found)}"),
        strips.legend(),
        *(note(line) for line in share_lines(found.plan)),
        grid_of,
    )


def _about(found: Gathered) -> str:
    """Say what the times of layers are."""
    step = found.step
    if step is None:
        return "Times and bytes are not known: the plan names no machine."
    if step.stages is not None:
        return "Times are those of a stage\u2019s work for a mini-batch; stages work at the same time."
    if len(step.lanes) > 1 or step.score.overlapped_s:
        return "Times are those on the critical path, which sum to the step."
    return ""


def _table(found: Gathered, strips: Strips, amounts: _Amounts, rows: Sequence[Row], *, foot: bool) -> Markup:
    """Return a table with a row for each layer."""
    stages = stage_numbers(found.plan)
    most = max((amounts.worth(each.layers) for each in rows), default=0.0)
    heads = [head("layer"), *([head("stage")] if stages else []), *strips.heads()]
    heads += [head(each, "r") for each in amounts.heads()]
    heads.append(head("computes, receives" if found.step else "", "hide-s"))
    named = strips.names()
    above = [head(""), *([head("")] if stages else []), *map(head, named)]
    body = [
        row(
            name(each.label, _times(each)),
            *([cell(f"{stages[each.layers[0]]}")] if stages else []),
            *map(cell, strips.of(each.layers[0])),
            *map(number, amounts.texts(each.layers)),
            wide(amounts.bar(each.layers, most)),
        )
        for each in rows
    ]
    sums = [
        row(
            name("all layers", mono=False),
            *(cell("") for _ in [*strips.groups, *(["stage"] if stages else [])]),
            *(number(tag("b", text)) for text in amounts.texts(found.plan.layers)),
            cell("", "hide-s"),
        )
    ]
    first = [row(*above), row(*heads)] if named else heads
    return region("Grid of layers and levels", table(first, body, sums if foot else (), "full"))


def _times(each: Row) -> Markup | None:
    return tag("span", f" {TIMES}{len(each.layers)}", class_="muted") if len(each.layers) > 1 else None


def _folded(found: Gathered, strips: Strips, amounts: _Amounts) -> Markup:
    """Return a fold for each part of the network."""
    rows = parts(found.plan.layers)
    most = max(amounts.worth(part.layers) for part in rows)
    heads = [tag("span", "part of the network"), tag("span", "choices, and how many layers have each")]
    heads += [
        tag("span", text, class_=f"r{' hide-s' * (len(amounts.heads()) > 1 and not at)}")
        for at, text in enumerate(amounts.heads())
    ]
    heads.append(tag("span", "computes, receives" if found.step else "", class_="hide-s"))
    top = tag("div", spaced(heads), class_="row head")
    return tag(
        "div", top, *(_part(found, strips, amounts, part, most) for part in rows), style=f"--cols:{COLUMNS}"
    )


def _part(found: Gathered, strips: Strips, amounts: _Amounts, part: Row, most: float) -> Markup:
    """Return a part: a fold with its layers, equal blocks once, or a plain row for a single layer."""
    line = part_line(
        strips,
        part,
        *(
            tag("span", text, class_=f"r n{' hide-s' * (len(amounts.heads()) > 1 and not at)}")
            for at, text in enumerate(amounts.texts(part.layers))
        ),
        tag("span", amounts.bar(part.layers, most), class_="hide-s"),
    )
    if len(part.layers) == 1:
        return tag("div", line, class_="row one")
    inside = _table(found, strips, amounts, merged(part.layers, strips.key), foot=False)
    return details(tag("span", line, class_="row"), inside)


def part_line(strips: Strips, part: Row, *numbers: Content) -> Markup:
    """Return the name of a part, its choices with how many layers have each, and its numbers."""
    count = tag("span", f" {len(part.layers)} layers", class_="muted small") if len(part.layers) > 1 else None
    counted = strips.counted(part.layers)
    choices = [
        markup(
            tag("span", spaced(own), class_="n"),
            tag("span", f" {TIMES}{number_of} ", class_="muted n") if len(counted) > 1 else None,
        )
        for own, number_of in counted
    ]
    return spaced([
        tag("span", tag("b", part.label, class_="m"), count),
        tag("span", spaced(choices), class_="strips"),
        *map(markup, numbers),
    ])  # fmt: skip
