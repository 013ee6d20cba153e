"""The interface of views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hypar.reports.page.numbers import DASH, joules, num_bytes, seconds

if TYPE_CHECKING:
    from hypar.files.canvas import Drawing
    from hypar.plan.score import Score, Totals

TOTALS = ["time", "energy", "communication", "memory"]
"""The heads of the cells of totals."""

Seen = TypeVar("Seen", contravariant=True)  # noqa: PLC0105 (the protocol is the only place)


class View(Protocol[Seen]):
    """The forms in which a result is shown outside the terminal."""

    def rows(self, result: Seen) -> list[dict[str, Any]]:
        """Return the rows of its data frame, with plain numbers and texts."""

    def html(self, result: Seen) -> str:
        """Return an HTML fragment for a notebook."""

    def drawing(self, result: Seen) -> Drawing:
        """Return the data of its picture."""


def totals_cells(totals: Score | Totals | None) -> list[str]:
    """Return the time, energy, communication and memory of a step; dashes if it was not scored."""
    if totals is None:
        return [DASH] * len(TOTALS)
    sizes = map(num_bytes, (totals.communication_bytes, totals.memory_bytes))
    return [seconds(totals.time_s), joules(totals.energy_j), *sizes]


def more(count: int, shown: int) -> list[str]:
    """Return a line that says how many rows are not shown; none if all are."""
    return [f"{count - shown:,} more rows in to_frame()"] if count > shown else []
