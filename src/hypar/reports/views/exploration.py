"""Explorations: a row for each point, and the points in the order of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.reports.formats.base import on_machine, question
from hypar.reports.listings.points import exploration_data, exploration_notes
from hypar.reports.page.fragment import fragment
from hypar.reports.views.base import View, times
from hypar.units import format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from hypar.files.figures import Figure
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
        hidden = len(ranked) - len(rows)
        more = [f"{hidden:,} slower points not shown"] if hidden else []
        heads = ["choices", "time", "dp over it", "energy", "communication", ""]
        title = f"{question(found.plan)} {on_machine(found.plan.score)}"
        return fragment(title, heads, rows, [*exploration_notes(found, ranked), *more])

    def drawing(self, found: Exploration) -> Figure:
        """Return the points in the order of their times."""
        return found.figure()


def _cells(found: Exploration, point: Point) -> list[str]:
    """Return the cells of a point's totals."""
    energy = "–" if point.totals.energy_j is None else format_joules(point.totals.energy_j)
    notes = ("the plan" if point.own else "", "" if point.fits else "does not fit")
    return [
        format_seconds(point.totals.time_s),
        times(found.speedup(point)),
        energy,
        format_bytes(point.totals.communication_bytes),
        ", ".join(filter(None, notes)),
    ]


plugin: View[Exploration] = ExplorationView()
