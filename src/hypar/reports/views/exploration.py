"""Explorations: a row for each point, and the points in the order of their times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.reports.listings.points import exploration_data, exploration_notes
from hypar.reports.page.fragment import fragment
from hypar.reports.page.numbers import ratio, seconds
from hypar.reports.views.base import TOTALS, more, totals_cells
from hypar.reports.words import asked, on_machine

if TYPE_CHECKING:
    from hypar.files.figures import Figure
    from hypar.reports.views.base import View
    from hypar.studies.exploration import Exploration, Point

MOST_ROWS = 10
"""The largest number of rows in a notebook."""


class ExplorationView:
    """The view of an exploration."""

    def rows(self, found: Exploration) -> list[dict[str, Any]]:
        """Return one row for each point, the fastest first."""
        return exploration_data(found, found.ranked())

    def html(self, found: Exploration) -> str:
        """Return a table of the fastest points."""
        ranked = found.ranked()
        rows = [[found.named(point), *_cells(found, point)] for point in ranked[:MOST_ROWS]]
        first, *others = TOTALS
        heads = ["choices", first, "dp over it", *others, ""]
        title = f"{found.plan.model.name}, {asked(found.plan)} {on_machine(found.plan.score)}: {found.named(ranked[0])} is the fastest"
        return fragment(
            title,
            heads,
            rows,
            [
                *(f"{note.label}: {note.text}" for note in exploration_notes(found, ranked)),
                *more(len(ranked), MOST_ROWS),
            ],
        )

    def drawing(self, found: Exploration) -> Figure:
        """Return the points in the order of their times."""
        return replace(found.figure(), shown=seconds)


def _cells(found: Exploration, point: Point) -> list[str]:
    """Return the cells of a point's totals."""
    time, *others = totals_cells(point.totals)
    notes = ("the plan" if point.own else "", "" if point.fits else "does not fit")
    gain = ratio(found.baseline.time_s, point.totals.time_s)
    return [time, gain, *others, ", ".join(filter(None, notes))]


plugin: View[Exploration] = ExplorationView()
