"""Verifications: a row for each level and for each transfer that differs, and bars of the bytes of each level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.reports.listings.verifications import headline, number_lines, transfer_of
from hypar.reports.page.fragment import fragment
from hypar.reports.page.numbers import num_bytes
from hypar.reports.views.base import more
from hypar.studies.verification.cases import REASONS
from hypar.units import exact_number

if TYPE_CHECKING:
    from hypar.reports.views.base import View
    from hypar.studies.verification.result import Verified

MOST_ROWS = 48
"""The largest number of differences in a notebook."""


class VerificationView:
    """The view of a verification."""

    def rows(self, found: Verified) -> list[dict[str, Any]]:
        """Return one row for each level, then one for each transfer and level that the plan's cost counts otherwise."""
        levels = [
            {
                "level": each.level,
                "layer": "all",
                "maker": None,
                "phase": "all",
                "tensor": "all",
                "planned_bytes": exact_number(each.planned),
                "counted_bytes": each.counted,
                "moved_bytes": each.moved,
                "case": None,
            }
            for each in found.levels
        ]
        return levels + [
            {
                "level": each.level,
                **each.item._asdict(),
                "planned_bytes": exact_number(each.planned),
                "counted_bytes": each.counted,
                "moved_bytes": None,
                "case": each.case,
            }
            for each in found.differences
        ]

    def html(self, found: Verified) -> str:
        """Return a table of the levels and of what differs there."""
        rows = [
            [
                each.level,
                "all",
                num_bytes(each.planned),
                num_bytes(each.counted),
                "" if each.moved is None else num_bytes(each.moved),
                "",
            ]
            for each in found.levels
        ]
        rows += [
            [
                each.level,
                transfer_of(each.item),
                num_bytes(each.planned),
                num_bytes(each.counted),
                "",
                each.case,
            ]
            for each in found.differences[:MOST_ROWS]
        ]
        letters = dict.fromkeys(sorted(each.case for each in found.differences[:MOST_ROWS]))
        reasons = [f"{letter}: {REASONS[letter]}" for letter in letters]
        notes = [
            *more(len(found.differences), MOST_ROWS),
            *reasons,
            *map(str, found.changes[:MOST_ROWS]),
            *number_lines(found.numbers),
            *found.notes,
        ]
        heads = ["level", "transfer", "planned", "counted", "moved", "case"]
        return fragment(headline(found), heads, rows, notes)

    def drawing(self, found: Verified) -> Figure:
        """Return bars of the bytes of each level, as planned, as counted and as moved."""
        series: dict[str, list[float | None]] = {
            "planned": [each.planned for each in found.levels],
            "counted": [each.counted for each in found.levels],
        }
        if found.numbers is not None:
            series["moved"] = [each.moved for each in found.levels]
        return Figure(
            title=headline(found),
            x=[each.level for each in found.levels],
            x_label="",
            y_label="bytes that all devices receive",
            series=series,
            shown=num_bytes,
        )


plugin: View[Verified] = VerificationView()
