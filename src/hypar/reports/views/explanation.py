"""Explanations: a row for each alternative of a layer at a level, and a bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.reports.listings.explanations import explanation_notes, rules_line
from hypar.reports.page.fragment import fragment
from hypar.reports.page.numbers import amount
from hypar.reports.views.base import more
from hypar.reports.words import words_of
from hypar.sharding.dims import choice_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.reports.views.base import View
    from hypar.studies.explanation import Alternative, Explanation, LayerExplanation

MOST_ROWS = 48
"""The largest number of rows in a notebook."""

MOST_BARS = 24
"""The largest number of alternatives in a picture."""


class ExplanationView:
    """The view of an explanation."""

    def rows(self, found: Explanation) -> list[dict[str, Any]]:
        """Return one row for each alternative, the cheapest of each layer and level first."""
        return [
            {
                "layer": one.layer,
                "level": one.place,
                "choice": _word(found, one, each),
                "chosen": each.chosen,
                "devices": each.choice.devices(one.ways),
                "received": each.received,
                "sent": each.sent,
                **each.items,
                "total": each.total,
                "replanned": each.replanned,
                "unit": found.plan.cost.unit,
            }
            for one, each in _alternatives(found)
        ]

    def html(self, found: Explanation) -> str:
        """Return a table of the alternatives, or without a layer the eliminations in words."""
        unit, shown = found.plan.cost.unit, list(_alternatives(found))
        rows = [
            [
                f"{one.layer} {one.place}",
                _word(found, one, each),
                amount(each.total, unit),
                "" if each.replanned is None else f"+{amount(each.replanned, unit)}",
                "the plan" if each.chosen else "",
            ]
            for one, each in shown[:MOST_ROWS]
        ]
        notes = [note for one in found.explained for note in explanation_notes(found, one)][:MOST_ROWS]
        heads = ["layer", "choice", "total", "chosen anew", ""]
        title = f"Why {found.plan.model.name} is cut so: what the alternatives cost"
        return fragment(title, heads, rows, [*more(len(shown), MOST_ROWS), *notes, rules_line(found)])

    def drawing(self, found: Explanation) -> Figure:
        """Return a bar for each alternative, the cheapest of each level first."""
        shown = list(_alternatives(found))[:MOST_BARS]
        unit = found.plan.cost.unit
        names = ", ".join(dict.fromkeys(one.layer for one in found.explained))
        return Figure(
            title=f"{found.plan.model.name}: what other choices of {names or 'no layer'} cost",
            x=[f"{one.layer} {one.place} {_word(found, one, each)}" for one, each in shown],
            x_label="",
            y_label=f"{found.plan.cost.name} with its neighbours as planned",
            series={"": [each.total for _, each in shown]},
            shown=lambda value: amount(value, unit),
            marks={place: "the plan" for place, (_, each) in enumerate(shown) if each.chosen},
        )


def _alternatives(found: Explanation) -> Iterator[tuple[LayerExplanation, Alternative]]:
    for one in found.explained:
        for each in one.alternatives:
            yield one, each


def _word(found: Explanation, one: LayerExplanation, each: Alternative) -> str:
    """Return the name of a choice in the words of the plan's tables."""
    words = words_of(found.plan)
    return choice_word(each.choice.degrees, one.ways, words, grids=found.plan.in_grids)


plugin: View[Explanation] = ExplanationView()
