"""Why this cut: the closest calls, then each layer with its alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.html import Strips
from hypar.reports.page.blocks import cell, counted, details, head, name, note, number, region, row, table
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, markup, spaced, tag
from hypar.reports.page.numbers import DASH, amount, percent
from hypar.reports.page.rows import MOST_ROWS, Row, merged, parts
from hypar.reports.sections.grid import part_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.studies.explain import Alternative
    from hypar.studies.report.gather import Gathered
    from hypar.studies.report.why import Margin

CLOSEST = 6
"""The number of closest calls."""

ALTERNATIVES = 4
"""The most alternatives of a layer at a level that are shown."""


MOST_TABLES = 12
"""The most levels, in all groups, of which each has a table of its own for every layer."""

NEAREST = 3
"""The most alternatives of a layer at a level in a table of a part."""


def section(found: Gathered) -> Markup:
    """Return the alternatives of the layers."""
    why = found.why
    if why.refused:
        return section_of(
            "why",
            "Why this cut",
            tag(
                "p",
                f"Not covered: the explanation is for plans without stages, and {why.refused}.",
            ),
            note("The strategies above show what other choices reach."),
        )
    strips = Strips(found.plan)
    margins: dict[str, list[Margin]] = {}
    for margin in why.margins:
        margins.setdefault(margin.explained.layer, []).append(margin)
    return section_of(
        "why",
        "Why this cut",
        tag("h3", "The closest calls"),
        _closest(found, strips),
        tag("h3", "Layer by layer"),
        *_layers(found, strips, margins),
    )


def _closest(found: Gathered, strips: Strips) -> Markup:
    """Return the choices that would change first."""
    calls = [margin for margin in found.why.closest if margin.anew][:CLOSEST] or list(
        found.why.closest[:CLOSEST]
    )
    if not calls:
        return note("No layer has another choice in this space.")
    anew = calls[0].anew
    with_others = (
        "the whole level would cost more with it, all other layers chosen anew"
        if anew
        else "the layer would cost more with it, its neighbours as planned"
    )
    of = found.plan.cost.value or 1.0
    body = (
        row(
            name(f"{margin.explained.layer} at {margin.explained.place}"),
            cell(_choice(strips, margin, margin.explained.chosen)),
            cell(_choice(strips, margin, margin.next) if margin.next else ""),
            number(_more(found, margin.more)),
            number(percent(abs(margin.more) / of)),
        )
        for margin in calls
    )
    heads = [head("layer"), head("the plan"), head("next"), head("costs more", "r"), head("of the plan", "r")]
    return markup(
        note(f"Where the plan would change first: the next choice of a layer, and what {with_others}."),
        region("Closest calls", table(heads, body)),
    )


def _choice(strips: Strips, margin: Margin, one: Alternative) -> Markup:
    own = margin.explained
    return tag("span", strips.cell(one.choice, own.ways, own.place), class_="strip w2")


def _more(found: Gathered, number_of: float) -> str:
    """Format a difference with its sign."""
    if not number_of:
        return "as cheap"
    sign = "+" if number_of > 0 else "\u2212"
    return f"{sign}{amount(abs(number_of), found.plan.cost.unit)}"


def _layers(found: Gathered, strips: Strips, margins: dict[str, list[Margin]]) -> list[Markup]:
    """Return a fold for each layer, or for each part of a deep network."""
    layers = found.plan.layers
    if len(layers) <= MOST_ROWS:
        return [_layer(found, strips, Row(layer, (layer,)), margins) for layer in layers]
    folds = []
    for part in parts(layers):
        if len(part.layers) == 1:
            folds.append(_layer(found, strips, part, margins))
            continue
        rows = merged(part.layers, strips.key)
        span = _span(found, [margin for layer in part.layers for margin in margins[layer]])
        line = tag("span", part_line(strips, part, tag("span", span, class_="muted n")), class_="row")
        folds.append(details(line, _margins(found, strips, rows, margins), printed=False))
    return [tag("div", *folds, style="--cols:minmax(7.5rem,14rem) minmax(0,1fr) 14.5rem")]


def _layer(found: Gathered, strips: Strips, each: Row, margins: dict[str, list[Margin]]) -> Markup:
    """Return a layer with its alternatives at each level."""
    own = margins[each.layers[0]]
    line = tag(
        "span",
        part_line(strips, each, tag("span", _span(found, own), class_="muted n")),
        class_="row",
        style="--cols:minmax(7.5rem,14rem) minmax(0,1fr) 14.5rem",
    )
    if len(own) > MOST_TABLES:
        return details(line, _places(found, strips, own), printed=False)
    return details(line, *(_alternatives(found, strips, margin) for margin in own), printed=False)


def _places(found: Gathered, strips: Strips, own: Sequence[Margin]) -> Markup:
    """Return the nearest alternatives of a layer, a row for each level of each group."""
    body = (
        row(
            name(margin.explained.place),
            cell(_choice(strips, margin, margin.explained.chosen)),
            cell(_nearest(found, strips, margin)),
        )
        for margin in own
    )
    heads = [head("level"), head("the plan"), head("next")]
    return region(f"Alternatives of {own[0].explained.layer}", table(heads, body))


def _span(found: Gathered, margins: Sequence[Margin]) -> str:
    """Return the smallest and the largest margin."""
    numbers = sorted(margin.more for margin in margins if margin.next is not None)
    if not numbers:
        return "no other choice"
    ends = dict.fromkeys(_more(found, each) for each in (numbers[0], numbers[-1]))
    return f"next: {' to '.join(ends)}"


def _margins(
    found: Gathered, strips: Strips, rows: Sequence[Row], margins: dict[str, list[Margin]]
) -> Markup:
    """Return the nearest alternatives of a part's layers, of equal blocks those of the closest call."""
    places = [margin.explained.place for margin in margins[rows[0].layers[0]]]
    levels = range(len(places))
    heads = [head("layer"), *map(head, places)]
    body = []
    for each in rows:
        closest = (
            min((margins[layer][level] for layer in each.layers), key=lambda one: one.more)
            for level in levels
        )
        body.append(
            row(
                counted(each.label, len(each.layers)),
                *(cell(_nearest(found, strips, one)) for one in closest),
            )
        )
    about = (
        f"Up to {NEAREST} alternatives, the cheapest first, and what they would cost more: the next of the closest layers with all "
        "others chosen anew, the rest with neighbours as planned."
    )
    return markup(note(about), region("Alternatives", table(heads, body)))


def _nearest(found: Gathered, strips: Strips, margin: Margin) -> Markup:
    """Return the cheapest alternatives of a layer at a level with their differences."""
    explained = margin.explained
    others = [each for each in explained.alternatives if not each.chosen]
    shown = [
        tag(
            "span",
            _choice(strips, margin, each),
            f" {_more(found, each.total - explained.chosen.total if each.replanned is None else each.replanned)}",
            class_="n",
        )
        for each in others[:NEAREST]
    ]
    hidden = [tag("span", f"{len(others) - NEAREST} more", class_="muted n")] if len(others) > NEAREST else []
    return tag("span", spaced([*shown, *hidden]), class_="near") if shown else markup("no other choice")


def _alternatives(found: Gathered, strips: Strips, margin: Margin) -> Markup:
    """Return the alternatives of a layer at a level, always with the plan's own."""
    explained, unit = margin.explained, found.plan.cost.unit
    shown = list(explained.alternatives[:ALTERNATIVES])
    if explained.chosen not in shown:
        shown[-1] = explained.chosen
    items = [item for item in explained.alternatives[0].items if any(each.items[item] for each in shown)]
    heads = [
        head(explained.place), head("tensors read", "r"), head("tensors made", "r"),
        *(head(item, "r") for item in items), head("layer in all", "r"), head("others chosen anew", "r"),
    ]  # fmt: skip
    body = (
        row(
            tag("th", _choice(strips, margin, each), scope="row"),
            *(
                number(amount(cost, unit) if cost else DASH)
                for cost in (each.received, each.sent, *(each.items[item] for item in items), each.total)
            ),
            number(
                "the plan"
                if each.chosen
                else DASH
                if each.replanned is None
                else _more(found, each.replanned)
            ),
            class_="this" if each.chosen else None,
        )
        for each in shown
    )
    more = len(explained.alternatives) - len(shown)
    below = note(f"{more} more, all of which cost more") if more > 0 else None
    return region(f"{explained.layer} at {explained.place}", table(heads, body), below)
